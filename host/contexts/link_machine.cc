// SPDX-License-Identifier: Apache-2.0
#include "host/contexts/link_machine.h"

#include <algorithm>
#include <ranges>

namespace peal {

LinkMachine::LinkMachine(std::unique_ptr<Queues> queues, uint32_t* requests)
    : queues_(std::move(queues)),
      requests_(requests),
      states_(queues_->n_pes(), LinkState::kNone) {}

std::vector<uint32_t> LinkMachine::queues_to(uint32_t pe) const {
  std::vector<uint32_t> found;
  for (uint32_t i = pe; i < queues_->count(); i += queues_->n_pes()) found.push_back(i);
  return found;
}

LinkState LinkMachine::state(uint32_t pe) const {
  const std::lock_guard lock(mutex_);
  return states_[pe];
}

uint32_t LinkMachine::to_come() const {
  const std::lock_guard lock(mutex_);
  return static_cast<uint32_t>(
      std::ranges::count_if(states_, [](LinkState state) { return state != LinkState::kOpen; }));
}

std::vector<Failure> LinkMachine::failures() const {
  const std::lock_guard lock(mutex_);
  const auto values = std::views::values(failures_);
  return {values.begin(), values.end()};
}

void LinkMachine::set(uint32_t pe, LinkState state) {
  const std::lock_guard lock(mutex_);
  states_[pe] = state;
}

std::vector<Endpoint> LinkMachine::make(uint32_t pe) {
  std::vector<Endpoint> ends;
  // A link that was forgotten has its queue pairs still, in reset.
  for (const uint32_t index : queues_to(pe)) ends.push_back(queues_->make(index));
  set(pe, LinkState::kMade);
  return ends;
}

void LinkMachine::connect(uint32_t pe, std::span<const Endpoint> ends, uint32_t generation) {
  const std::vector<uint32_t> indices = queues_to(pe);
  for (size_t q = 0; q < indices.size(); ++q) queues_->connect(indices[q], ends[q], generation);
  set(pe, LinkState::kConnected);
}

void LinkMachine::open(uint32_t pe) {
  for (const uint32_t index : queues_to(pe)) queues_->open(index);
  set(pe, LinkState::kOpen);
}

void LinkMachine::fail(uint32_t pe, const Failure& why) {
  {
    const std::lock_guard lock(mutex_);
    states_[pe] = LinkState::kFailed;
    failures_[pe] = why;
  }
  for (const uint32_t index : queues_to(pe)) queues_->close(index, why.status);
}

std::vector<Repair> LinkMachine::needed() const {
  std::vector<Repair> repairs(queues_->count(), Repair::kNone);
  for (uint32_t i = 0; i < repairs.size(); ++i) {
    if (state(i % queues_->n_pes()) != LinkState::kOpen) {
      repairs[i] = Repair::kForget;
    } else if (queues_->broken(i)) {
      repairs[i] = Repair::kReconnect;
    }
  }
  return repairs;
}

void LinkMachine::reset(std::span<const Repair> repairs) {
  for (uint32_t i = 0; i < repairs.size(); ++i) {
    if (repairs[i] == Repair::kNone) continue;
    queues_->reset(i);
    const uint32_t pe = i % queues_->n_pes();
    if (repairs[i] == Repair::kReconnect) continue;
    set(pe, LinkState::kNone);
    __atomic_store_n(&requests_[pe], 0u, __ATOMIC_RELAXED);
  }
  const std::lock_guard lock(mutex_);
  failures_.clear();
}

void LinkMachine::reconnect(std::span<const Repair> repairs, uint32_t generation) {
  for (uint32_t i = 0; i < repairs.size(); ++i) {
    if (repairs[i] == Repair::kReconnect) queues_->reconnect(i, generation);
    if (repairs[i] == Repair::kNone) queues_->renew_landing(i);
  }
}

void LinkMachine::reopen(std::span<const Repair> repairs) {
  for (uint32_t i = 0; i < repairs.size(); ++i) {
    if (repairs[i] == Repair::kReconnect) queues_->open(i);
  }
}

}  // namespace peal
