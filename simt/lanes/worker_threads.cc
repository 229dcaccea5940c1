// SPDX-License-Identifier: Apache-2.0
#include "simt/lanes/worker_threads.h"

#include <pthread.h>
#include <unistd.h>

#include <map>
#include <thread>

#include "base/immortal.h"
#include "simt/lanes/brief_spin.h"

namespace peal::simt {

/// One of them, and the job that it has not begun with.
class WorkerThread {
 public:
  explicit WorkerThread(WorkerThreads& all) : all_(all) {
    std::thread([this] { run(); }).detach();
  }
  void give(ThreadJob& job) {
    job_.store(&job);
    if (sleeps_.exchange(false)) bell_.ring();
  }
  bool take_back(ThreadJob& job) {
    ThreadJob* expected = &job;
    return job_.compare_exchange_strong(expected, nullptr);
  }

 private:
  [[noreturn]] void run() {
    ::pthread_setname_np(::pthread_self(), "peal-worker");
    for (;;) {
      ThreadJob* const job = job_.exchange(nullptr);
      if (job == nullptr) {
        wait();
        continue;
      }
      job->run();
      all_.add_idle(*this);
      job->tell_end();
    }
  }
  void wait() {
    const auto given = [this] { return job_.load() != nullptr; };
    if (spin_briefly(given)) return;
    sleeps_ = true;
    if (given() && sleeps_.exchange(false)) return;
    bell_.wait();
  }

  WorkerThreads& all_;
  std::atomic<ThreadJob*> job_{nullptr};
  std::atomic<bool> sleeps_{false};
  Bell bell_;
};

WorkerThreads& WorkerThreads::of_process() {
  static Immortal<std::mutex> mutex;
  static Immortal<std::map<pid_t, WorkerThreads>> of_processes;  // and of those it was forked from
  const std::lock_guard lock(*mutex);
  return (*of_processes)[::getpid()];
}

WorkerThread& WorkerThreads::give(ThreadJob& job) {
  WorkerThread* thread = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) {
      all_.push_back(std::make_unique<WorkerThread>(*this));
      idle_.push_back(all_.back().get());
    }
    thread = idle_.back();
    idle_.pop_back();
  }
  thread->give(job);
  return *thread;
}

bool WorkerThreads::take_back(WorkerThread& thread, ThreadJob& job) {
  if (!thread.take_back(job)) return false;
  add_idle(thread);
  return true;
}

void WorkerThreads::add_idle(WorkerThread& thread) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(&thread);
}

}  // namespace peal::simt
