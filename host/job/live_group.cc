// SPDX-License-Identifier: Apache-2.0
#include "host/job/live_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <bitset>
#include <cstdlib>
#include <utility>

#include "base/across.h"
#include "base/patience.h"
#include "host/base/error.h"
#include "host/job/process_stat.h"

namespace peal {
namespace {

using std::chrono::milliseconds;
constexpr uint64_t kMaxContribution = uint64_t{1} << 30;
constexpr milliseconds kSendAgain{1};
// A peer's watcher empties its socket in less, or the peer does not hear. Who ends by a signal or
// an exception has less time than who leaves in order.
constexpr milliseconds kFarewell{1000};
constexpr milliseconds kLastWords{100};
// PEs that are told again where they have no room; others may not hear.
constexpr size_t kTold = 4096;

DepartureView view_of(const Departure& how) { return {how.how, how.code, how.text}; }

// What a PE tells that leaves, and has heard of a loss. Views of both.
Leaving because_of(const std::optional<std::pair<int, Departure>>& loss, const Departure& how) {
  Leaving leaving{.own = view_of(how)};
  if (loss) {
    leaving.lost_pe = loss->first;
    leaving.loss = view_of(loss->second);
  }
  return leaving;
}

}  // namespace

LiveGroup::LiveGroup(std::unique_ptr<Bootstrap> all, milliseconds deadline,
                     const std::string& interface)
    : all_(std::move(all)),
      deadline_(deadline),
      places_(gather(*all_, Place::here())),
      channel_(*all_, places_, interface),
      states_(places_.size(), State::kLive) {}

void LiveGroup::abort(const std::string& reason) {
  all_->abort(reason);
  std::abort();  // g++ does not know that the call above stays
}

void LiveGroup::name_calls(std::string_view name) {
  name_ = name;
  all_->name_calls(name);
}

// A PE that stands still is why the others wait in vain.
template <class Exchange>
void LiveGroup::by_all(const Exchange& exchange) const {
  try {
    exchange();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kTimeout) throw;
    const std::string stopped = stopped_pes(places_, rank(), live_pes());
    if (stopped.empty()) throw;
    throw Error(error.code(), fmt::format("{}; {}", error.what(), stopped));
  }
}

void LiveGroup::allgather(std::span<const std::byte> mine, std::span<std::byte> all) {
  tell_others();
  if (generation_ == 0) {
    by_all([&] { all_->allgather(mine, all); });
  } else {
    exchange_unmasked(mine, all);
  }
  hear_others();
}

void LiveGroup::barrier() {
  tell_others();
  if (generation_ == 0) {
    by_all([&] { all_->barrier(); });
  } else {
    std::vector<std::byte> nothing(static_cast<size_t>(size()));
    exchange_unmasked(std::span(nothing).first(1), nothing);
  }
  hear_others();
}

void LiveGroup::end(const std::function<bool()>& go_on) {
  if (generation_ == 0) return all_->end(go_on);
  go_on ? await_departures(go_on) : barrier();
  await_sent();
}

// What each has announced is enough: leaving takes no call of the others.
void LiveGroup::await_departures(const std::function<bool()>& go_on) {
  Lock lock(mutex_);
  for (auto end = Clock::now() + deadline_;; changed_.wait_for(lock, Clock::slice(end))) {
    if (!lost_.empty()) {
      fail(ErrorCode::kPeerLost, "{} has ended before its end", name_of(lost_.front()));
    }
    const std::vector<int> missing = others_that_live(lock, false);
    if (missing.empty()) return;
    if (Clock::now() < end) continue;
    lock.unlock();
    const bool on = go_on();
    lock.lock();
    if (!on) {
      fail(ErrorCode::kTimeout, "end of the job: {} did not come to it", name_of(missing.front()));
    }
    end = Clock::now() + deadline_;
  }
}

