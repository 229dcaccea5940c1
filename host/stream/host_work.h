// SPDX-License-Identifier: Apache-2.0
//
// Work of the host in the order of a GPU's stream.
//
//   stream   | what was given before | event | wait: word >= n | what is given later
//   a thread |               waits for event | work | word = n
//
// No callback of the stream (cuLaunchHostFunc): that may not call CUDA, and one thread of the
// driver runs them all. The wait has no deadline: it ends when the work does.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "host/memory/backing.h"
#include "host/memory/gpu.h"
#include "host/stream/executor.h"

namespace peal {

/// Thread-safe. A thread for each work: streams do not wait for each other.
class HostWork {
 public:
  explicit HostWork(std::shared_ptr<Gpu> gpu) : gpu_(std::move(gpu)) {}
  /// Waits for all work, and so for the streams that it was given to.
  ~HostWork();
  HostWork(const HostWork&) = delete;
  HostWork& operator=(const HostWork&) = delete;

  /// Behind `place`, which is the end of `stream`; what the stream is given from now on waits.
  /// `work` must not throw. Throws kUnsupported where streams cannot wait, kSystem where the
  /// machine has no more threads; nothing was given then.
  void add(std::unique_ptr<StreamMark> place, std::function<void()> work, void* stream);

 private:
  /// A word that a stream waits for. It only ever grows, so that it may be used again while the
  /// stream of before has not looked yet.
  struct Gate {
    uint64_t* word;
    uint64_t next = 1;
  };
  struct Job {
    std::unique_ptr<StreamMark> place;
    std::function<void()> work;
    Gate* gate;
    bool done = false;
    std::jthread thread = {};
  };
  Gate* take_gate();
  void refuse_unless_waits(const uint64_t* word, uint64_t value, void* stream) const;
  cuda::Result wait(const uint64_t* word, uint64_t value, void* stream) const;
  void give_back(Gate* gate);
  void run(Job& job);

  const std::shared_ptr<Gpu> gpu_;
  std::mutex mutex_;  // guards what follows
  std::vector<Backing> pages_;
  std::deque<Gate> gates_;   // all there are
  std::vector<Gate*> free_;  // that nobody will open
  std::list<Job> jobs_;
};

}  // namespace peal
