// SPDX-License-Identifier: Apache-2.0
#include "host/failures/failure_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

namespace peal {
namespace {

// How often alarms are looked for while somebody wants to be called.
constexpr std::chrono::milliseconds kAlarmPeriod{1};

}  // namespace

FailureLog::FailureLog(ContextTable& contexts, LiveGroup& group, const Log& log)
    : contexts_(contexts), group_(group), log_(log) {}

FailureLog::~FailureLog() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

// In the order of events as far as one clock tells: what kernels ran into, then what was done to
// them. What follows from the end of a PE is told as that, whether NIC or operating system saw it
// first; what follows from a stop, as the stop.
Failure FailureLog::first() const {
  const std::vector<int> lost = group_.lost_pes();
  std::vector<Failure> found;
  std::vector<Failure> stops;
  contexts_.for_each([&](const ContextOwner& context) {
    for (Failure& f : context.failures()) {
      const bool follows = f.status == Status::kPeerLost || f.status == Status::kAborted ||
                           f.status == Status::kPeerMasked ||
                           std::ranges::find(lost, f.pe) != lost.end();
      if (!follows) found.push_back(std::move(f));
    }
    if (auto stop = context.stopped()) stops.push_back(std::move(*stop));
  });
  if (!lost.empty() && !closing_) {
    Failure loss;
    loss.status = Status::kPeerLost;
    loss.pe = lost.front();
    loss.time_ns = lost_ns_;
    loss.text = fmt::format("PE {} ended before the job did", lost.front());
    stops.push_back(std::move(loss));
  }
  for (const auto* events : {&found, &stops}) {
    if (!events->empty()) return *std::ranges::min_element(*events, {}, &Failure::time_ns);
  }
  return {};
}

Status FailureLog::status() const { return contexts_.well() ? Status::kOk : first().status; }

void FailureLog::on_failure(Callback callback) {
  const std::lock_guard lock(mutex_);
  callback_ = std::move(callback);
  due_ = static_cast<bool>(callback_);
  if (due_ && !thread_.joinable()) thread_ = std::thread([this] { watch(); });
  changed_.notify_all();
}

void FailureLog::start_again() {
  // Of a PE that ended meanwhile its own stop may have been cleared.
  if (!group_.lost_pes().empty()) contexts_.stop_all(Status::kPeerLost);
  const std::lock_guard lock(mutex_);
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

}  // namespace peal
