// SPDX-License-Identifier: Apache-2.0
#include "simt/runtime/stream.h"

#include <array>
#include <atomic>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "base/immortal.h"
#include "simt/lanes/brief_spin.h"
#include "simt/lanes/launch.h"
#include "simt/simulation/simulated_process.h"
#include "simt/simulation/simulation.h"

namespace peal::simt {

class Capture {
 public:
  explicit Capture(const WorkStream* origin) : origin_(origin) {}
  bool began_by(const WorkStream* stream) const { return origin_ == stream; }

  /// False once it has ended.
  bool add(std::function<void()>& work) {
    const std::lock_guard lock(mutex_);
    if (ended_) return false;
    work_.push_back(std::move(work));
    return true;
  }
  bool ended() const {
    const std::lock_guard lock(mutex_);
    return ended_;
  }
  std::vector<std::function<void()>> end() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    return std::move(work_);
  }

 private:
  const WorkStream* const origin_;
  mutable Mutex mutex_;  // guards what follows
  std::vector<std::function<void()>> work_;
  bool ended_ = false;
};

class Progress {
 public:
  void advance() {
    const std::lock_guard lock(mutex_);
    ++done_;
    changed_.notify_all();  // with the lock: who waits may drop the last reference
  }
  bool reached(uint64_t place) const {
    const std::lock_guard lock(mutex_);
    return done_ >= place;
  }
  void wait_for(uint64_t place) {
    if (!in_simulation()) spin_briefly([&] { return done_ >= place; });
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ >= place; });
  }

 private:
  mutable Mutex mutex_;
  Condition changed_;
  std::atomic<uint64_t> done_ = 0;  // changes under the mutex
};

namespace {

// All streams of the process. Its mutex fixes the order in which work is given to streams that wait
// for each other; it is taken before a stream's own.
struct Streams {
  Mutex mutex;
  std::set<WorkStream*> all;
};

Streams& streams() {
  static Immortal<Streams> the_streams;
  return *the_streams;
}

// In which generation of forks the first stream was made; -1: in none.
constinit std::atomic<int64_t> made_in = -1;

void refuse_child() {
  if (!streams_are_parents()) return;
  throw LaneError(
      "stream: this process was forked from one that has streams, whose threads it does not have: "
      "fork before the first kernel, or exec()");
}

constinit thread_local unsigned device_of_thread = 0;
constinit thread_local bool is_stream_thread = false;

}  // namespace

bool Mark::reached() const { return progress_->reached(place_); }
void Mark::wait() const { progress_->wait_for(place_); }

void WorkGraph::launch(WorkStream& stream) const {
  if (!work_) return;
  // The copy of the pointer keeps the work that is still to be done.
  for (const auto& one : *work_) stream.add([work = work_, &one] { one(); });
}

WorkStream::WorkStream(StreamKind kind)
    : kind_(kind),
      device_(device_in_use()),
      state_(std::make_unique<State>(std::make_shared<Progress>())) {
  refuse_child();
  made_in = Forks::of_process().generation();
  const std::lock_guard lock(streams().mutex);
  state().thread = ProcessThread([this] { run(); });
  streams().all.insert(this);
}

WorkStream::~WorkStream() {
  if (!state_.here()) return;
  {
    const std::lock_guard lock(state().mutex);
    state().ending = true;
  }
  state().changed.notify_all();
  state().thread.join();
  const std::lock_guard lock(streams().mutex);
  streams().all.erase(this);
}

void WorkStream::add(Work work) {
  if (kind_ == StreamKind::kIndependent) return push(std::move(work));
  const std::lock_guard lock(streams().mutex);
  push(capturing() ? std::move(work) : behind_others(std::move(work)));
}

// Requires the lock of streams().
WorkStream::Work WorkStream::behind_others(Work work) const {
  const StreamKind awaited =
      kind_ == StreamKind::kDefault ? StreamKind::kBlocking : StreamKind::kDefault;
  std::vector<Mark> marks;
  for (const WorkStream* other : streams().all) {
    if (other->kind_ != awaited || other->device_ != device_) continue;
    Mark mark = other->place();
    if (!mark.reached()) marks.push_back(std::move(mark));
  }
  if (marks.empty()) return work;
  return [marks = std::move(marks), work = std::move(work)] {
    for (const Mark& mark : marks) mark.wait();
    work();
  };
}

void WorkStream::push(Work work) {
  {
    const std::lock_guard lock(state().mutex);
    if (state().capture && state().capture->add(work)) return;
    state().work.push_back(std::move(work));
    ++state().given;
  }
  state().changed.notify_all();
}

void WorkStream::follow(const Mark& mark) {
  add([mark] { mark.wait(); });
}

