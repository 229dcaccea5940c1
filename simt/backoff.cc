// SPDX-License-Identifier: Apache-2.0
//
// Yield first, nap only where it helps somebody.
#include "simt/backoff.h"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace peal::simt {
namespace {

using namespace std::chrono_literals;

// The usual wait is for this process's NIC engine, a few microseconds away.
constexpr auto kPatience = 500us;
constexpr auto kFirstNap = 10us;
constexpr auto kLongestNap = 50us;

// sched_yield() takes 0.3 us when nobody else wants this CPU, over 2 us with a switch there and
// back.
constexpr auto kOthersRan = 2us;

}  // namespace

void Backoff::pass() {
  const Clock::time_point before = Clock::now();
  ::sched_yield();
  if (!waiting_) {
    waiting_ = true;
    since_ = before;
    nap_ = kFirstNap;
    return;
  }
  const Clock::time_point after = Clock::now();
  if (after - before < kOthersRan || after - since_ < kPatience) return;
  std::this_thread::sleep_for(nap_);
  nap_ = std::min<std::chrono::microseconds>(nap_ * 2, kLongestNap);
}

}  // namespace peal::simt
