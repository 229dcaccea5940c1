// SPDX-License-Identifier: Apache-2.0
#include "host/stream/host_work.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

#include "base/patience.h"
#include "host/base/error.h"
#include "host/memory/backing_cuda.h"

namespace peal {
namespace {

constexpr size_t kPage = 4096;
constexpr std::chrono::microseconds kLongestNap{200};
// A wait ends when the signed difference of word and value is not negative.
constexpr unsigned kWaitAtLeast = 0;     // CU_STREAM_WAIT_VALUE_GEQ
constexpr unsigned kWriteBehindAll = 0;  // CU_STREAM_WRITE_VALUE_DEFAULT: what was copied is seen

}  // namespace

struct HostWork::Job final : public StreamCopies {
  void allow(size_t index) override { open(allowed[index % buffers], index / buffers); }
  void wait(size_t index) override {
    if (!passes(made[index % buffers], index / buffers)) {
      fail(ErrorCode::kSystem, "the stream has failed before copy {} of {}", index, copies);
    }
  }

  void open(const Pass& pass, uint64_t round) const {
    __atomic_store_n(pass.word, pass.first + round, __ATOMIC_RELEASE);
  }
  /// Waits for the stream; false where that has failed.
  bool passes(const Pass& pass, uint64_t round) const {
    Patience patience(kLongestNap);
    const uint64_t value = pass.first + round;
    while (static_cast<int64_t>(__atomic_load_n(pass.word, __ATOMIC_ACQUIRE) - value) < 0) {
      if (failed) return false;
      patience.after(false);
    }
    return true;
  }
  /// Copies that use buffer `index`.
  uint64_t rounds(size_t index) const { return (copies - index + buffers - 1) / buffers; }

  std::function<void(StreamCopies&)> work;
  size_t copies = 0;
  size_t buffers = 0;
  Pass begin{};
  Pass end{};
  std::vector<Pass> allowed;  // by buffer, as is
  std::vector<Pass> made;
  std::atomic<bool> failed = false;  // the stream: nothing more of it is waited for
  // Guarded by the owner's mutex.
  std::unique_ptr<StreamMark> mark;  // of the end, once all is enqueued
  bool enqueued = false;
  bool done = false;
  std::jthread thread;
};

HostWork::HostWork(std::shared_ptr<Gpu> gpu) : gpu_(std::move(gpu)) {}

HostWork::~HostWork() {
  std::list<std::unique_ptr<Job>> left;
  {
    const std::lock_guard lock(mutex_);
    left.swap(jobs_);
  }
  for (const auto& job : left) {
    try {
      if (job->mark) job->mark->wait();
    } catch (const Error&) {
      job->failed = true;
    }
    job->thread.join();
  }
}

// Pinned memory may wait for the whole GPU, and so for gates of before: they open by themselves.
HostWork::Pass HostWork::take_gate(uint64_t times) {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) {
    pages_.push_back(make_pinned_backing(gpu_, kPage, "peal-gates"));
    auto* const words = reinterpret_cast<uint64_t*>(pages_.back().address());
    for (size_t i = 0; i < kPage / sizeof(uint64_t); ++i) {
      free_.push_back(&gates_.emplace_back(Gate{words + i}));
    }
  }
  Gate* const taken = free_.back();
  free_.pop_back();
  const Pass pass{taken, taken->word, taken->next};
  taken->next += times;
  return pass;
}

std::unique_ptr<HostWork::Job> HostWork::make_job(HostTask& task) {
  auto job = std::make_unique<Job>();
  job->work = std::move(task.work);
  job->copies = task.copies.size();
  job->buffers = std::min(task.buffers, job->copies);
  job->begin = take_gate(1);
  job->end = take_gate(1);
  for (size_t i = 0; i < job->buffers; ++i) {
    job->allowed.push_back(take_gate(job->rounds(i)));
    job->made.push_back(take_gate(job->rounds(i)));
  }
  return job;
}

/// Not those of a failed stream, which may still write to them.
void HostWork::give_back(const Job& job) {
  if (job.failed) return;
  free_.push_back(job.begin.gate);
  free_.push_back(job.end.gate);
  for (const Pass& pass : job.allowed) free_.push_back(pass.gate);
  for (const Pass& pass : job.made) free_.push_back(pass.gate);
}

