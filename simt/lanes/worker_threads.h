// SPDX-License-Identifier: Apache-2.0
//
// Threads that run workers, kept from launch to launch: a launch takes idle ones, and makes one
// where there is none, so that all of its workers run at the same time as those of other launches.
//
//   launch: give() --job--> idle thread: run() --> idle again --> the job's end is told
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "simt/lanes/watch.h"

namespace peal::simt {

/// What a thread is given to do. It must last until its end was told, or take_back() said so.
class ThreadJob {
 public:
  ThreadJob() = default;
  virtual ~ThreadJob() = default;
  ThreadJob(const ThreadJob&) = delete;
  ThreadJob& operator=(const ThreadJob&) = delete;

  virtual void run() = 0;
  /// The last that is called of it, once its thread may be given another.
  virtual void tell_end() = 0;
};

class WorkerThread;

class WorkerThreads {
 public:
  /// This process's: a child of fork() has no thread of its parent's.
  static WorkerThreads& of_process();

  /// Throws where the system makes no thread.
  WorkerThread& give(ThreadJob& job);
  /// True if the thread had not begun with the job, and now will not.
  bool take_back(WorkerThread& thread, ThreadJob& job);

 private:
  friend class WorkerThread;
  void add_idle(WorkerThread& thread);

  std::mutex mutex_;
  std::vector<WorkerThread*> idle_;
  std::vector<std::unique_ptr<WorkerThread>> all_;
};

}  // namespace peal::simt
