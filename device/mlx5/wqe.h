// SPDX-License-Identifier: Apache-2.0
//
// Composition: from what is wanted to the bytes of a work queue entry. Pure functions of their
// arguments; nothing here knows of queues. A WQE is a few 16-byte lines:
//
// clang-format off
//   put, get          control | remote | data
//   inline put        control | remote | header and up to 12 bytes | up to 16 bytes
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
#include "device/mlx5/layout.h"

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

/// Memory at home: address as its registration knows it, key already big-endian.
struct Local {
  uint64_t address;
  Be32 lkey;
};

/// Memory at the peer.
struct Remote {
  uint64_t address;
  Be32 rkey;
};

namespace detail {

// Two 32-bit words in the order a little-endian machine stores them.
PEAL_HD constexpr uint64_t pair(Be32 first, Be32 second) {
  return static_cast<uint64_t>(first.raw) | (static_cast<uint64_t>(second.raw) << 32);
}

PEAL_HD Line control(const Header& h, Opcode opcode, uint32_t segments, uint8_t opmod = 0) {
  const uint32_t index16 = static_cast<uint32_t>(h.index & 0xffff);
  const Be32 opmod_idx_opcode{(static_cast<uint32_t>(opmod) << 24) | (index16 << 8) |
                              static_cast<uint32_t>(opcode)};
  // ds is the last byte of a big-endian word whose other bytes are the QPN: no swap needed.
  const Be32 qpn_ds = Be32::from_raw(h.qpn_shifted.raw | (segments << 24));
  const Be32 flags{static_cast<uint32_t>(h.fence) | static_cast<uint32_t>(h.completion)};
  return Line{{pair(opmod_idx_opcode, qpn_ds), pair(flags, Be32{0u})}};
}

PEAL_HD Line remote(const Remote& r) { return Line{{Be64{r.address}.raw, pair(r.rkey, Be32{0u})}}; }

PEAL_HD Line data(const Local& l, uint32_t bytes) {
  return Line{{pair(Be32{bytes}, l.lkey), Be64{l.address}.raw}};
}

PEAL_HD Line operands(uint64_t first, uint64_t second) {
  return Line{{Be64{first}.raw, Be64{second}.raw}};
}

}  // namespace detail

/// Does nothing, in order. With Completion::kAlways its completion says that all before it is done.
PEAL_HD Wqe<1> compose_nop(const Header& h) { return {{detail::control(h, Opcode::kNop, 1)}}; }

/// RDMA WRITE of 1..2^30 bytes.
PEAL_HD Wqe<3> compose_write(const Header& h, const Remote& to, const Local& from, uint32_t bytes) {
  return {
      {detail::control(h, Opcode::kRdmaWrite, 3), detail::remote(to), detail::data(from, bytes)}};
}

/// RDMA READ of 1..2^30 bytes.
PEAL_HD Wqe<3> compose_read(const Header& h, const Remote& from, const Local& to, uint32_t bytes) {
  return {
      {detail::control(h, Opcode::kRdmaRead, 3), detail::remote(from), detail::data(to, bytes)}};
}

/// RDMA WRITE of 1..12 bytes carried in the WQE itself; `payload` holds them in memory order.
PEAL_HD Wqe<3> compose_write_inline(const Header& h, const Remote& to, const uint32_t (&payload)[3],
                                    uint32_t bytes) {
  const Line body{{static_cast<uint64_t>(Be32{bytes | kInlineFlag}.raw) |
                       (static_cast<uint64_t>(payload[0]) << 32),
                   static_cast<uint64_t>(payload[1]) | (static_cast<uint64_t>(payload[2]) << 32)}};
  return {{detail::control(h, Opcode::kRdmaWrite, 3), detail::remote(to), body}};
}

/// RDMA WRITE of one value of 1..8 bytes.
PEAL_HD Wqe<3> compose_write_word(const Header& h, const Remote& to, uint64_t bits,
                                  uint32_t bytes) {
  const uint32_t payload[3] = {static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32), 0};
  return compose_write_inline(h, to, payload, bytes);
}

