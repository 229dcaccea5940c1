// SPDX-License-Identifier: Apache-2.0
//
// From the bytes of a work queue entry to what a CPU has to post for it. Strict: what kernels of
// peal do not compose is an error, as is a slot that still holds another lap's entry (the 16-bit
// index in the control segment counts laps above the ring's mask).
//
// The ring belongs to the kernels: each 16-byte line is read once, and what was read is judged.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/mlx5/layout.h"
#include "host/nic/mlx5/masked_atomic.h"

namespace peal {

/// The ring of a queue, as a CPU reads it.
struct ProxyRing {
  const std::byte* blocks;
  uint32_t depth;  // WQEBBs; power of two
  uint32_t qpn;    // as its control segments name it
};

/// One entry, in host byte order.
struct ProxyWork {
  enum class Kind : uint8_t {
    kNothing,
    kWrite,
    kInlineWrite,
    kRead,
    kCompareSwap,
    kFetchAdd,
    kMasked
  };

  Kind kind = Kind::kNothing;
  mlx5::Opcode opcode = mlx5::Opcode::kNop;
  mlx5::Fence fence = mlx5::Fence::kNone;
  bool reports = false;  // asks for a completion
  uint32_t blocks = 1;   // it takes in the ring; valid whatever the verdict
  uint32_t rkey = 0;
  uint64_t remote = 0;
  uint32_t lkey = 0;
  uint32_t bytes = 0;
  uint64_t local = 0;
  uint64_t swap_or_add = 0;  // of plain atomics
  uint64_t compare = 0;
  MaskedAtomic masked{};
  alignas(8) std::byte in_place[mlx5::kMaxInlineBytes] = {};
};

/// Decodes the entry at WQEBB `index` of a ring that is posted up to `posted` (both free-running).
/// Answers kNone, or what a NIC would complain of: kLocalQpOperation; kLocalLength for a message of
/// more than 1 GiB; kRemoteInvalidRequest for an atomic on a word that is not aligned.
mlx5::Syndrome decode_for_proxy(const ProxyRing& ring, uint64_t index, uint64_t posted,
                                ProxyWork& work);

}  // namespace peal
