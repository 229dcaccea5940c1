// SPDX-License-Identifier: Apache-2.0
//
// Composition: from a request (device/nic/request.h) to the bytes of a work queue entry. Pure
// functions of their arguments; nothing here knows of queues. A WQE is a few 16-byte lines:
//
// clang-format off
//   put, get          control | remote | data
//   inline put        control | remote | header and up to 12 bytes | up to 16 bytes
//   of several lanes  control | remote | header and 12 bytes | 16 bytes | ...
//   atomic            control | remote | operands | data
//   8-byte masked     control | remote | operands | masks | data        (compare-swap)
//   DUMP              control | data
//   NOP               control
// clang-format on
#pragma once

#include <cstdint>

#include "device/base/endian.h"
#include "device/base/order.h"
#include "device/base/target.h"
#include "device/mlx5/key.h"
#include "device/mlx5/layout.h"
#include "device/nic/request.h"

namespace peal::mlx5 {

/// The lines of one WQE; `kLines` is its `ds`.
template <uint32_t kLines>
struct Wqe {
  static constexpr uint32_t kSegments = kLines;
  static constexpr uint32_t kBlocks = (kLines * kSegmentBytes + kWqebbBytes - 1) / kWqebbBytes;
  Line line[kLines];
};

/// Names the queue, the slot and the manners of one WQE.
struct Header {
  uint64_t index;    // first WQEBB, free-running; the low 16 bits go on the wire
  Be32 qpn_shifted;  // qpn << 8, swapped once at set-up
  Completion completion = Completion::kAlways;
  Fence fence = Fence::kNone;
};

namespace detail {

// Two 32-bit words in the order a little-endian machine stores them.
PEAL_HD constexpr uint64_t pair(Be32 first, Be32 second) {
  return static_cast<uint64_t>(first.raw) | (static_cast<uint64_t>(second.raw) << 32);
}

PEAL_HD Line control(const Header& h, Opcode opcode, uint32_t segments, uint8_t opmod = 0) {
  // Index and QPN lie as doorbells have them (doorbell.h), so that the compiler makes the two words
  // once. The other two are the bytes that those leave 0.
  const Be32 index16{static_cast<uint32_t>(h.index & 0xffff)};
  const uint64_t fixed =
      uint64_t{segments} << 56 | uint64_t{static_cast<uint32_t>(opcode)} << 24 | opmod;
  const uint64_t first = fixed | uint64_t{h.qpn_shifted.raw} << 32 | shifted_up(index16).raw;
  const Be32 flags{static_cast<uint32_t>(h.fence) | static_cast<uint32_t>(h.completion)};
  return Line{{first, pair(flags, Be32{0u})}};
}

PEAL_HD Line remote(const nic::Remote& r) {
  return Line{{Be64{r.address}.raw, pair(wire(r.key), Be32{0u})}};
}

PEAL_HD Line data(const nic::Local& l, uint32_t bytes) {
  return Line{{pair(Be32{bytes}, wire(l.key)), Be64{l.address}.raw}};
}

PEAL_HD Line operands(uint64_t first, uint64_t second) {
  return Line{{Be64{first}.raw, Be64{second}.raw}};
}

}  // namespace detail

/// Does nothing, in order. With Completion::kAlways its completion says that all before it is done.
struct Nop {};
PEAL_HD Wqe<1> compose(const Header& h, Nop) { return {{detail::control(h, Opcode::kNop, 1)}}; }

/// RDMA WRITE of 1..2^30 bytes.
PEAL_HD Wqe<3> compose(const Header& h, const nic::Write& w) {
  return {{detail::control(h, Opcode::kRdmaWrite, 3), detail::remote(w.remote),
           detail::data(w.local, w.bytes)}};
}

/// RDMA READ of 1..2^30 bytes.
PEAL_HD Wqe<3> compose(const Header& h, const nic::Read& r) {
  return {{detail::control(h, Opcode::kRdmaRead, 3), detail::remote(r.remote),
           detail::data(r.local, r.bytes)}};
}

template <uint32_t kBytes>
PEAL_HD Wqe<3> compose(const Header& h, const nic::ReadWord<kBytes>& r) {
  return compose(h, nic::Read{r.remote, r.local, kBytes});
}

/// RDMA WRITE of 1..12 bytes carried in the WQE itself.
PEAL_HD Wqe<3> compose(const Header& h, const nic::WriteInline<3>& w) {
  const uint32_t(&p)[3] = w.word;
  const Line body{
      {static_cast<uint64_t>(Be32{w.bytes | kInlineFlag}.raw) | (static_cast<uint64_t>(p[0]) << 32),
       static_cast<uint64_t>(p[1]) | (static_cast<uint64_t>(p[2]) << 32)}};
  return {{detail::control(h, Opcode::kRdmaWrite, 3), detail::remote(w.remote), body}};
}

/// Lines of an RDMA WRITE that carries `bytes`. Where several lanes compose one it has up to 27,
/// 432 bytes: of RC mlx5_ib expects no more than 512 (get_send_sge(),
/// drivers/infiniband/hw/mlx5/qp.c).
PEAL_HD constexpr uint32_t inline_segments(uint32_t bytes) {
  return 2 +
         (static_cast<uint32_t>(sizeof(InlineHeader)) + bytes + kSegmentBytes - 1) / kSegmentBytes;
}
/// Of the longest entry that kernels compose: 32 lanes store 12 bytes each.
inline constexpr uint32_t kLongestWqeBytes = inline_segments(32 * 12) * kSegmentBytes;
static_assert(kLongestWqeBytes == 432);

/// RDMA WRITE of one value of 1..8 bytes.
template <uint32_t kBytes>
PEAL_HD Wqe<3> compose(const Header& h, const nic::WriteWord<kBytes>& w) {
  static_assert(kBytes >= 1 && kBytes <= 8);
  const auto low = static_cast<uint32_t>(w.bits);
  const auto high = static_cast<uint32_t>(w.bits >> 32);
  return compose(h, nic::WriteInline<3>{w.remote, {low, high, 0}, kBytes});
}

/// RDMA WRITE of 13..28 bytes carried in the WQE itself.
PEAL_HD Wqe<4> compose(const Header& h, const nic::WriteInline<7>& w) {
  const uint32_t(&p)[7] = w.word;
  const Line body{
      {static_cast<uint64_t>(Be32{w.bytes | kInlineFlag}.raw) | (static_cast<uint64_t>(p[0]) << 32),
       static_cast<uint64_t>(p[1]) | (static_cast<uint64_t>(p[2]) << 32)}};
  const Line rest{{static_cast<uint64_t>(p[3]) | (static_cast<uint64_t>(p[4]) << 32),
                   static_cast<uint64_t>(p[5]) | (static_cast<uint64_t>(p[6]) << 32)}};
  return {{detail::control(h, Opcode::kRdmaWrite, 4), detail::remote(w.remote), body, rest}};
}

/// What a masked compare-swap does: where (memory ^ compare) & compare_mask is 0, bits of swap_mask
/// become swap's.
template <class Word>
struct MaskedSwap {
  Word compare;
  Word compare_mask;
  Word swap;
  Word swap_mask;
};

/// What a masked fetch-add does: adds; a bit set in `boundary` cuts the carry out of that bit (all
/// ones: xor).
template <class Word>
struct MaskedAdd {
  Word add;
  Word boundary;
};

/// 4-byte masked compare-swap; the old value lands big-endian.
PEAL_HD Wqe<4> compose_masked(const Header& h, const nic::Remote& at,
                              const MaskedSwap<uint32_t>& op, const nic::Local& result) {
  const Line body{{detail::pair(Be32{op.swap}, Be32{op.compare}),
                   detail::pair(Be32{op.swap_mask}, Be32{op.compare_mask})}};
  return {{detail::control(h, Opcode::kAtomicMaskedCompareSwap, 4, kOpmodAtomic4),
           detail::remote(at), body, detail::data(result, 4)}};
}

/// 4-byte masked fetch-add; the old value lands big-endian.
PEAL_HD Wqe<4> compose_masked(const Header& h, const nic::Remote& at, const MaskedAdd<uint32_t>& op,
                              const nic::Local& result) {
  const Line body{{detail::pair(Be32{op.add}, Be32{op.boundary}), 0}};
  return {{detail::control(h, Opcode::kAtomicMaskedFetchAdd, 4, kOpmodAtomic4), detail::remote(at),
           body, detail::data(result, 4)}};
}

/// 8-byte masked compare-swap: two WQEBBs, the result's data segment opens the second.
PEAL_HD Wqe<5> compose_masked(const Header& h, const nic::Remote& at,
                              const MaskedSwap<uint64_t>& op, const nic::Local& result) {
  return {{detail::control(h, Opcode::kAtomicMaskedCompareSwap, 5, kOpmodAtomic8),
           detail::remote(at), detail::operands(op.swap, op.compare),
           detail::operands(op.swap_mask, op.compare_mask), detail::data(result, 8)}};
}

/// 8-byte masked fetch-add.
PEAL_HD Wqe<4> compose_masked(const Header& h, const nic::Remote& at, const MaskedAdd<uint64_t>& op,
                              const nic::Local& result) {
  return {{detail::control(h, Opcode::kAtomicMaskedFetchAdd, 4, kOpmodAtomic8), detail::remote(at),
           detail::operands(op.add, op.boundary), detail::data(result, 8)}};
}

/// An 8-byte fetch-add is a plain one; its result lands in host byte order. All others are masked:
/// of and, or and swap the bits of a mask become those of the value, whatever was there.
template <Update U, class W>
PEAL_HD auto compose(const Header& h, const nic::Atomic<U, W>& a) {
  constexpr W kAll = static_cast<W>(~W{0});
  if constexpr (U == Update::kAdd && sizeof(W) == 8) {
    return Wqe<4>{{detail::control(h, Opcode::kAtomicFetchAdd, 4), detail::remote(a.remote),
                   detail::operands(a.value, 0), detail::data(a.local, 8)}};
  } else if constexpr (U == Update::kAdd || U == Update::kXor) {
    const W boundary = U == Update::kXor ? kAll : W{0};  // no carries: xor
    return compose_masked(h, a.remote, MaskedAdd<W>{a.value, boundary}, a.local);
  } else {
    static_assert(U == Update::kAnd || U == Update::kOr || U == Update::kSwap);
    const W mask = U == Update::kSwap ? kAll
                   : U == Update::kOr ? a.value
                                      : static_cast<W>(~a.value);
    return compose_masked(h, a.remote, MaskedSwap<W>{0, 0, a.value, mask}, a.local);
  }
}

/// Plain on 8 bytes, masked on 4.
template <class W>
PEAL_HD Wqe<4> compose(const Header& h, const nic::CompareSwap<W>& a) {
  if constexpr (sizeof(W) == 8) {
    return {{detail::control(h, Opcode::kAtomicCompareSwap, 4), detail::remote(a.remote),
             detail::operands(a.value, a.compare), detail::data(a.local, 8)}};
  } else {
    constexpr W kAll = static_cast<W>(~W{0});
    return compose_masked(h, a.remote, MaskedSwap<W>{a.compare, kAll, a.value, kAll}, a.local);
  }
}

PEAL_HD Wqe<2> compose(const Header& h, const nic::Dump& d) {
  return {{detail::control(h, Opcode::kDump, 2), detail::data(d.local, d.bytes)}};
}

PEAL_HD constexpr Fence wire(nic::RequestFence fence) {
  return static_cast<Fence>(static_cast<uint32_t>(fence) << 5);
}
static_assert(wire(nic::RequestFence::kNone) == Fence::kNone);
static_assert(wire(nic::RequestFence::kFetches) == Fence::kFence);
static_assert(wire(nic::RequestFence::kAll) == Fence::kStrong);

/// The fence takes the place of the header's own.
template <class Request>
PEAL_HD auto compose(Header h, const nic::Fenced<Request>& fenced) {
  h.fence = wire(fenced.fence);
  return compose(h, fenced.request);
}

/// Stops the queue until CQ `cqn` has produced more than `max_index` completions.
struct WaitForCq {
  uint32_t cqn;
  uint32_t max_index;
};
PEAL_HD Wqe<2> compose(const Header& h, const WaitForCq& w) {
  return {{detail::control(h, Opcode::kWait, 2),
           Line{{0, detail::pair(Be32{w.max_index}, Be32{w.cqn})}}}};
}

}  // namespace peal::mlx5