void LiveGroup::leave(const Departure& how, const std::function<void()>& still_waiting) {
  leaving_ = true;
  const auto loss = first_loss();
  const Leaving leaving = because_of(loss, how);
  if (!how.in_order()) {
    say_last(leaving);
    return quit(describe(how));
  }
  const LeavingMessage message(leaving);
  tell_all(
      [&](int pe) {
        return channel_.send(pe, Message::Kind::kLeft, message.word(), message.payload());
      },
      std::min(deadline_, kFarewell));
  std::string stopped;
  try {
    end([&] {
      stopped = stopped_pes(places_, rank(), live_pes());
      if (!stopped.empty() || !lost_pes().empty()) return false;
      still_waiting();
      return true;
    });
  } catch (const Error& error) {
    const std::string why =
        stopped.empty() ? error.what() : fmt::format("{}: {}", error.what(), stopped);
    // Else who works on takes this PE, whose word was of an end in order, for the first that has
    // died. The bootstrap may have heard of that one before its host has told.
    const auto time = error.code() == ErrorCode::kPeerLost ? kUntilNoticed : milliseconds(0);
    say_last(because_of(first_loss(time), {Departure::How::kException, 0, why}));
    throw Error(error.code(), why);
  }
}

void LiveGroup::leave_for_rejoin() const {
  say_last(because_of(first_loss(), {.how = Departure::How::kRejoins}));
}

void LiveGroup::announce(Departure::How how, int code, std::string_view text) const noexcept {
  say_last({.own = {how, code, text}});
}

void LiveGroup::say_last(const Leaving& leaving) const noexcept {
  const LeavingMessage message(leaving);
  tell_all(
      [&](int pe) {
        return channel_.send_last(pe, Message::Kind::kLeft, message.word(), message.payload());
      },
      kLastWords);
}

// Many that leave at once fill a peer's socket, until its watcher has read: one that did not hear
// of this PE would wait for it until the deadline.
template <class Send>
void LiveGroup::tell_all(const Send& send, milliseconds time) const {
  std::bitset<kTold> told;
  const auto tell = [&] {
    bool all = true;
    for (int pe = 0; pe < size(); ++pe) {
      const auto bit = static_cast<size_t>(pe);
      if (pe == rank() || (bit < kTold && told[bit])) continue;
      const bool heard = send(pe) != Channel::Sent::kFull;
      if (bit >= kTold) continue;
      told[bit] = heard;
      all &= heard;
    }
    return all;
  };
  peal::wait_until(tell, Clock::now() + time, kSendAgain);
}

void LiveGroup::await_sent() const {
  const UdpChannel* const udp = channel_.udp();
  if (udp == nullptr) return;
  peal::wait_until([&] { return udp->idle(live_pes()); }, Clock::now() + kFarewell, kSendAgain);
}

void LiveGroup::exchange_unmasked(std::span<const std::byte> mine, std::span<std::byte> all) {
  if (broken_) fail(broken_->code(), "the group is broken since: {}", broken_->what());
  const ChannelCall call{generation_, calls_++, unmasked_pes()};
  std::vector<std::byte> theirs(call.pes.size() * mine.size());
  try {
    exchange(call, mine, theirs);
  } catch (const Error& error) {
    const std::string of = name_.empty() ? "" : name_ + ": ";
    broken_ = Error(error.code(), of + error.what());
    throw *broken_;
  }
  size_t next = 0;
  for (int pe = 0; pe < size(); ++pe) {
    const bool in = next < call.pes.size() && call.pes[next] == pe;
    const auto from = std::span(theirs).subspan(in ? next++ * mine.size() : 0, mine.size());
    std::ranges::copy(from, all.subspan(static_cast<size_t>(pe) * mine.size()).begin());
  }
}

void LiveGroup::exchange(const ChannelCall& call, std::span<const std::byte> mine,
                         std::span<std::byte> all) {
  tell_others();
  Lock lock(mutex_);
  collected_.clear();
  const auto ended = [&](int pe) { return states_[static_cast<size_t>(pe)] != State::kLive; };
  for (const int pe : call.pes) {
    if (pe != rank() && !ended(pe)) tell(lock, call, pe, mine);
  }
  // One that has ended may have told us before: those that live are waited for first.
  for (const bool late : {false, true}) {
    for (size_t i = 0; i < call.pes.size(); ++i) {
      const auto slot = all.subspan(i * mine.size(), mine.size());
      const int pe = call.pes[i];
      if (pe == rank()) {
        std::ranges::copy(mine, slot.begin());
      } else if (!collected_.contains(pe) && (late || !ended(pe))) {
        collect(lock, call, pe, slot);
      }
    }
  }
  hear_others();
}

