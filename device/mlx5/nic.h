// SPDX-License-Identifier: Apache-2.0
//
// An mlx5 as a model of a NIC (device/nic/nic.h): WQEs, doorbells, and a collapsed completion
// queue, whose one CQE the NIC overwrites, newest wins. It names the first WQEBB of the last
// completed WQE in 16 bits.
#pragma once

#include <cstdint>
#include <utility>

#include "device/base/order.h"
#include "device/base/target.h"
#include "device/mlx5/doorbell.h"
#include "device/mlx5/layout.h"
#include "device/mlx5/work_queue.h"
#include "device/mlx5/wqe.h"
#include "device/nic/nic.h"

namespace peal::mlx5 {

namespace detail {

// Unrolled by hand: the lines then stay in registers until they are stored.
template <uint32_t kLines, size_t... kLine>
PEAL_HD void write_lines(const WorkQueue& queue, uint32_t mask, uint64_t index,
                         const Wqe<kLines>& wqe, std::index_sequence<kLine...>) {
  (store_line(&queue.block(index + kLine / 4, mask)->line[kLine % 4], wqe.line[kLine]), ...);
}

}  // namespace detail

/// Stores one WQE at `index`. A WQE that runs past the last block continues at block 0.
template <uint32_t kLines>
PEAL_HD void write(const WorkQueue& queue, uint32_t mask, uint64_t index, const Wqe<kLines>& wqe) {
  detail::write_lines(queue, mask, index, wqe, std::make_index_sequence<kLines>{});
}

/// Stores a WRITE that several lanes make: a line of its data by each, the first two by the first
/// lane. There are no more lines of data than lanes, which have at most 12 bytes each.
template <class Store>
PEAL_HD void write_combined(const WorkQueue& queue, uint32_t mask, const Header& header,
                            const Store& store) {
  const uint32_t rank = store.rank();
  const auto line_at = [&](uint32_t at) {
    constexpr uint32_t kLinesPerBlock = kWqebbBytes / kSegmentBytes;
    return &queue.block(header.index + at / kLinesPerBlock, mask)->line[at % kLinesPerBlock];
  };
  // The length takes the place of a word ahead of the first.
  const uint32_t before = store.word(4 * rank - 1);
  const uint32_t word[3] = {store.word(4 * rank), store.word(4 * rank + 1),
                            store.word(4 * rank + 2)};
  if (rank == 0) {
    store_line(line_at(0),
               detail::control(header, Opcode::kRdmaWrite, inline_segments(store.bytes())));
    store_line(line_at(1), detail::remote(store.remote));
  }
  if (rank < inline_segments(store.bytes()) - 2) {
    const uint32_t first = rank == 0 ? Be32{store.bytes() | kInlineFlag}.raw : before;
    store_line(line_at(2 + rank),
               Line{{first | uint64_t{word[0]} << 32, word[1] | uint64_t{word[2]} << 32}});
  }
}

/// The tail of a CQE: 8 bytes that the NIC stores as one word.
class CqeTail {
 public:
  PEAL_HD explicit CqeTail(uint64_t tail)
      : tail_(tail), last_(swap_bytes(static_cast<uint32_t>(tail >> 32))) {}

  PEAL_HD bool none() const { return opcode() == CqeOpcode::kInvalid; }
  PEAL_HD bool failed() const {
    return opcode() == CqeOpcode::kRequesterError || opcode() == CqeOpcode::kResponderError;
  }
  PEAL_HD uint32_t count() const { return last_ >> 16; }
  /// Cqe::opcode_qpn.
  PEAL_HD uint32_t tag() const { return swap_bytes(static_cast<uint32_t>(tail_)); }
  PEAL_HD CqeOpcode opcode() const { return static_cast<CqeOpcode>((last_ >> 4) & 0xf); }

 private:
  uint64_t tail_;
  uint32_t last_;  // Cqe::counter_sig_op_own
};

struct NicModel {
  using WorkQueue = mlx5::WorkQueue;
  using Seen = CqeTail;
  static constexpr uint32_t kMaxDepth = mlx5::kMaxDepth;
  static constexpr uint64_t kMaxMessageBytes = mlx5::kMaxMessageBytes;
  static constexpr uint32_t kMaxInlineBytes = mlx5::kMaxInlineBytes;
  static constexpr uint64_t kCountMask = 0xffff;

  template <class Request>
  static constexpr uint32_t kBlocks =
      decltype(compose(std::declval<const Header&>(), std::declval<const Request&>()))::kBlocks;

  template <class Request>
  PEAL_HD static void write(const WorkQueue& queue, uint32_t mask, uint64_t index,
                            const Request& request, bool reports) {
    mlx5::write(queue, mask, index, compose(header_of(queue, index, reports), request));
  }

  PEAL_HD static uint32_t combined_blocks(uint32_t bytes) {
    return (inline_segments(bytes) * kSegmentBytes + kWqebbBytes - 1) / kWqebbBytes;
  }
  template <class Store>
  PEAL_HD static void write_combined(const WorkQueue& queue, uint32_t mask, uint64_t index,
                                     const Store& store) {
    mlx5::write_combined(queue, mask, header_of(queue, index, true), store);
  }

  PEAL_HD static bool is_numbered(const WorkQueue& queue) { return queue.qpn_shifted.raw != 0; }

  template <Reach R>
  PEAL_HD static void tell(const WorkQueue& queue, uint64_t posted) {
    tell_nic<R>(queue, posted_count(posted));
  }

  PEAL_HD static Seen look(const WorkQueue& queue) {
    // kResultBeforePoll: acquires what the NIC wrote before this completion (results, and the
    // peers' memory on its behalf).
    const auto* last = reinterpret_cast<const uint64_t*>(&queue.cqe->opcode_qpn);
    return Seen(load_acquire<Reach::kSystem, Edge::kResultBeforePoll>(last));
  }

  /// `tag` came with the index, in one word. The syndromes are read now: kFlushed if a flush has
  /// overwritten them since.
  PEAL_HD static void describe(const WorkQueue& queue, uint32_t tag, QueueError& error) {
    const auto* words = reinterpret_cast<const uint32_t*>(queue.cqe);
    const uint32_t syndromes = swap_bytes(load_relaxed<Reach::kSystem>(&words[13]));
    error.syndrome = static_cast<uint8_t>(syndromes & 0xff);
    error.vendor_syndrome = static_cast<uint8_t>((syndromes >> 8) & 0xff);
    error.opcode = static_cast<uint8_t>(tag >> 24);
  }

  /// 8-byte results come in host order and 4-byte results big-endian
  /// (atomic_req_8B_endianness_mode 1).
  template <class W>
  static constexpr bool kLandsAsIs = sizeof(W) == 8;

  template <class W>
  PEAL_HD static W fetched(uint64_t landed) {
    const auto old = static_cast<W>(landed);
    return kLandsAsIs<W> ? old : swap_bytes(old);
  }

 private:
  PEAL_HD static Header header_of(const WorkQueue& queue, uint64_t index, bool reports) {
    const Completion completion = reports ? Completion::kAlways : Completion::kOnFirstError;
    return {.index = index, .qpn_shifted = queue.qpn_shifted, .completion = completion};
  }
};
static_assert(nic::Nic<NicModel>);

}  // namespace peal::mlx5
