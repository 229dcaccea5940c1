// SPDX-License-Identifier: Apache-2.0
#include "host/job/live_group.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "host/base/error.h"

namespace peal {
namespace {

constexpr uint64_t kMaxContribution = uint64_t{1} << 30;
constexpr std::chrono::milliseconds kSendAgain{1};

}  // namespace

LiveGroup::LiveGroup(std::unique_ptr<Bootstrap> all, std::chrono::milliseconds deadline)
    : all_(std::move(all)),
      deadline_(deadline),
      places_(gather(*all_, Place::here())),
      channel_(*all_),
      states_(places_.size(), State::kLive) {}

void LiveGroup::abort(const std::string& reason) {
  all_->abort(reason);
  std::abort();  // g++ does not know that the call above stays
}

void LiveGroup::allgather(std::span<const std::byte> mine, std::span<std::byte> all) {
  if (generation_ == 0) return all_->allgather(mine, all);
  exchange(mine, all);
}

void LiveGroup::barrier() {
  if (generation_ == 0) return all_->barrier();
  std::vector<std::byte> nothing(static_cast<size_t>(size()));
  exchange(std::span(nothing).first(1), nothing);
}

void LiveGroup::exchange(std::span<const std::byte> mine, std::span<std::byte> all) {
  Lock lock(mutex_);
  if (broken_) fail(broken_->code(), "the group is broken since: {}", broken_->what());
  const uint64_t number = calls_++;
  collected_.clear();
  const std::vector<std::byte> own(mine.begin(), mine.end());  // may lie in `all`
  const auto slot = [&](int pe) {
    return all.subspan(static_cast<size_t>(pe) * own.size(), own.size());
  };
  try {
    const std::vector<int> live = in_state(State::kLive);
    const std::vector<int> ended = in_state(State::kLost);
    for (const int pe : live) {
      if (pe != rank()) tell(lock, pe, number, own);
    }
    std::ranges::copy(own, slot(rank()).begin());
    // One that has ended may have told us before.
    for (const std::vector<int>& pes : {live, ended}) {
      for (const int pe : pes) {
        if (pe != rank()) collect(lock, pe, number, slot(pe));
      }
    }
    const int first = std::min(live.front(), ended.empty() ? live.front() : ended.front());
    for (const int pe : in_state(State::kMasked)) {
      std::ranges::copy(slot(first), slot(pe).begin());
    }
  } catch (const Error& error) {
    broken_ = error;
    throw;
  }
}

void LiveGroup::tell(Lock& lock, int pe, uint64_t number, std::span<const std::byte> mine) {
  const auto end = Clock::now() + deadline_;
  size_t sent = 0;
  do {
    const auto part = mine.subspan(sent, std::min(mine.size() - sent, Channel::kMaxPayload));
    switch (
        channel_.send(pe, Message::Kind::kExchange, {generation_, number, mine.size(), 0}, part)) {
      case Channel::Sent::kDone:
        sent += part.size();
        break;
      case Channel::Sent::kGone:
        return;  // it has ended, or soon will be seen to have: whoever needs it waits for that
      case Channel::Sent::kFull:
        check_still_waiting(pe, end);
        changed_.wait_for(lock, kSendAgain);
    }
  } while (sent < mine.size());
}

void LiveGroup::collect(Lock& lock, int pe, uint64_t number, std::span<std::byte> to) {
  const auto end = Clock::now() + deadline_;
  const Call call{generation_, number, pe};
  for (;;) {
    const auto found = inbox_.find(call);
    if (found != inbox_.end() && found->second.total != to.size()) {
      fail(ErrorCode::kInvalidArgument,
           "PE {} makes another collective call than this PE: {} bytes, not {}", pe,
           found->second.total, to.size());
    }
    if (found != inbox_.end() && found->second.complete()) {
      std::ranges::copy(found->second.bytes, to.begin());
      inbox_.erase(found);
      collected_.insert(pe);
      return;
    }
    // Also when it is another that is missing: `pe` may have given this call up for that.
    for (const int gone : lost_) {
      if (!told(call, gone)) check_still_waiting(gone, end);
    }
    check_still_waiting(pe, end);
    changed_.wait_until(lock, end);
  }
}

bool LiveGroup::told(const Call& call, int pe) const {
  if (collected_.contains(pe)) return true;
  const auto part = inbox_.find({std::get<0>(call), std::get<1>(call), pe});
  return part != inbox_.end() && part->second.complete();
}

void LiveGroup::check_still_waiting(int pe, Clock::time_point end) const {
  if (states_[static_cast<size_t>(pe)] == State::kLost) {
    fail(ErrorCode::kPeerLost, "PE {} has ended before it took part", pe);
  }
  if (Clock::now() >= end) {
    fail(ErrorCode::kTimeout,
         "PE {} did not take part within {} ms; {} PEs are masked here: all that live must have "
         "masked the same",
         pe, deadline_.count(), generation_);
  }
}

bool LiveGroup::lost(int pe) {
  const std::lock_guard lock(mutex_);
  State& state = states_[static_cast<size_t>(pe)];
  if (state != State::kLive) return false;
  state = State::kLost;
  lost_.push_back(pe);
  changed_.notify_all();
  return true;
}

int LiveGroup::await_lost(const std::vector<int>& pes, std::chrono::milliseconds time) const {
  Lock lock(mutex_);
  const auto alive = [&] {
    return std::ranges::find_if(
        pes, [&](int pe) { return states_[static_cast<size_t>(pe)] == State::kLive; });
  };
  changed_.wait_for(lock, time, [&] { return alive() == pes.end(); });
  return alive() == pes.end() ? -1 : *alive();
}

void LiveGroup::deliver(Message message) {
  const std::lock_guard lock(mutex_);
  if (message.word[0] < generation_ || message.word[2] > kMaxContribution) return;
  Part& part = inbox_[{message.word[0], message.word[1], message.from}];
  part.total = message.word[2];
  const size_t room = part.total - std::min<size_t>(part.total, part.bytes.size());
  message.payload.resize(std::min(message.payload.size(), room));
  part.bytes.insert(part.bytes.end(), message.payload.begin(), message.payload.end());
  changed_.notify_all();
}

void LiveGroup::mask(int pe) {
  const std::lock_guard lock(mutex_);
  State& state = states_[static_cast<size_t>(pe)];
  if (state == State::kMasked) return;
  state = State::kMasked;
  std::erase(lost_, pe);
  ++generation_;
  calls_ = 0;
  broken_.reset();
  std::erase_if(inbox_, [&](const auto& entry) { return std::get<0>(entry.first) < generation_; });
}

std::vector<int> LiveGroup::in_state(State first, State last) const {
  std::vector<int> pes;
  for (size_t pe = 0; pe < states_.size(); ++pe) {
    if (first <= states_[pe] && states_[pe] <= last) pes.push_back(static_cast<int>(pe));
  }
  return pes;
}

bool LiveGroup::masked(int pe) const {
  const std::lock_guard lock(mutex_);
  return states_[static_cast<size_t>(pe)] == State::kMasked;
}
std::vector<int> LiveGroup::masked_pes() const {
  const std::lock_guard lock(mutex_);
  return in_state(State::kMasked);
}
std::vector<int> LiveGroup::lost_pes() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}
std::vector<int> LiveGroup::unmasked_pes() const {
  const std::lock_guard lock(mutex_);
  return in_state(State::kLive, State::kLost);
}
std::vector<int> LiveGroup::live_pes() const {
  const std::lock_guard lock(mutex_);
  return in_state(State::kLive);
}

}  // namespace peal
