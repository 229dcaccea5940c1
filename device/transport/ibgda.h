// SPDX-License-Identifier: Apache-2.0
//
// One operation on one peer's queue, driven by the kernel itself: reserve, write, publish, ring.
//
// post() takes one composer per WQE (Header -> Wqe), so a put and its signal are one reservation
// and one doorbell; and a group of lanes, so a warp that posts to one queue reserves once and rings
// once.
#pragma once

#include <cstdint>
#include <tuple>

#include "device/base/scope.h"
#include "device/mlx5/send_queue.h"
#include "device/mlx5/wqe.h"
#include "device/types.h"

namespace peal {

namespace ibgda {

using mlx5::SendQueue;

/// When the NIC is told of a post: at once, or, in a batch, once for many.
enum class Rings : uint32_t { kNow, kLater };

/// A lane that posts for itself (or for its whole warp or block).
struct Alone {
  PEAL_DEVICE uint32_t size() const { return 1; }
  PEAL_DEVICE uint32_t rank() const { return 0; }
  PEAL_DEVICE bool leader() const { return true; }
  PEAL_DEVICE bool last() const { return true; }
  template <Edge E>
  PEAL_DEVICE void sync() const {}
  PEAL_DEVICE bool share(bool have, uint64_t*) const { return have; }
};

namespace detail {

template <class Compose>
using WqeOf = decltype(std::declval<Compose>()(std::declval<mlx5::Header>()));

/// Writes one WQE per composer from `at` on; only the very last one of the last lane asks for a
/// completion.
template <class First, class... Rest>
PEAL_DEVICE void write_all(const SendQueue& q, uint64_t at, bool signalled, const First& first,
                           const Rest&... rest) {
  constexpr bool kFinal = sizeof...(Rest) == 0;
  const mlx5::Completion completion =
      kFinal && signalled ? mlx5::Completion::kAlways : mlx5::Completion::kOnFirstError;
  mlx5::write(
      q, at,
      first(mlx5::Header{.index = at, .qpn_shifted = q.qpn_shifted, .completion = completion}));
  if constexpr (!kFinal) write_all(q, at + WqeOf<First>::kBlocks, signalled, rest...);
}

}  // namespace detail

/// Posts one WQE per composer and lane of `group`. Returns a ticket for the whole group's work.
/// Takes copies, which are in memory while it waits: a composer holds what it needs by value.
template <Reach R, Rings kRings = Rings::kNow, class Group, class... Compose>
PEAL_DEVICE Ticket post(SendQueue& queue, Group group, Compose... compose) {
  SendQueue* q = &queue;
  constexpr uint32_t kBlocks = (detail::WqeOf<Compose>::kBlocks + ...);
  constexpr uint32_t kLastBlocks =
      std::tuple_element_t<sizeof...(Compose) - 1, std::tuple<detail::WqeOf<Compose>...>>::kBlocks;
  uint64_t first = 0;
  Status reserved = Status::kOk;
  if (group.leader())
    reserved = mlx5::reserve<R>(*q, group.size() * kBlocks, &first, q, group, compose...);
  if (!group.share(reserved == Status::kOk, &first)) {
    // A lane that gave up may find the error record claimed by another and not yet written.
    const Status why = mlx5::stop_status<R>(*q);
    return Ticket{q, 0, why != Status::kOk ? why : Status::kTimeout};
  }
  detail::write_all(*q, first + group.rank() * kBlocks, group.last(), compose...);
  group.template sync<Edge::kGroupBeforePublish>();  // every lane's stores precede the leader's
                                                     // publication
  const uint32_t blocks = group.size() * kBlocks;
  uint64_t last = first + blocks - kLastBlocks;
  Status status = Status::kOk;
  if (group.leader()) {
    status = mlx5::publish<R>(*q, {.first = first, .blocks = blocks, .last = last}, q, group, last);
  }
  group.template sync<Edge::kGroupBeforeQuiet>();  // a lane that goes on to quiet() finds its own
                                                   // work published
  if (kRings == Rings::kNow && group.leader() && status == Status::kOk) mlx5::ring<R>(*q);
  return Ticket{q, last, status};
}

/// Rings the queue if work there is held back, once for the lanes that ask together.
template <Reach R, Edge E>
PEAL_DEVICE_COLD void ring_together(SendQueue* q) {
  if constexpr (R == Reach::kLane) {
    mlx5::ring_held_back<R, E>(*q);
  } else {
    const Coalesced lanes(q);
    lanes.template sync<E>();  // the leader sees what each of them has published
    if (lanes.leader()) mlx5::ring_held_back<R, E>(*q);
  }
}

/// Rings for a ticket of a batch whose doorbell is still held back.
template <Reach R>
PEAL_DEVICE void ring_for(const Ticket& ticket) {
  if (ticket.status != Status::kOk || ticket.queue == nullptr) return;
  if (load_relaxed<R>(&ticket.queue->rung) > ticket.index) return;
  ring_together<R, Edge::kBatchBeforeWait>(ticket.queue);
}

/// Waits for a ticket of this transport, which has been rung.
template <Reach R>
[[nodiscard]] PEAL_DEVICE Status wait(const Ticket& ticket) {
  if (ticket.status != Status::kOk || ticket.queue == nullptr) return ticket.status;
  return mlx5::wait_completed<R>(*ticket.queue, ticket.index);
}

/// True once a ticket's work is complete (or can no longer complete); never blocks.
template <Reach R>
PEAL_DEVICE bool test(const Ticket& ticket) {
  if (ticket.status != Status::kOk || ticket.queue == nullptr) return true;
  mlx5::poll<R>(*ticket.queue);
  return load_acquire<R>(&ticket.queue->completed) > ticket.index ||
         mlx5::stop_status<R>(*ticket.queue) != Status::kOk;
}

/// Where the NIC drops one fetched value of up to 8 bytes. Taken before the post, given back after
/// the value was read. Cells are had in turn, by tickets.
class Landing {
 public:
  /// Takes the next cell; waits until its previous user has read it.
  template <Reach R>
  PEAL_DEVICE static Landing take(SendQueue& q, Status* status) {
    const Landing landing(q, take_tickets<R>(q, 1));
    *status = landing.await_turn<R>();
    return landing;
  }

