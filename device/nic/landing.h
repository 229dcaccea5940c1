// SPDX-License-Identifier: Apache-2.0
//
// Landing cells: where a queue's NIC drops fetched values of up to 8 bytes, for lanes that wait for
// them. Taken before the post, given back after the value was read. Cells are had in turn, by
// tickets.
#pragma once

#include <cstdint>

#include "device/base/order.h"
#include "device/base/spin.h"
#include "device/base/target.h"
#include "device/nic/completion.h"
#include "device/nic/request.h"
#include "device/shared/send_queue.h"

namespace peal::nic {

/// Where cell `index` is for the NIC.
template <AnyQueue Q>
PEAL_HD Local cell_of(const Q& q, uint32_t index) {
  return {q.landing_address + index * sizeof(LandingCell), q.landing_key};
}

/// The same of the sink, for results that nobody wants.
template <AnyQueue Q>
PEAL_HD Local sink(const Q& q) {
  return cell_of(q, kLandingCells);
}

/// The first of `count` tickets, one behind the other; at most kLandingCells.
template <Reach R, AnyQueue Q>
PEAL_HD uint64_t take_tickets(Q& q, uint32_t count) {
  return fetch_add_relaxed<R>(&q.landing_ticket, uint64_t{count});
}

/// The cell of a ticket that was taken.
template <AnyQueue Q>
class Landing {
 public:
  PEAL_HD Landing(Q& q, uint64_t ticket) : queue_(&q), ticket_(ticket) {}

  /// Waits until the cell's previous user has read it. Edge kCellReadBeforeReuse.
  template <Reach R>
  PEAL_HD Status await_turn() const {
    Q& q = *queue_;
    const SpinEnd end = spin_until(
        q.timeout_ns,
        [&] { return load_acquire<R, Edge::kReuseAfterCellRead>(&cell().lap) == lap(); },
        [&] { return stop_status<R>(q) != Status::kOk; });
    if (end == SpinEnd::kDone) return Status::kOk;
    return close_queue<R, WaitKind::kLanding>(q, end_status<R>(q, end));
  }

  PEAL_HD Local local() const { return cell_of(*queue_, index()); }

  /// The value's bytes; valid after the ticket completed.
  PEAL_HD uint64_t value() const { return load_relaxed<Reach::kSystem>(&cell().value); }

  /// After the wait, however it ended: answers of a queue land in the order posted, so one that is
  /// late lands before the next user's.
  template <Reach R>
  PEAL_HD void give_back() const {
    store_release<R, Edge::kCellReadBeforeReuse>(&cell().lap, lap() + 1);
  }

 private:
  PEAL_HD uint32_t index() const { return static_cast<uint32_t>(ticket_ % kLandingCells); }
  PEAL_HD uint64_t lap() const { return ticket_ / kLandingCells; }
  PEAL_HD LandingCell& cell() const { return queue_->landing[index()]; }

  Q* queue_;
  uint64_t ticket_;
};

/// Takes the next cell; waits until its previous user has read it.
template <Reach R, AnyQueue Q>
PEAL_APART Landing<Q> take_landing(Q& q, Status* status) {
  const Landing<Q> landing(q, take_tickets<R>(q, 1));
  *status = landing.template await_turn<R>();
  return landing;
}

}  // namespace peal::nic