/// RDMA WRITE of 13..28 bytes carried in the WQE itself.
PEAL_HD Wqe<4> compose_write_inline(const Header& h, const Remote& to, const uint32_t (&payload)[7],
                                    uint32_t bytes) {
  const uint32_t(&p)[7] = payload;
  const Line body{
      {static_cast<uint64_t>(Be32{bytes | kInlineFlag}.raw) | (static_cast<uint64_t>(p[0]) << 32),
       static_cast<uint64_t>(p[1]) | (static_cast<uint64_t>(p[2]) << 32)}};
  const Line rest{{static_cast<uint64_t>(p[3]) | (static_cast<uint64_t>(p[4]) << 32),
                   static_cast<uint64_t>(p[5]) | (static_cast<uint64_t>(p[6]) << 32)}};
  return {{detail::control(h, Opcode::kRdmaWrite, 4), detail::remote(to), body, rest}};
}

/// 8-byte fetch-add; the old value lands, in host byte order, at `result`.
PEAL_HD Wqe<4> compose_fetch_add(const Header& h, const Remote& at, uint64_t add,
                                 const Local& result) {
  return {{detail::control(h, Opcode::kAtomicFetchAdd, 4), detail::remote(at),
           detail::operands(add, 0), detail::data(result, 8)}};
}

/// 8-byte compare-swap.
PEAL_HD Wqe<4> compose_compare_swap(const Header& h, const Remote& at, uint64_t compare,
                                    uint64_t swap, const Local& result) {
  return {{detail::control(h, Opcode::kAtomicCompareSwap, 4), detail::remote(at),
           detail::operands(swap, compare), detail::data(result, 8)}};
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
PEAL_HD Wqe<4> compose_masked(const Header& h, const Remote& at, const MaskedSwap<uint32_t>& op,
                              const Local& result) {
  const Line body{{detail::pair(Be32{op.swap}, Be32{op.compare}),
                   detail::pair(Be32{op.swap_mask}, Be32{op.compare_mask})}};
  return {{detail::control(h, Opcode::kAtomicMaskedCompareSwap, 4, kOpmodAtomic4),
           detail::remote(at), body, detail::data(result, 4)}};
}

/// 4-byte masked fetch-add; the old value lands big-endian.
PEAL_HD Wqe<4> compose_masked(const Header& h, const Remote& at, const MaskedAdd<uint32_t>& op,
                              const Local& result) {
  const Line body{{detail::pair(Be32{op.add}, Be32{op.boundary}), 0}};
  return {{detail::control(h, Opcode::kAtomicMaskedFetchAdd, 4, kOpmodAtomic4), detail::remote(at),
           body, detail::data(result, 4)}};
}

/// 8-byte masked compare-swap: two WQEBBs, the result's data segment opens the second.
PEAL_HD Wqe<5> compose_masked(const Header& h, const Remote& at, const MaskedSwap<uint64_t>& op,
                              const Local& result) {
  return {{detail::control(h, Opcode::kAtomicMaskedCompareSwap, 5, kOpmodAtomic8),
           detail::remote(at), detail::operands(op.swap, op.compare),
           detail::operands(op.swap_mask, op.compare_mask), detail::data(result, 8)}};
}

/// 8-byte masked fetch-add.
PEAL_HD Wqe<4> compose_masked(const Header& h, const Remote& at, const MaskedAdd<uint64_t>& op,
                              const Local& result) {
  return {{detail::control(h, Opcode::kAtomicMaskedFetchAdd, 4, kOpmodAtomic8), detail::remote(at),
           detail::operands(op.add, op.boundary), detail::data(result, 8)}};
}

/// Makes the NIC read `bytes` at `from` and forget them: pushes earlier NIC writes ahead of what
/// follows.
PEAL_HD Wqe<2> compose_dump(const Header& h, const Local& from, uint32_t bytes) {
  return {{detail::control(h, Opcode::kDump, 2), detail::data(from, bytes)}};
}

/// Stops the queue until CQ `cqn` has produced more than `max_index` completions.
PEAL_HD Wqe<2> compose_wait(const Header& h, uint32_t cqn, uint32_t max_index) {
  return {
      {detail::control(h, Opcode::kWait, 2), Line{{0, detail::pair(Be32{max_index}, Be32{cqn})}}}};
}

}  // namespace peal::mlx5
