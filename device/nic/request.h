// SPDX-License-Identifier: Apache-2.0
//
// What a kernel asks of a NIC, as plain data: no byte order, no ring, no queue. A model (nic.h)
// makes of it what its NIC reads.
//
//   Write  WriteInline<N>  WriteWord<N>  Read  ReadWord<N>      bytes there or here
//   MayCombine<request>                                         one that others' may be joined to
//   Atomic<update, word>  CompareSwap<word>                     a word there; the old value here
//   Dump                                                        a look at memory here
//   Fenced<request>                                             one that waits for those before it
//
// What is the same for all requests of a kind is part of the type: values that a post keeps while
// it waits cost registers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "device/base/access.h"
#include "device/base/target.h"
#include "device/shared/nic_key.h"

namespace peal::nic {

/// Memory at the peer: address as its registration knows it.
struct Remote {
  uint64_t address;
  NicKey key;
};

/// Memory at home, likewise.
struct Local {
  uint64_t address;
  NicKey key;
};

/// Instead of Local: nobody wants the value.
struct Nowhere {};

/// Stores 1..Nic::kMaxMessageBytes bytes.
struct Write {
  Remote remote;
  Local local;
  uint32_t bytes;
};

/// Stores up to 4 * N bytes, which travel in the request; `word` has them in memory order. N is 3
/// or 7.
template <uint32_t N>
struct WriteInline {
  Remote remote;
  uint32_t word[N];
  uint32_t bytes;
};

// Not by a loop: the words then stay in registers.
template <uint32_t N, size_t... kWord>
PEAL_HD constexpr WriteInline<N> write_inline(const Remote& remote, const uint32_t (&word)[N],
                                              uint32_t bytes, std::index_sequence<kWord...>) {
  return {remote, {word[kWord]...}, bytes};
}
template <uint32_t N>
PEAL_HD constexpr WriteInline<N> write_inline(const Remote& remote, const uint32_t (&word)[N],
                                              uint32_t bytes) {
  return write_inline(remote, word, bytes, std::make_index_sequence<N>{});
}

/// Stores the kBytes low bytes of `bits`; at most 8.
template <uint32_t kBytes>
struct WriteWord {
  Remote remote;
  uint64_t bits;
};

/// A WriteInline<3> or WriteWord that may become one request with those of the lanes that post
/// together (combine.h).
template <class Request>
struct MayCombine {
  Request request;
};

/// Fetches 1..Nic::kMaxMessageBytes bytes.
struct Read {
  Remote remote;
  Local local;
  uint32_t bytes;
};

/// Fetches kBytes bytes; at most 8.
template <uint32_t kBytes, class Result = Local>
struct ReadWord {
  Remote remote;
  Result local;
};

/// Makes updated<U>(word, value) of a word of 4 or 8 bytes and fetches the old value. U is kAdd,
/// kAnd, kOr, kXor or kSwap.
template <Update U, class W, class Result = Local>
struct Atomic {
  Remote remote;
  Result local;
  W value;
};

/// Makes `value` of a word that is `compare`, and fetches what it was.
template <class W>
struct CompareSwap {
  Remote remote;
  Local local;
  W compare;
  W value;
};

/// Makes the NIC read `bytes` at home and forget them: pushes earlier writes of that NIC ahead of
/// what follows.
struct Dump {
  Local local;
  uint32_t bytes;
};

/// What a request waits for at the NIC, beside its turn. The numbers are any that a model turns
/// into its own by few instructions.
enum class RequestFence : uint32_t {
  kNone = 0,
  kFetches = 2,  ///< until those that fetch, of the queue's earlier requests, are complete
  kAll = 3,      ///< until all of them are
};

template <class Request>
struct Fenced {
  RequestFence fence;  // ahead: behind the request it costs kernels registers
  Request request;
};

}  // namespace peal::nic
