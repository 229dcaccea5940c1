// SPDX-License-Identifier: Apache-2.0
#include "host/failures/failure_log.h"

#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "host/base/error.h"
#include "host/job/process_stat.h"

namespace peal {
namespace {

// How often alarms are looked for while somebody wants to be called.
constexpr std::chrono::milliseconds kAlarmPeriod{1};

constexpr size_t kMaxReason = 1000;

bool is_from_outside(const Failure& failure) {
  return failure.status == Status::kPeerLost || failure.status == Status::kAborted;
}

Failure aborted(const LiveGroup& group, int pe, std::string_view reason) {
  return {.status = Status::kAborted,
          .pe = pe,
          .time_ns = monotonic_ns(),
          .text = fmt::format("{} aborted: {}", group.name_of(pe), reason)};
}

// A PE that stands still answers neither kernels nor NICs, whatever these make of that.
void name_stopped(const LiveGroup& group, Failure& failure) {
  const std::string stopped = stopped_pes(group.places(), group.rank(), group.live_pes());
  if (!stopped.empty()) failure.text += "; " + stopped;
}

}  // namespace

FailureLog::FailureLog(ContextTable& contexts, LiveGroup& group, PlaceOf place_of, const Log& log)
    : contexts_(contexts),
      group_(group),
      place_of_(std::move(place_of)),
      log_(log),
      vain_waits_(group, log_) {}

FailureLog::~FailureLog() { end_callback(); }

void FailureLog::end_callback() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Failure FailureLog::first() const {
  Failure failure = earliest();
  failure.said = failure.status != Status::kOk ? word_.tell() : word_.said();
  return failure;
}

Status FailureLog::peek() const { return earliest().status; }

// A loss and an abort were said when they came.
Failure FailureLog::untold() const {
  if (word_.told()) return {};
  {
    const std::lock_guard lock(mutex_);
    if (of_dropped_) return *of_dropped_;
  }
  Failure failure = contexts_.well() ? Failure() : earliest();
  return is_from_outside(failure) ? Failure() : failure;
}

// In the order of events as far as one clock tells: what kernels ran into, then what was done to
// them. What follows from the end of a PE is told as that, whether NIC or operating system saw it
// first; what follows from a stop, as the stop.
Failure FailureLog::earliest() const {
  const std::vector<int> lost = group_.lost_pes();
  // A look at the GPU's words costs some 10 us each, and each queue has some: every error raises an
  // alarm or sets a stop word, which are the host's.
  const bool well = contexts_.well();
  std::vector<Failure> found = contexts_.reported();
  std::vector<Failure> stops;
  std::vector<Failure> following;  // told where nothing is that they follow from
  const auto look = [&](const ContextOwner& context) {
    for (Failure& f : context.failures(place_of_)) {
      const bool follows = f.status == Status::kPeerLost || f.status == Status::kAborted ||
                           f.status == Status::kPeerMasked ||
                           std::ranges::find(lost, f.pe) != lost.end();
      (follows ? following : found).push_back(std::move(f));
    }
    if (auto stop = context.stopped()) stops.push_back(std::move(*stop));
  };
  if (well) {
    if (const auto context = contexts_.at(0)) context->touch();  // of a failed GPU no alarm tells
  } else {
    contexts_.for_each(look);
  }
  if (!lost.empty() && !closing_) {
    const int pe = lost.front();
    stops.push_back({.status = Status::kPeerLost,
                     .pe = pe,
                     .time_ns = lost_ns_,
                     .text = fmt::format("{} {}{}", group_.name_of(pe),
                                         rejoins(pe) ? "left the job" : "ended before the job did",
                                         how_left(pe))});
  }
  if (std::optional<Failure> vain = vain_waits_.failure(); vain && !closing_) {
    stops.push_back(std::move(*vain));
  }
  for (const auto* events : {&found, &stops}) {
    if (events->empty()) continue;
    Failure told = *std::ranges::min_element(*events, {}, &Failure::time_ns);
    if (told.status == Status::kQueueError) name_stopped(group_, told);
    return told;
  }
  // A plan of faults says peer lost of one that lives (docs/faults.md).
  std::erase_if(following, [](const Failure& f) { return f.status != Status::kPeerLost; });
  if (!following.empty() && !closing_) return following.front();
  return well ? Failure() : timeouts_among(waits());
}

std::vector<WaitNote> FailureLog::waits() const {
  std::vector<WaitNote> all;
  contexts_.for_each([&](const ContextOwner& context) {
    std::ranges::move(waits_of(context, place_of_), std::back_inserter(all));
  });
  return all;
}

// Waits that ended at their deadline, by which the kernel may have gone on without what it waited
// for: told together, for one is seldom the cause of the others.
Failure FailureLog::timeouts_among(const std::vector<WaitNote>& waits) const {
  Failure told;
  for (const WaitNote& wait : waits) {
    if (wait.status != Status::kTimeout || closes_queue(wait.kind)) continue;
    if (told.status == Status::kOk) {
      told.status = Status::kTimeout;
      told.pe = wait.from;
      told.time_ns = wait.ended_ns;
    }
    told.time_ns = std::min(told.time_ns, wait.ended_ns);
    told.text += (told.text.empty() ? "" : "; ") + wait.text;
  }
  if (told.status != Status::kOk) name_stopped(group_, told);
  return told;
}

// Keeps what a context that the program has dropped still says, for it cannot be asked later.
void FailureLog::keep_of(const ContextOwner& context) {
  if (closing_ || word_.told()) return;
  std::vector<Failure> found = context.failures(place_of_);
  std::erase_if(found, is_from_outside);
  Failure failure = found.empty() ? timeouts_among(waits_of(context, place_of_))
                                  : *std::ranges::min_element(found, {}, &Failure::time_ns);
  if (failure.status == Status::kOk) return;
  const std::lock_guard lock(mutex_);
  if (!of_dropped_) of_dropped_ = std::move(failure);
}

void FailureLog::check() const {
  const Failure failure = first();
  if (failure.status == Status::kOk) return;
  fail(failure.status == Status::kPeerLost ? ErrorCode::kPeerLost : ErrorCode::kSystem, "PE {}: {}",
       group_.rank(), failure.text);
}

Status FailureLog::status() const { return contexts_.well() ? Status::kOk : first().status; }

void FailureLog::on_failure(Callback callback) {
  const std::lock_guard lock(mutex_);
  callback_ = std::move(callback);
  due_ = static_cast<bool>(callback_);
  if (due_ && !thread_.joinable()) {
    thread_ = std::thread([this] {
      ::prctl(PR_SET_NAME, "peal-failures");
      watch();
    });
  }
  changed_.notify_all();
}

void FailureLog::start_again() {
  // The stop that a PE's end had set meanwhile may have been cleared.
  if (!group_.lost_pes().empty()) contexts_.stop_all(Status::kPeerLost);
  word_.forget();
  vain_waits_.forget();
  contexts_.forget_reported();
  const std::lock_guard lock(mutex_);
  of_dropped_.reset();
  due_ = static_cast<bool>(callback_);
  changed_.notify_all();
}

void FailureLog::look_now() {
  const std::lock_guard lock(mutex_);
  news_ = true;
  changed_.notify_all();
}

void FailureLog::watch() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || due_; });
    if (!ending_) changed_.wait_for(lock, kAlarmPeriod, [this] { return ending_ || news_; });
    if (ending_) return;
    news_ = false;
    tell_callback(lock);
  }
}

