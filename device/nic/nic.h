// SPDX-License-Identifier: Apache-2.0
//
// What a model of a NIC says of the NICs that it is of: how requests lie in a ring, how the NIC
// hears of them, what it says of their end. Static functions, inlined: the protocol of queues
// (send_queue.h) is written once over it. The models:
//
//   device/mlx5/nic.h                  a ConnectX, and the software one; what kernels go by
//   tests/support/toy_nic.h            32 bytes a request: shows what a model needs, and no more
//
// Indexes are free-running counts of the ring's blocks; a model masks them itself.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "device/base/order.h"
#include "device/nic/request.h"
#include "device/shared/send_queue.h"

namespace peal::nic {

/// A request that a model can write. kBlocks: of the ring, always the same for a type of request.
/// write() stores it at `index` of the ring, around the end if need be. One that `reports` is to
/// have a completion, which stands for all before it too; of the others only an error is heard.
template <class M, class Request>
concept Takes = requires(const typename M::WorkQueue& queue, uint32_t mask, uint64_t index,
                         const Request& request, bool reports) {
  { M::template kBlocks<Request> } -> std::convertible_to<uint32_t>;
  { M::write(queue, mask, index, request, reports) } -> std::same_as<void>;
};

/// All atomics on words of one size.
template <class M, class W>
concept TakesAtomics = Takes<M, Atomic<Update::kAdd, W>> && Takes<M, Atomic<Update::kAnd, W>> &&
    Takes<M, Atomic<Update::kOr, W>> && Takes<M, Atomic<Update::kXor, W>> &&
    Takes<M, Atomic<Update::kSwap, W>> && Takes<M, CompareSwap<W>>;

/// A store that several lanes post as one request (combine.h): `bytes()` at `remote`, and its
/// 4-byte words, which all lanes ask for together, each for any.
template <class C>
concept Combination = requires(const C& store, uint32_t index) {
  { store.remote } -> std::convertible_to<Remote>;
  { store.rank() } -> std::same_as<uint32_t>;
  { store.bytes() } -> std::same_as<uint32_t>;
  { store.word(index) } -> std::same_as<uint32_t>;
};

/// A model whose NIC takes them. combined_blocks(): of the ring, by the bytes. write_combined(), by
/// all the lanes, stores the request at `index` and has it report.
template <class M, class C>
concept Combines = Combination<C> &&
    requires(const typename M::WorkQueue& queue, uint32_t mask, uint64_t index, const C& store) {
  { M::combined_blocks(uint32_t{}) } -> std::same_as<uint32_t>;
  { M::write_combined(queue, mask, index, store) } -> std::same_as<void>;
};

/// What the NIC last said of a queue, as M::look() finds it. `count`: of the block at which the
/// last completed request begins, modulo kCountMask + 1. `tag`: what describe() wants to know of
/// one that failed.
template <class S>
concept Answer = requires(const S& seen) {
  { seen.none() } -> std::same_as<bool>;
  { seen.failed() } -> std::same_as<bool>;
  { seen.count() } -> std::convertible_to<uint64_t>;
  { seen.tag() } -> std::same_as<uint32_t>;
};

template <class M>
concept Nic = std::is_trivially_copyable_v<typename M::WorkQueue> && Answer<typename M::Seen> &&
    Takes<M, Write> && Takes<M, WriteInline<3>> && Takes<M, WriteInline<7>> &&
    Takes<M, WriteWord<8>> && Takes<M, Read> && Takes<M, ReadWord<8>> &&
    TakesAtomics<M, uint32_t> && TakesAtomics<M, uint64_t> && Takes<M, Fenced<Dump>> &&
    Takes<M, Fenced<Atomic<Update::kAdd, uint64_t>>> &&
    requires(const typename M::WorkQueue& queue, uint64_t posted, QueueError& error,
             uint64_t landed) {
  // The most blocks of a ring, the most bytes of a message, and the most bytes of a WriteInline.
  { M::kMaxDepth } -> std::convertible_to<uint32_t>;
  { M::kMaxMessageBytes } -> std::convertible_to<uint64_t>;
  { M::kMaxInlineBytes } -> std::convertible_to<uint32_t>;
  { M::kCountMask } -> std::convertible_to<uint64_t>;
  // False until the host has entered what the queue has from its connection on.
  { M::is_numbered(queue) } -> std::same_as<bool>;
  // Tells the NIC that the ring is posted up to `posted`, behind a fence of the reach.
  // kPostedBeforeDoorbell.
  { M::template tell<Reach::kSystem>(queue, posted) } -> std::same_as<void>;
  // Acquires what the NIC wrote before it said so. kResultBeforePoll.
  { M::look(queue) } -> std::same_as<typename M::Seen>;
  // Enters what the NIC says of the error. It may have been overwritten since.
  { M::describe(queue, uint32_t{}, error) } -> std::same_as<void>;
  // The old value of an atomic, of the 8 bytes where it landed; and whether it lies there as a
  // program would have it.
  { M::template fetched<uint32_t>(landed) } -> std::same_as<uint32_t>;
  { M::template kLandsAsIs<uint64_t> } -> std::convertible_to<bool>;
};

/// A send queue of any model.
template <class Q>
concept AnyQueue =
    Nic<typename Q::Model> && std::derived_from<Q, BasicSendQueue<typename Q::Model>>;

/// What posting to a queue and waiting for it ask of its fixed part: read once and kept, since
/// behind an acquire each load goes to memory again.
template <AnyQueue Q>
struct Fixed {
  typename Q::Model::WorkQueue nic;
  uint32_t mask;

  /// The host may be connecting the queue, but for those of contexts that are owned, which it
  /// connects before any kernel.
  template <Reach R>
  PEAL_HD static Fixed of(const Q& q) {
    if constexpr (R != Reach::kGpu) return {q.nic, q.mask};
    return {load_object(q.nic), q.mask};
  }
};

}  // namespace peal::nic
