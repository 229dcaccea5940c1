// SPDX-License-Identifier: Apache-2.0
//
// A stream on a CPU: work that is done in the order in which it was given, by a thread of the
// stream, while the thread that gave it goes on.
//
//   Stream stream;
//   stream.add([&] { launch(grid, body).wait(); });
//   stream.add([&] { memcpy(to, from, bytes); });
//   stream.synchronize();
//
// While a stream captures, work is recorded in a graph instead, to be done any number of times.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace peal::simt {

class Stream;

/// Work in order, recorded once. What it refers to must outlive its last run.
class Graph {
 public:
  Graph() = default;
  /// Gives the whole of it to a stream.
  void launch(Stream& stream) const;
  size_t size() const { return work_ ? work_->size() : 0; }

 private:
  friend class Stream;
  using Work = std::vector<std::function<void()>>;
  explicit Graph(Work work) : work_(std::make_shared<const Work>(std::move(work))) {}
  std::shared_ptr<const Work> work_;
};

/// Thread-safe.
class Stream {
 public:
  Stream();
  /// Waits for the work that it was given.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Returns at once. After work that threw, what follows is left out until synchronize() has told
  /// of it.
  void add(std::function<void()> work);

  /// Returns when all work is done, and rethrows the first exception since it was last called.
  /// Throws Error while the stream captures.
  void synchronize();

  /// A place in the stream, behind what it was given so far. Throws Error while it captures.
  uint64_t mark();
  bool reached(uint64_t mark) const;
  void wait_for(uint64_t mark);

  /// Throw Error where the stream captures already, or does not.
  void begin_capture();
  Graph end_capture();
  bool capturing() const;

 private:
  void run();
  void do_one(std::unique_lock<std::mutex>& lock);

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  std::unique_ptr<Graph::Work> captured_;  // null: does not capture
  std::exception_ptr error_;
  uint64_t given_ = 0;
  uint64_t done_ = 0;
  bool ending_ = false;
  std::thread thread_;
};

/// The stream that CUDA programs call 0: one of the process, made when it is first asked for. It
/// does not wait for others, nor they for it.
Stream& default_stream();

}  // namespace peal::simt