void WorkStream::run() {
  (in_simulation() ? this_process().runs_stream : is_stream_thread) = true;
  std::unique_lock lock(state().mutex);
  for (;;) {
    if (!in_simulation() && state().work.empty()) {
      const uint64_t given = state().given;
      lock.unlock();
      spin_briefly([&] { return state().given != given; });
      lock.lock();
    }
    state().changed.wait(lock, [this] { return state().ending || !state().work.empty(); });
    if (state().work.empty()) return;
    do_one(lock);
  }
}

// Without the lock while it works.
void WorkStream::do_one(std::unique_lock<Mutex>& lock) {
  Work work = std::move(state().work.front());
  state().work.pop_front();
  const bool left_out = state().error != nullptr;
  lock.unlock();
  std::exception_ptr error;
  try {
    if (!left_out) work();
  } catch (...) {
    error = std::current_exception();
  }
  work = nullptr;
  lock.lock();
  if (error) state().error = error;
  state().progress->advance();
}

void WorkStream::synchronize() {
  mark().wait();
  const std::lock_guard lock(state().mutex);
  if (state().error) std::rethrow_exception(std::exchange(state().error, nullptr));
}

Mark WorkStream::mark() {
  if (capturing()) throw LaneError("stream: it captures, and cannot be waited for");
  return place();
}

Mark WorkStream::place() const {
  const std::lock_guard lock(state().mutex);
  return {state().progress, state().given};
}

void WorkStream::begin_capture() {
  const std::lock_guard lock(state().mutex);
  if (capture_locked()) throw LaneError("stream: begin_capture: it captures already");
  state().capture = std::make_shared<Capture>(this);
}

WorkGraph WorkStream::end_capture() {
  const std::lock_guard lock(state().mutex);
  if (!capture_locked()) throw LaneError("stream: end_capture: it does not capture");
  if (!state().capture->began_by(this)) {
    throw LaneError("stream: end_capture: another stream began this capture, and ends it");
  }
  return WorkGraph(std::exchange(state().capture, nullptr)->end());
}

bool WorkStream::capturing() const { return capture() != nullptr; }

std::shared_ptr<Capture> WorkStream::capture() const {
  const std::lock_guard lock(state().mutex);
  return capture_locked();
}

std::shared_ptr<Capture> WorkStream::capture_locked() const {
  return state().capture && !state().capture->ended() ? state().capture : nullptr;
}

void WorkStream::join(std::shared_ptr<Capture> capture) {
  const std::lock_guard lock(state().mutex);
  const std::shared_ptr<Capture> own = capture_locked();
  if (own && own != capture) throw LaneError("stream: join: it takes part in another capture");
  state().capture = std::move(capture);
}

WorkStream::State& WorkStream::state() const {
  refuse_child();
  return *state_;
}

bool WorkStream::exists(const void* address) {
  const std::lock_guard lock(streams().mutex);
  return streams().all.contains(static_cast<WorkStream*>(const_cast<void*>(address)));
}

std::vector<Mark> WorkStream::marks_of_device(unsigned device) {
  const std::lock_guard lock(streams().mutex);
  std::vector<Mark> marks;
  for (const WorkStream* stream : streams().all) {
    if (stream->device_ == device) marks.push_back(stream->place());
  }
  return marks;
}

std::vector<Mark> WorkStream::marks_of_all() {
  const std::lock_guard lock(streams().mutex);
  std::vector<Mark> marks;
  for (const WorkStream* stream : streams().all) marks.push_back(stream->place());
  return marks;
}

bool streams_are_parents() {
  const int64_t made = made_in.load(std::memory_order_relaxed);
  return made >= 0 && made != Forks::of_process().generation();
}

bool on_stream_thread() { return in_simulation() ? this_process().runs_stream : is_stream_thread; }

unsigned device_in_use() {
  return in_simulation() ? this_process().device_in_use : device_of_thread;
}

void use_device(unsigned device) {
  if (device >= kMostDevices) {
    throw LaneError("use_device: " + std::to_string(device) + " of " +
                    std::to_string(kMostDevices));
  }
  (in_simulation() ? this_process().device_in_use : device_of_thread) = device;
}

// Each PE's device has its own: the PEs of a simulation are in one process. They stay, for nothing
// is destroyed behind a simulation's end.
WorkStream& simulated_stream(StreamKind kind) {
  using Key = std::tuple<int, unsigned, StreamKind>;
  static Immortal<std::map<Key, std::unique_ptr<WorkStream>>> of_pes;
  std::unique_ptr<WorkStream>& one = (*of_pes)[{this_process().who.pe, device_in_use(), kind}];
  if (one == nullptr) one = std::make_unique<WorkStream>(kind);
  return *one;
}

WorkStream& default_stream() {
  if (in_simulation()) return simulated_stream(StreamKind::kDefault);
  static Mutex mutex;
  static std::array<std::optional<WorkStream>, kMostDevices>
      of_devices;  // CUDA's have no owner either
  const std::lock_guard lock(mutex);
  std::optional<WorkStream>& one = of_devices[device_in_use()];
  if (!one) one.emplace(StreamKind::kDefault);
  return *one;
}

}  // namespace peal::simt
