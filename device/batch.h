// SPDX-License-Identifier: Apache-2.0
//
// One doorbell for many posts.
//
//   Batch batch(ctx);
//   for (...) batch.put_nbi(dst + i, src + i, 1, pe);
//   batch.ring();                       // or the end of its life
//
// A doorbell is a fence and a store to the NIC, most of what a post costs. Those of a batch wait
// until it rings: each queue once, whatever it carries by then (and when half a queue is waiting).
// Nothing is lost that is not rung: the batch's end rings, and so do wait() and test() for a ticket
// of it, quiet, barriers and a full queue, whoever calls them (kBatchBeforeRing). Any other post to
// the same queue takes the batch's work with it. Where the peer is mapped a batch stores at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "device/base/scope.h"
#include "device/context.h"
#include "device/detail/atomic.h"
#include "device/detail/signal.h"
#include "device/detail/transfer.h"
#include "device/detail/words.h"
#include "device/types.h"

namespace peal {

/// A batch belongs to one lane: each lane that posts has its own. Its atomics are relaxed. Its
/// operations are those of the same name, with the same rules for sources and order, and the NIC
/// may not hear of them before ring().
template <Reach R>
class Batch {
 public:
  /// So many queues are remembered, one for each PE and kind of work. Posting to one more rings the
  /// one that was begun first.
  static constexpr uint32_t kQueues = 8;

  /// An empty batch of the calling lane.
  PEAL_DEVICE explicit Batch(const BasicContext<R>& ctx) : ctx_(ctx), held_{} {}
  // On a CPU a lane may be taken down while it rings.
  PEAL_DEVICE ~Batch() noexcept(false) { ring(); }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  /// Tells the NICs of all that the batch has posted since it rang last.
  PEAL_DEVICE void ring() {
    PEAL_UNROLL
    for (uint32_t i = 0; i < kQueues; ++i) {
      ring_one(held_[i]);
      held_[i] = nullptr;
    }
  }

  template <AnyScope S, class T>
  PEAL_DEVICE Ticket put_nbi(S scope, T* dst, const std::type_identity_t<T>* src, size_t count,
                             int pe) {
    using Put = detail::Transfer<p2p::Direction::kPut, kLater>;
    const Put put{dst, src, detail::bytes_of<T>(count), pe, detail::Until::kStarted};
    return hold(scope, detail::checked_access(ctx_, scope, put));
  }
  template <class T>
  PEAL_DEVICE Ticket put_nbi(T* dst, const std::type_identity_t<T>* src, size_t count, int pe) {
    return put_nbi(thread, dst, src, count, pe);
  }

  template <AnyScope S, class T>
  PEAL_DEVICE Ticket get_nbi(S scope, T* dst, const std::type_identity_t<T>* src, size_t count,
                             int pe) {
    using Get = detail::Transfer<p2p::Direction::kGet, kLater>;
    const Get get{dst, src, detail::bytes_of<T>(count), pe, detail::Until::kStarted};
    return hold(scope, detail::checked_access(ctx_, scope, get));
  }
  template <class T>
  PEAL_DEVICE Ticket get_nbi(T* dst, const std::type_identity_t<T>* src, size_t count, int pe) {
    return get_nbi(thread, dst, src, count, pe);
  }

  template <AnyScope S, class T>
  PEAL_DEVICE Ticket put_signal_nbi(S scope, T* dst, const std::type_identity_t<T>* src,
                                    size_t count, const Signal& signal) {
    const detail::PutSignal<kLater> put{dst, src, detail::bytes_of<T>(count), signal};
    return hold(scope, detail::checked_access(ctx_, scope, put));
  }
  template <class T>
  PEAL_DEVICE Ticket put_signal_nbi(T* dst, const std::type_identity_t<T>* src, size_t count,
                                    const Signal& signal) {
    return put_signal_nbi(thread, dst, src, count, signal);
  }

  template <class T>
  PEAL_DEVICE Status p(T* dst, const std::type_identity_t<T>& value, int pe) {
    return hold(thread, detail::put_value<kLater>(ctx_, dst, value, pe)).status;
  }

  PEAL_DEVICE Status signal(const Signal& what) {
    return hold(thread, detail::signal_alone<kLater>(ctx_, what)).status;
  }

  template <class T>
  PEAL_DEVICE Status atomic_set(T* word, std::type_identity_t<T> value, int pe) {
    return post_atomic<Update::kSwap>(word, value, pe);
  }
  /// Takes integers only: a sum of reals waits for each.
  template <class T>
  PEAL_DEVICE Status atomic_add(T* word, std::type_identity_t<T> value, int pe) {
    static_assert(std::is_integral_v<T>);
    return post_atomic<Update::kAdd>(word, value, pe);
  }
  template <class T>
  PEAL_DEVICE Status atomic_inc(T* word, int pe) {
    return atomic_add(word, T{1}, pe);
  }
  template <class T>
  PEAL_DEVICE Status atomic_and(T* word, std::type_identity_t<T> value, int pe) {
    return post_atomic<Update::kAnd>(word, value, pe);
  }
  template <class T>
  PEAL_DEVICE Status atomic_or(T* word, std::type_identity_t<T> value, int pe) {
    return post_atomic<Update::kOr>(word, value, pe);
  }
  template <class T>
  PEAL_DEVICE Status atomic_xor(T* word, std::type_identity_t<T> value, int pe) {
    return post_atomic<Update::kXor>(word, value, pe);
  }

 private:
  static constexpr nic::Rings kLater = nic::Rings::kLater;

  template <Update U, class T>
  PEAL_DEVICE Status post_atomic(T* word, const T& value, int pe) {
    return hold(thread, detail::post_atomic<U, Order::kRelaxed, kLater>(ctx_, word, value, pe))
        .status;
  }

  PEAL_DEVICE static void ring_one(SendQueue* q) {
    if (q != nullptr) nic::ring_together<R, Edge::kBatchBeforeRing>(q);
  }

  /// Remembers the queue of what this lane has posted, for itself or for its scope. Rings it when
  /// half of it is held back: the NIC shall have begun before it is full.
  template <class S>
  PEAL_DEVICE Ticket hold(S scope, const Ticket& ticket) {
    SendQueue* const q = ticket.queue;
    if (q == nullptr || !scope.leader()) return ticket;
    bool known = false;
    PEAL_UNROLL
    for (uint32_t i = 0; i < kQueues; ++i) known = known || held_[i] == q;
    if (!known) {
      ring_one(held_[kQueues - 1]);
      PEAL_UNROLL
      for (uint32_t i = kQueues - 1; i > 0; --i) held_[i] = held_[i - 1];
      held_[0] = q;
    }
    const auto waiting = static_cast<int64_t>(ticket.index - load_relaxed<R>(&q->rung));
    if (waiting > static_cast<int64_t>(q->mask / 2)) ring_one(q);
    return ticket;
  }

  const BasicContext<R>& ctx_;
  SendQueue* held_[kQueues];
};

}  // namespace peal
