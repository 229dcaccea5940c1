// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/proof.h"

#include <nettle/hmac.h>
#include <nettle/memops.h>

#include <string_view>

namespace peal::bootstrap {
namespace {

const std::uint8_t* octets(const void* data) { return static_cast<const std::uint8_t*>(data); }

}  // namespace

Proof make_proof(const Secret& secret, ProofSide side, const Hello& hello,
                 const Challenge& challenge) {
  const std::string_view name = side == ProofSide::kJoiner ? "peal: joiner" : "peal: rank 0";
  hmac_sha256_ctx hash;
  ::hmac_sha256_set_key(&hash, secret.size(), octets(secret.data()));
  ::hmac_sha256_update(&hash, name.size(), octets(name.data()));
  ::hmac_sha256_update(&hash, sizeof hello, octets(&hello));
  ::hmac_sha256_update(&hash, challenge.size(), octets(challenge.data()));
  Proof proof;
  static_assert(sizeof proof == SHA256_DIGEST_SIZE);
  ::hmac_sha256_digest(&hash, proof.size(), reinterpret_cast<std::uint8_t*>(proof.data()));
  return proof;
}

bool same_proof(const Proof& a, const Proof& b) {
  return ::memeql_sec(a.data(), b.data(), a.size()) != 0;
}

}  // namespace peal::bootstrap
