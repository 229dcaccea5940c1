// SPDX-License-Identifier: Apache-2.0
#include "simt/stream.h"

#include <utility>

#include "simt/launch.h"

namespace peal::simt {

void Graph::launch(Stream& stream) const {
  if (!work_) return;
  // The copy of the pointer keeps the work that is still to be done.
  for (const auto& one : *work_) stream.add([work = work_, &one] { one(); });
}

Stream::Stream() : thread_([this] { run(); }) {}

Stream::~Stream() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Stream::add(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    if (captured_) {
      captured_->push_back(std::move(work));
      return;
    }
    work_.push_back(std::move(work));
    ++given_;
  }
  changed_.notify_all();
}

void Stream::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || !work_.empty(); });
    if (work_.empty()) return;
    do_one(lock);
  }
}

// Without the lock while it works.
void Stream::do_one(std::unique_lock<std::mutex>& lock) {
  std::function<void()> work = std::move(work_.front());
  work_.pop_front();
  const bool left_out = error_ != nullptr;
  lock.unlock();
  std::exception_ptr error;
  try {
    if (!left_out) work();
  } catch (...) {
    error = std::current_exception();
  }
  work = nullptr;
  lock.lock();
  if (error) error_ = error;
  ++done_;
  changed_.notify_all();
}

void Stream::synchronize() {
  wait_for(mark());
  const std::lock_guard lock(mutex_);
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

uint64_t Stream::mark() {
  const std::lock_guard lock(mutex_);
  if (captured_) throw Error("stream: it captures, and cannot be waited for");
  return given_;
}

bool Stream::reached(uint64_t mark) const {
  const std::lock_guard lock(mutex_);
  return done_ >= mark;
}

void Stream::wait_for(uint64_t mark) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ >= mark; });
}

void Stream::begin_capture() {
  const std::lock_guard lock(mutex_);
  if (captured_) throw Error("stream: begin_capture: it captures already");
  captured_ = std::make_unique<Graph::Work>();
}

Graph Stream::end_capture() {
  const std::lock_guard lock(mutex_);
  if (!captured_) throw Error("stream: end_capture: it does not capture");
  return Graph(std::move(*std::exchange(captured_, nullptr)));
}

bool Stream::capturing() const {
  const std::lock_guard lock(mutex_);
  return captured_ != nullptr;
}

Stream& default_stream() {
  static Stream the_stream;  // CUDA's has no owner either
  return the_stream;
}

}  // namespace peal::simt