// Without the lock while it looks and while it calls.
void FailureLog::tell_callback(std::unique_lock<std::mutex>& lock) {
  std::optional<Failure> failure;
  Callback call;
  lock.unlock();
  attempt([&] { failure = contexts_.well() && group_.lost_pes().empty() ? Failure() : first(); });
  lock.lock();
  if (failure && failure->status == Status::kOk) return;
  if (!std::exchange(due_, false) || !failure) return;  // they cannot be read: it was said so
  call = callback_;
  lock.unlock();
  attempt([&] { call(*failure); });
  call = nullptr;
  lock.lock();
}

void FailureLog::attempt(const std::function<void()>& body) const {
  try {
    body();
  } catch (const std::exception& error) {
    log_.error("runtime", "on_failure: the callback threw: {}", error.what());
  } catch (...) {
    log_.error("runtime", "on_failure: the callback threw");
  }
}

// An abort names the newest context there was and the recoveries there had been: one that arrives
// late does not end what began after it. The table's lock makes one step of looking and stopping:
// a recovery that begins a generation meanwhile finds the contexts stopped, and clears them.
void FailureLog::stop(const Failure& why, const Aborted& what) const {
  contexts_.for_each([&](ContextOwner& context) {
    if (what.generation < contexts_.generation() || context.serial() > what.serial) return;
    const bool named = what.slot == context.slot() && what.serial == context.serial();
    if (what.slot == Aborted::kAllContexts || named) context.stop(why);
  });
}

std::string FailureLog::how_left(int pe) const {
  const std::optional<Departure> how = group_.departure(pe);
  return how ? ": it " + describe(*how) : "";
}

