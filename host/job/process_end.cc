// SPDX-License-Identifier: Apache-2.0
//
// The C library's hooks are of the process, and so is the list of those who want to know.
#include "host/job/process_end.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/immortal.h"
#include "host/job/process_stat.h"

namespace peal {
namespace {

// std::terminate() may have been called while the lock is held.
constexpr std::chrono::seconds kUntilGivenUp{1};

struct Ends {
  std::recursive_mutex mutex;  // recursive: who is told may destroy itself
  std::vector<ProcessEnd*> all;
  std::terminate_handler terminate_before = nullptr;
};

Ends& ends();

// pthread_exit() of the main thread destroys what is kept by a key, and no thread_local.
constinit std::atomic<bool> main_has_ended = false;
void watch_main() {
  pthread_key_t key = 0;
  const auto at_end = [](void*) { main_has_ended = true; };
  if (::pthread_key_create(&key, at_end) == 0) ::pthread_setspecific(key, &main_has_ended);
}

// Read by handlers of signals.
std::array<std::atomic<const LiveGroup*>, 64> told_of_crashes;

bool only_services_are_left() {
  const std::string main = std::to_string(::getpid());
  for (const std::string& thread : names_in("/proc/self/task")) {
    const bool service = text_of("/proc/self/task/" + thread + "/comm").starts_with("peal-");
    if (thread != main && !service) return false;
  }
  return true;
}

void tell_all(const Departure& how) {
  // Polled: ThreadSanitizer does not model timed locks of a mutex.
  std::unique_lock lock(ends().mutex, std::try_to_lock);
  const auto end = std::chrono::steady_clock::now() + kUntilGivenUp;
  while (!lock && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    (void)lock.try_lock();
  }
  if (!lock) return;
  // The newest first, as objects are destroyed; a copy, for the list may change.
  std::vector<ProcessEnd*> told = ends().all;
  std::ranges::reverse(told);
  for (ProcessEnd* one : told) {
    if (std::ranges::find(ends().all, one) != ends().all.end()) one->tell(how);
  }
}

[[noreturn]] void at_terminate() {
  std::string text;
  try {
    if (const std::exception_ptr error = std::current_exception()) std::rethrow_exception(error);
  } catch (const std::exception& error) {
    text = error.what();
  } catch (...) {
    text = "an exception that is no std::exception";
  }
  tell_all({Departure::How::kTerminated, 0, text});
  if (ends().terminate_before != nullptr) ends().terminate_before();
  std::abort();
}

Ends& ends() {
  static Immortal<Ends> the_ends;
  [[maybe_unused]] static const bool installed = [] {
    ::on_exit([](int code, void*) { tell_all({Departure::How::kExited, code}); }, nullptr);
    ::at_quick_exit([] { tell_all({Departure::How::kQuickExit}); });
    (*the_ends).terminate_before = std::set_terminate(at_terminate);
    if (::gettid() == ::getpid()) watch_main();
    return true;
  }();
  return *the_ends;
}

}  // namespace

CrashNotice::CrashNotice(const LiveGroup& group) : group_(&group) {
  for (auto& place : told_of_crashes) {
    const LiveGroup* free = nullptr;
    if (place.compare_exchange_strong(free, group_)) return;
  }
}

CrashNotice::~CrashNotice() {
  for (auto& place : told_of_crashes) {
    const LiveGroup* mine = group_;
    if (place.compare_exchange_strong(mine, nullptr)) return;
  }
}

void say_crash(int signal, const char* text) noexcept {
  for (const auto& place : told_of_crashes) {
    const LiveGroup* const group = place;
    if (group != nullptr) {
      group->announce(Departure::How::kKilled, signal, text == nullptr ? "" : text);
    }
  }
}

// Not on the caller's thread: the end waits for threads, of which it is one.
void exit_after_pthread_exit() {
  if (!main_has_ended || stat_of_process(::getpid()).state != 'Z') return;
  if (!only_services_are_left()) return;
  main_has_ended = false;
  std::thread([] { std::exit(0); }).detach();
}

ProcessEnd::ProcessEnd(Leave leave) : leave_(std::move(leave)) {
  const std::lock_guard lock(ends().mutex);
  ends().all.push_back(this);
}

ProcessEnd::~ProcessEnd() {
  if (!maker_.here()) return;
  const std::lock_guard lock(ends().mutex);
  std::erase(ends().all, this);
}

void ProcessEnd::tell(const Departure& how) {
  if (maker_.here()) std::exchange(leave_, [](const Departure&) {})(how);
}

}  // namespace peal
