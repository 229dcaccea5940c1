// SPDX-License-Identifier: Apache-2.0
#include "simt/simulation/threads.h"

#include <sys/prctl.h>

#include <utility>

#include "simt/lanes/lane.h"
#include "simt/simulation/simulated_process.h"
#include "simt/simulation/simulation.h"

namespace peal::simt {

void Mutex::lock() {
  if (!in_simulation()) return mutex_.lock();
  while (taken_) yield();
  taken_ = true;
  if (released_ != nullptr) model().acquire(agent(), released_);
}

void Mutex::unlock() {
  if (!in_simulation()) return mutex_.unlock();
  released_ = model().release(agent());
  taken_ = false;
}

// In a simulation what the waiting thread did so far is released once: while it only looks again
// nothing happens, and time may run.
void Condition::begin(std::unique_lock<Mutex>& lock) {
  if (!in_simulation()) return;
  lock.unlock();
  lock.lock();
}

void Condition::wait_once(std::unique_lock<Mutex>& lock) {
  if (!in_simulation()) return changed_.wait(lock);
  lock.mutex()->taken_ = false;
  yield();
  lock.mutex()->lock();
}

ProcessThread::ProcessThread(std::function<void()> body) {
  if (in_simulation()) {
    process_ = start_process(ProcessKind::kThread, {1, 1}, std::move(body));
  } else {
    thread_ = std::thread([body = std::move(body)] {
      ::prctl(PR_SET_NAME, "peal-stream");
      body();
    });
  }
}

void ProcessThread::join() {
  if (process_ != nullptr) return await_process(*process_);
  thread_.join();
}

}  // namespace peal::simt