bool FailureLog::rejoins(int pe) const {
  const std::optional<Departure> how = group_.departure(pe);
  return how && how->how == Departure::How::kRejoins;
}

void FailureLog::peer_lost(int pe, int pid) {
  // What a PE told itself says more, but where it has died while it waited for the others.
  const std::optional<Departure> told = group_.departure(pe);
  if (!told || told->in_order()) {
    if (auto how = departure_of_process(pid)) group_.left(pe, std::move(*how));
  }
  // It has told of the PE that it left because of, whose process may take longer to end.
  if (std::ranges::find(leavers_, pe) != leavers_.end()) lose_leavers();
  lose(pe);
}

void FailureLog::far_peer_lost(int pe, Departure how) {
  const std::optional<Departure> told = group_.departure(pe);
  if (!told || told->in_order()) group_.left(pe, std::move(how));
  lose(pe);
}

void FailureLog::hear_of_loss(const Message& message) {
  if (const std::optional<int> pe = group_.hear_of_loss(message)) lose(*pe);
}

void FailureLog::peer_left(const Message& message) {
  std::ranges::copy(group_.hear_leaving(message), std::back_inserter(leavers_));
}

void FailureLog::lose(int pe) {
  const std::lock_guard losing(losing_);
  if (!group_.lost(pe) || closing_) return;  // at the end, leaving is no failure
  uint64_t never = 0;
  if (!lost_ns_.compare_exchange_strong(never, monotonic_ns())) return;  // the first one tells
  log_.error("runtime", "{} (process {}) has {}{}; all waits end with \"{}\"", group_.name_of(pe),
             group_.places()[static_cast<size_t>(pe)].pid,
             rejoins(pe) ? "left the job" : "ended before the job did", how_left(pe),
             to_string(Status::kPeerLost));
  contexts_.stop_all(Status::kPeerLost);
  look_now();
}

// A PE that left because another PE died is reported after that one, whose process may have ended
// without a word.
void FailureLog::lose_leavers() {
  for (const int pe : std::exchange(leavers_, {})) lose(pe);
}

void FailureLog::look() {
  if (closing_) return;
  say_first();
  if (!vain_waits_.look([this] { return waits(); })) return;
  contexts_.stop_all(Status::kPeerLost);
  look_now();
}

// A wait whose deadline has passed may be about to be handled(): it is said when two looks in a row
// find it.
void FailureLog::say_first() {
  const std::optional<uint64_t> round = word_.due();
  if (!round || contexts_.well()) return;
  {
    const std::lock_guard lock(mutex_);
    if (callback_) return;
  }
  const Failure failure = earliest();
  if (failure.status == Status::kOk || is_from_outside(failure)) return;
  if (failure.status == Status::kTimeout &&
      std::exchange(timeout_ns_, failure.time_ns) != failure.time_ns) {
    return;
  }
  word_.say(*round, [&] { log_.error("kernel", "{}", failure.text); });
}

void FailureLog::abort(const ContextFields* context, std::string_view reason) {
  Aborted what{.generation = contexts_.generation()};
  contexts_.for_each([&](const ContextOwner& one) {
    if (context == nullptr) {
      what.serial = std::max(what.serial, one.serial());
    } else if (one.fields().state == context->state) {
      what.slot = one.slot();
      what.serial = one.serial();
    }
  });
  if (context != nullptr && what.slot == Aborted::kAllContexts) {
    fail(ErrorCode::kInvalidArgument, "abort: the context is none of this runtime, or was dropped");
  }
  reason = reason.substr(0, kMaxReason);
  stop(aborted(group_, group_.rank(), reason), what);
  look_now();
  // One thread at a time: those that abort together fill the queues of peers who were told then.
  const std::lock_guard lock(abort_mutex_);
  for (const int pe : group_.live_pes()) {
    if (pe == group_.rank() || told_abort_[pe] == what) continue;
    const auto sent = group_.channel().send(pe, Message::Kind::kAbort, what.words(),
                                            std::as_bytes(std::span(reason)));
    if (sent == Channel::Sent::kDone) {
      told_abort_[pe] = what;
    } else {
      log_.warn("runtime", "abort: {} could not be told; its waits end at their deadline",
                group_.name_of(pe));
    }
  }
}

void FailureLog::deliver(const Message& message) {
  if (closing_ || !group_.is_live(message.from)) return;
  const std::string_view reason(reinterpret_cast<const char*>(message.payload.data()),
                                std::min(message.payload.size(), kMaxReason));
  const auto [generation, slot, serial, unused] = message.word;
  stop(aborted(group_, message.from, reason), {generation, slot, serial});
  look_now();
}

}  // namespace peal
