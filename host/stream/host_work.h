// SPDX-License-Identifier: Apache-2.0
//
// Work of the host in the order of a GPU's stream, with copies that the stream makes for it.
//
//   stream     before | begin = b | wait: allowed[0] | copy 0 | made[0] = m | ... | wait: end
//   a thread   waits for b | allows copies, waits until they are made, ... | end
//
// The thread calls nothing of CUDA. The launch of a kernel that was not loaded yet holds a lock of
// the driver until the GPU's streams have done what they were given (seen on an H200, CUDA 13.0):
// a thread that such a stream waits for, and that calls CUDA itself, would wait for the launch, and
// the launch for the thread. For the same reason there is no callback of the stream
// (cuLaunchHostFunc): one thread of the driver runs them all.
//
// The wait has no deadline: it ends when the work does.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "host/memory/backing.h"
#include "host/memory/gpu.h"
#include "host/stream/executor.h"

namespace peal {

/// Thread-safe. A thread for each task: streams do not wait for each other.
class HostWork {
 public:
  explicit HostWork(std::shared_ptr<Gpu> gpu);
  /// Waits for all work, and so for the streams that it was given to. What a failed stream would
  /// have had to do is not waited for.
  ~HostWork();
  HostWork(const HostWork&) = delete;
  HostWork& operator=(const HostWork&) = delete;

  /// Executor::host_work(); `mark_end` marks the end of the stream. Where it throws nothing was
  /// given, or the stream has failed.
  void add(HostTask task, void* stream,
           const std::function<std::unique_ptr<StreamMark>()>& mark_end);

 private:
  /// A word that the stream or a thread waits for. It only ever grows, so that it may be used again
  /// while who waited before has not looked yet.
  struct Gate {
    uint64_t* word;
    uint64_t next = 1;
  };
  /// A gate as one task uses it: it has `first` when it is passed for the first time.
  struct Pass {
    Gate* gate;
    uint64_t* word;
    uint64_t first;
  };
  struct Job;
  Pass take_gate(uint64_t times);
  std::unique_ptr<Job> make_job(HostTask& task);
  void give_back(const Job& job);
  cuda::Result wait(const uint64_t* word, uint64_t value, void* stream) const;
  void write(const uint64_t* word, uint64_t value, void* stream) const;
  void refuse_unless_waits(const Pass& pass, void* stream) const;
  std::list<std::unique_ptr<Job>> take_ended();
  Job& start(std::unique_ptr<Job> made);
  void enqueue(const Job& job, const std::vector<Copy>& copies, void* stream) const;
  void run(Job& job);

  const std::shared_ptr<Gpu> gpu_;
  std::mutex mutex_;  // guards what follows
  std::vector<Backing> pages_;
  std::deque<Gate> gates_;   // all there are
  std::vector<Gate*> free_;  // that nobody will open
  std::list<std::unique_ptr<Job>> jobs_;
};

}  // namespace peal
