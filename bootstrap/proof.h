// SPDX-License-Identifier: Apache-2.0
//
// How both ends of a fresh connection show that they know the job's secret, which never travels:
// each sends a keyed hash (HMAC-SHA256, libnettle) of what the other has made up.
//
//   joiner  --  Hello: magic, random bytes, rank, size  -->  rank 0
//   joiner  <--  challenge: random bytes                --   rank 0
//   joiner  --  proof of a joiner                       -->  rank 0    hangs up unless it is right
//   joiner  <--  proof of rank 0, then frames           --   rank 0
//
// The joiner proves first: who knocks at rank 0's door without the secret hears nothing with which
// to try out guesses.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace peal::bootstrap {

using Secret = std::array<std::byte, 16>;
using Challenge = std::array<std::byte, 16>;
using Proof = std::array<std::byte, 32>;

/// The first bytes on a connection to rank 0.
struct Hello {
  std::uint64_t magic = kMagic;
  Challenge challenge{};
  std::uint32_t rank = 0;
  std::uint32_t size = 0;

  static constexpr std::uint64_t kMagic = 0x337063746c616570;  // the bytes "pealtcp3"
};
static_assert(sizeof(Hello) == 32);

/// Which end the proof is from: a proof of one end is not valid for the other.
enum class ProofSide { kJoiner, kRoot };

/// What `side` says on the connection that began with `hello` and `challenge`.
Proof make_proof(const Secret& secret, ProofSide side, const Hello& hello,
                 const Challenge& challenge);

/// Takes the same time wherever the first difference is.
bool same_proof(const Proof& a, const Proof& b);

}  // namespace peal::bootstrap
