// SPDX-License-Identifier: Apache-2.0
//
// A stream on a CPU: work that is done in the order in which it was given, by a thread of the
// stream, while the thread that gave it goes on.
//
//   WorkStream stream;
//   stream.add([&] { launch_and_wait(grid, body); });
//   stream.add([&] { memcpy(to, from, bytes); });
//   stream.synchronize();
//
// While a stream captures, work is recorded in a graph instead, to be done any number of times.
//
// Invariant: work waits only for work that was given before it, so streams cannot wait in a circle.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "base/forks.h"
#include "simt/simulation/threads.h"

namespace peal::simt {

class WorkStream;
class Capture;   // work recorded by one stream, and by others that joined it
class Progress;  // how far a stream is

/// Work in order, recorded once. What it refers to must outlive its last run.
class WorkGraph {
 public:
  WorkGraph() = default;
  /// Gives the whole of it to a stream.
  void launch(WorkStream& stream) const;
  size_t size() const { return work_ ? work_->size() : 0; }

 private:
  friend class WorkStream;
  using Work = std::vector<std::function<void()>>;
  explicit WorkGraph(Work work) : work_(std::make_shared<const Work>(std::move(work))) {}
  std::shared_ptr<const Work> work_;
};

/// A place in a stream, behind what it was given so far. May outlive the stream.
class Mark {
 public:
  bool reached() const;
  void wait() const;

 private:
  friend class WorkStream;
  Mark(std::shared_ptr<Progress> progress, uint64_t place)
      : progress_(std::move(progress)), place_(place) {}
  std::shared_ptr<Progress> progress_;
  uint64_t place_;
};

/// Whom work of a stream waits for, beside the stream's own: CUDA's default stream of a device and
/// its blocking streams wait for what the other kind was given before.
enum class StreamKind { kIndependent, kBlocking, kDefault };

/// Thread-safe. In a child of fork() all calls throw Error, and destruction does nothing.
class WorkStream {
 public:
  /// A stream of the calling thread's device. Throws Error in a child whose parent has streams, as
  /// CUDA refuses one.
  explicit WorkStream(StreamKind kind = StreamKind::kIndependent);
  /// Waits for the work that it was given.
  ~WorkStream();
  WorkStream(const WorkStream&) = delete;
  WorkStream& operator=(const WorkStream&) = delete;

  /// Returns at once. After work that threw, what follows is left out until synchronize() has told
  /// of it.
  void add(std::function<void()> work);

  /// What is given from now on waits for `mark`.
  void follow(const Mark& mark);

  /// Returns when all work is done, and rethrows the first exception since it was last called.
  /// Throws Error while the stream captures.
  void synchronize();

  /// Throws Error while it captures.
  Mark mark();

  /// Throw Error where the stream captures already, or does not, or joined another's capture.
  void begin_capture();
  WorkGraph end_capture();
  bool capturing() const;
  /// What it records into, or null.
  std::shared_ptr<Capture> capture() const;
  /// Records from now on into another stream's capture, until that ends.
  void join(std::shared_ptr<Capture> capture);

  StreamKind kind() const { return kind_; }

  /// True if there is a stream at this address.
  static bool exists(const void* address);
  /// A mark in each stream of all devices, or of one.
  static std::vector<Mark> marks_of_all();
  static std::vector<Mark> marks_of_device(unsigned device);

 private:
  using Work = std::function<void()>;
  Work behind_others(Work work) const;
  void push(Work work);
  Mark place() const;
  std::shared_ptr<Capture> capture_locked() const;
  void run();
  void do_one(std::unique_lock<Mutex>& lock);

  // A thread and those who wait for it. A child of fork() has neither.
  struct State {
    explicit State(std::shared_ptr<Progress> of) : progress(std::move(of)) {}
    const std::shared_ptr<Progress> progress;
    Mutex mutex;  // guards what follows
    Condition changed;
    std::deque<Work> work;
    std::shared_ptr<Capture> capture;  // null or ended: does not capture
    std::exception_ptr error;
    std::atomic<uint64_t> given = 0;  // changes under the mutex
    bool ending = false;
    ProcessThread thread;
  };
  State& state() const;

  const StreamKind kind_;
  const unsigned device_;
  const OfProcess<State> state_;
};

/// True in a child of fork() whose parent had streams.
bool streams_are_parents();

/// True on a stream's own thread. Work that waits for its stream there would wait for itself.
bool on_stream_thread();

/// Devices are numbers below this; all are the same CPU.
inline constexpr unsigned kMostDevices = 64;

/// The device of the calling thread: 0 until it names another. Throws Error from kMostDevices on.
unsigned device_in_use();
void use_device(unsigned device);

/// The stream that CUDA programs call 0: one of each device, made when it is first asked for.
/// The device in use says which.
WorkStream& default_stream();

/// In a simulation: the stream of such a kind that the calling PE's device in use has.
WorkStream& simulated_stream(StreamKind kind);

}  // namespace peal::simt