void LiveGroup::tell(Lock& lock, const ChannelCall& call, int pe, std::span<const std::byte> mine) {
  const auto end = Clock::now() + deadline_;
  size_t sent = 0;
  do {
    const auto part = mine.subspan(sent, std::min(mine.size() - sent, Channel::kMaxPayload));
    switch (channel_.send(pe, Message::Kind::kExchange, {call.group, call.number, mine.size(), 0},
                          part)) {
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

void LiveGroup::collect(Lock& lock, const ChannelCall& call, int pe, std::span<std::byte> to) {
  const auto end = Clock::now() + deadline_;
  const Call key{call.group, call.number, pe};
  for (;;) {
    const auto found = inbox_.find(key);
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
      const bool takes_part = std::ranges::find(call.pes, gone) != call.pes.end();
      if (takes_part && !told(call, gone)) check_still_waiting(gone, end);
    }
    check_still_waiting(pe, end);
    changed_.wait_for(lock, Clock::slice(end));
  }
}

bool LiveGroup::told(const ChannelCall& call, int pe) const {
  if (collected_.contains(pe)) return true;
  const auto part = inbox_.find({call.group, call.number, pe});
  return part != inbox_.end() && part->second.complete();
}

void LiveGroup::check_still_waiting(int pe, Clock::time_point end) const {
  const auto departed = departures_.find(pe);
  if (departed != departures_.end() && !leaving_) {
    fail(ErrorCode::kPeerLost, "{} {}", name_of(pe), describe(departed->second));
  }
  if (states_[static_cast<size_t>(pe)] != State::kLive) {
    fail(ErrorCode::kPeerLost, "{} has ended before it took part", name_of(pe));
  }
  if (Clock::now() < end) return;
  const std::string stopped = stopped_pes(places_, rank(), {pe});
  fail(ErrorCode::kTimeout, "{} did not take part within {} ms; {}", name_of(pe), deadline_.count(),
       !stopped.empty()
           ? stopped
           : fmt::format("{} PEs are masked here: all that live must have masked the same",
                         generation_));
}

bool LiveGroup::lost(int pe) {
  const std::lock_guard lock(mutex_);
  State& state = states_[static_cast<size_t>(pe)];
  if (state != State::kLive) return false;
  state = State::kLost;
  lost_.push_back(pe);
  if (channel_.by_udp(pe)) channel_.udp()->forget(pe);
  changed_.notify_all();
  return true;
}

void LiveGroup::left(int pe, Departure how) {
  const std::lock_guard lock(mutex_);
  departures_.insert_or_assign(pe, std::move(how));
  changed_.notify_all();
}

std::vector<int> LiveGroup::hear_leaving(const Message& message) {
  const auto heard = read_leaving(message.word, message.payload);
  if (!heard) return {};
  std::vector<int> gone;
  const std::lock_guard lock(mutex_);
  const auto leaves = [&](int pe, const Departure& how, bool lost) {
    if (pe >= size() || pe == rank()) return;
    // std::terminate() ends by SIGABRT, which is told as well: the first says more.
    const auto known = departures_.find(pe);
    if (known == departures_.end() || known->second.in_order())
      departures_.insert_or_assign(pe, how);
    if (lost) gone.push_back(pe);
  };
  if (heard->loss) leaves(heard->loss->first, heard->loss->second, true);
  leaves(message.from, heard->own, !heard->own.in_order());
  changed_.notify_all();
  return gone;
}

void LiveGroup::pass_on_loss(int pe) {
  Departure how = departure(pe).value_or(Departure());
  if (how.in_order()) how = {.how = Departure::How::kEnded};
  const LeavingMessage message({.own = {}, .lost_pe = pe, .loss = view_of(how)});
  for (const int to : live_pes()) {
    const bool hears =
        !is_elsewhere(places_[static_cast<size_t>(to)], places_[static_cast<size_t>(pe)]);
    if (to == rank() || hears || passed_on_.contains({to, pe})) continue;
    const auto sent = channel_.send(to, Message::Kind::kLost, message.word(), message.payload());
    if (sent != Channel::Sent::kFull) passed_on_.insert({to, pe});
  }
}

std::optional<int> LiveGroup::hear_of_loss(const Message& message) {
  auto heard = read_leaving(message.word, message.payload);
  if (!heard || !heard->loss || heard->loss->first >= size() || heard->loss->first == rank()) {
    return std::nullopt;
  }
  if (!channel_.by_udp(heard->loss->first) || !is_live(message.from)) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const auto known = departures_.find(heard->loss->first);
  if (known == departures_.end() || known->second.in_order()) {
    departures_.insert_or_assign(heard->loss->first, std::move(heard->loss->second));
  }
  changed_.notify_all();
  return heard->loss->first;
}

std::optional<std::pair<int, Departure>> LiveGroup::first_loss(milliseconds time) const {
  Lock lock(mutex_);
  wait_until(changed_, lock, Clock::now() + time, [&] { return !lost_.empty(); });
  for (const int pe : lost_) {
    const auto known = departures_.find(pe);
    if (known != departures_.end()) return std::pair(pe, known->second);
  }
  if (lost_.empty()) return std::nullopt;
  return std::pair(lost_.front(), Departure{.how = Departure::How::kEnded});
}

std::string LiveGroup::name_of(int pe) const {
  return channel_.by_udp(pe) ? fmt::format("PE {} on {}", pe, channel_.udp()->host_of(pe))
                             : fmt::format("PE {}", pe);
}

std::optional<Departure> LiveGroup::departure(int pe) const {
  const std::lock_guard lock(mutex_);
  const auto known = departures_.find(pe);
  return known == departures_.end() ? std::nullopt : std::optional(known->second);
}

std::vector<int> LiveGroup::others_that_live(bool and_left) const {
  return others_that_live(Lock(mutex_), and_left);
}

std::vector<int> LiveGroup::others_that_live([[maybe_unused]] const Lock& held,
                                             bool and_left) const {
  std::vector<int> pes = in_state(State::kLive);
  std::erase_if(pes, [&](int pe) { return pe == rank() || departures_.contains(pe) != and_left; });
  return pes;
}

int LiveGroup::await_lost(const std::vector<int>& pes, milliseconds time) const {
  Lock lock(mutex_);
  const auto alive = [&] {
    return std::ranges::find_if(
        pes, [&](int pe) { return states_[static_cast<size_t>(pe)] == State::kLive; });
  };
  wait_until(changed_, lock, Clock::now() + time, [&] { return alive() == pes.end(); });
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
  if (channel_.by_udp(pe)) channel_.udp()->forget(pe);
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

bool LiveGroup::is_live(int pe) const {
  const std::lock_guard lock(mutex_);
  return states_[static_cast<size_t>(pe)] == State::kLive;
}

bool LiveGroup::works(int pe) const {
  const std::lock_guard lock(mutex_);
  return states_[static_cast<size_t>(pe)] == State::kLive && !departures_.contains(pe);
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

MemberGroup::MemberGroup(LiveGroup& job, std::vector<int> pes, uint64_t id)
    : job_(job),
      pes_(std::move(pes)),
      id_(id),
      rank_(static_cast<int>(std::ranges::find(pes_, job.rank()) - pes_.begin())) {}

void MemberGroup::allgather(std::span<const std::byte> mine, std::span<std::byte> all) {
  const std::vector<std::byte> own(mine.begin(), mine.end());  // may lie in `all`
  job_.exchange({id_, calls_++, pes_}, own, all);
}

void MemberGroup::barrier() {
  std::vector<std::byte> nothing(pes_.size());
  job_.exchange({id_, calls_++, pes_}, std::span(nothing).first(1), nothing);
}

void MemberGroup::abort(const std::string& reason) {
  job_.abort(reason);
  std::abort();  // g++ does not know that the call above stays
}

}  // namespace peal