cuda::Result HostWork::wait(const uint64_t* word, uint64_t value, void* stream) const {
  return gpu_->within([&](const cuda::Driver& driver) {
    return driver.wait_value(static_cast<cuda::StreamHandle>(stream), device_address(word), value,
                             kWaitAtLeast);
  });
}

void HostWork::write(const uint64_t* word, uint64_t value, void* stream) const {
  gpu_->call("cuStreamWriteValue64", &cuda::Driver::write_value,
             static_cast<cuda::StreamHandle>(stream), device_address(word), value, kWriteBehindAll);
}

// Tries a wait that is over at once. Later there would be a thread, which does the work in any
// case.
void HostWork::refuse_unless_waits(const Pass& pass, void* stream) const {
  const cuda::Result result = wait(pass.word, 0, stream);
  if (result == cuda::kNotSupported) {
    fail(ErrorCode::kUnsupported,
         "streams of GPU {} cannot wait for memory (cuStreamWaitValue64), which files on a stream "
         "need: call Runtime::load and save between the stream's parts",
         gpu_->index());
  }
  gpu_->check(result, "cuStreamWaitValue64");
}

void HostWork::add(HostTask task, void* stream,
                   const std::function<std::unique_ptr<StreamMark>()>& mark_end) {
  std::unique_ptr<Job> made = make_job(task);
  try {
    refuse_unless_waits(made->end, stream);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    give_back(*made);
    throw;
  }
  Job& job = start(std::move(made));
  std::unique_ptr<StreamMark> mark;
  try {
    enqueue(job, task.copies, stream);
    mark = mark_end();
  } catch (...) {
    job.failed = true;
    const std::lock_guard lock(mutex_);
    job.enqueued = true;
    throw;
  }
  const std::lock_guard lock(mutex_);
  job.mark = std::move(mark);
  job.enqueued = true;
}

/// Takes out the jobs that are over. They are destroyed without the lock, for that calls CUDA.
std::list<std::unique_ptr<HostWork::Job>> HostWork::take_ended() {
  const std::lock_guard lock(mutex_);
  std::list<std::unique_ptr<Job>> ended;
  for (auto at = jobs_.begin(); at != jobs_.end();) {
    const auto one = at++;
    if ((*one)->done && (*one)->enqueued && !(*one)->failed) ended.splice(ended.end(), jobs_, one);
  }
  return ended;
}

HostWork::Job& HostWork::start(std::unique_ptr<Job> made) {
  take_ended().clear();
  const std::lock_guard lock(mutex_);
  Job& job = *jobs_.emplace_back(std::move(made));
  try {
    job.thread = std::jthread([this, &job] { run(job); });
  } catch (const std::system_error&) {
    give_back(job);
    jobs_.pop_back();
    fail(ErrorCode::kSystem, "work on a stream: the machine has no more threads (ulimit -u)");
  }
  return job;
}

void HostWork::enqueue(const Job& job, const std::vector<Copy>& copies, void* stream) const {
  write(job.begin.word, job.begin.first, stream);
  for (size_t i = 0; i < copies.size(); ++i) {
    const size_t buffer = i % job.buffers;
    const uint64_t round = i / job.buffers;
    const Pass& allowed = job.allowed[buffer];
    const Pass& made = job.made[buffer];
    gpu_->check(wait(allowed.word, allowed.first + round, stream), "cuStreamWaitValue64");
    gpu_->call("cuMemcpyAsync", &cuda::Driver::copy, device_address(copies[i].to),
               device_address(copies[i].from), copies[i].bytes,
               static_cast<cuda::StreamHandle>(stream));
    write(made.word, made.first + round, stream);
  }
  gpu_->check(wait(job.end.word, job.end.first, stream), "cuStreamWaitValue64");
}

void HostWork::run(Job& job) {
  // What the stream did before has failed: nothing is left to be in order with.
  if (job.passes(job.begin, 0)) job.work(job);
  for (size_t i = 0; i < job.buffers; ++i) job.open(job.allowed[i], job.rounds(i) - 1);
  for (size_t i = 0; i < job.buffers; ++i) job.passes(job.made[i], job.rounds(i) - 1);
  // A failed stream may still make copies: what they use stays until the end.
  if (!job.failed) job.work = nullptr;
  // Opened before the lock is taken: its holder may be in a call of CUDA's that waits for this
  // stream.
  job.open(job.end, 0);
  const std::lock_guard lock(mutex_);
  give_back(job);
  job.done = true;
}

}  // namespace peal