  /// The first of `count` tickets, one behind the other; at most kLandingCells.
  template <Reach R>
  PEAL_DEVICE static uint64_t take_tickets(SendQueue& q, uint32_t count) {
    return fetch_add_relaxed<R>(&q.landing_ticket, uint64_t{count});
  }

  /// The cell of a ticket that was taken.
  PEAL_DEVICE Landing(SendQueue& q, uint64_t ticket)
      : queue_(&q),
        index_(static_cast<uint32_t>(ticket % mlx5::kLandingCells)),
        lap_(ticket / mlx5::kLandingCells) {}

  /// Waits until the cell's previous user has read it. Edge kCellReadBeforeReuse.
  template <Reach R>
  PEAL_DEVICE Status await_turn() const {
    SendQueue& q = *queue_;
    const SpinEnd end = spin_until(
        q.timeout_ns,
        [&] { return load_acquire<R, Edge::kReuseAfterCellRead>(&cell().lap) == lap_; },
        [&] { return mlx5::stop_status<R>(q) != Status::kOk; });
    return end == SpinEnd::kDone ? Status::kOk : mlx5::close_queue<R, WaitKind::kLanding>(q, end);
  }

  PEAL_DEVICE mlx5::Local local() const { return at(*queue_, index_); }

  /// The value's bytes; valid after the ticket completed.
  PEAL_DEVICE uint64_t value() const { return load_relaxed<Reach::kSystem>(&cell().value); }

  /// After the wait, however it ended: answers of a queue land in the order posted, so one that is
  /// late lands before the next user's.
  template <Reach R>
  PEAL_DEVICE void give_back() const {
    store_release<R, Edge::kCellReadBeforeReuse>(&cell().lap, load_relaxed<R>(&cell().lap) + 1);
  }

  /// Where results go that nobody wants.
  PEAL_DEVICE static mlx5::Local sink(const SendQueue& q) { return at(q, mlx5::kLandingCells); }

 private:
  PEAL_DEVICE mlx5::LandingCell& cell() const { return queue_->landing[index_]; }
  PEAL_DEVICE static mlx5::Local at(const SendQueue& q, uint32_t index) {
    return {q.landing_address + index * sizeof(mlx5::LandingCell), q.landing_lkey};
  }
  SendQueue* queue_;
  uint32_t index_;
  uint64_t lap_;
};

}  // namespace ibgda
}  // namespace peal
