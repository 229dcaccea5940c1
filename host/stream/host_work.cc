// SPDX-License-Identifier: Apache-2.0
#include "host/stream/host_work.h"

#include <system_error>
#include <utility>

#include "host/base/error.h"
#include "host/memory/backing_cuda.h"

namespace peal {
namespace {

constexpr size_t kPage = 4096;
// A wait ends when the signed difference of word and value is not negative.
constexpr unsigned kWaitAtLeast = 0;  // CU_STREAM_WAIT_VALUE_GEQ

}  // namespace

HostWork::~HostWork() {
  std::list<Job> left;
  {
    const std::lock_guard lock(mutex_);
    left.swap(jobs_);
  }
  for (Job& job : left) job.thread.join();
}

// Pinned memory may wait for the whole GPU, and so for gates of before: they open by themselves.
HostWork::Gate* HostWork::take_gate() {
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
  return taken;
}

void HostWork::give_back(Gate* gate) {
  const std::lock_guard lock(mutex_);
  free_.push_back(gate);
}

cuda::Result HostWork::wait(const uint64_t* word, uint64_t value, void* stream) const {
  return gpu_->within([&](const cuda::Driver& driver) {
    return driver.wait_value(static_cast<cuda::Stream>(stream), device_address(word), value,
                             kWaitAtLeast);
  });
}

// By a wait for what the word has: before there is a thread that would do the work all the same.
void HostWork::refuse_unless_waits(const uint64_t* word, uint64_t value, void* stream) const {
  const cuda::Result result = wait(word, value, stream);
  if (result == cuda::kNotSupported) {
    fail(ErrorCode::kUnsupported,
         "streams of GPU {} cannot wait for memory (cuStreamWaitValue64), which files on a stream "
         "need: call Runtime::load and save between the stream's parts",
         gpu_->index());
  }
  gpu_->check(result, "cuStreamWaitValue64");
}

void HostWork::add(std::unique_ptr<StreamMark> place, std::function<void()> work, void* stream) {
  Gate* const gate = take_gate();
  // Once there is a thread the gate is its own, and soon another's.
  uint64_t* const word = gate->word;
  const uint64_t value = gate->next;
  try {
    refuse_unless_waits(word, value - 1, stream);
    const std::lock_guard lock(mutex_);
    std::erase_if(jobs_, [](const Job& one) { return one.done; });
    Job* const job = &jobs_.emplace_back(Job{std::move(place), std::move(work), gate});
    try {
      job->thread = std::jthread([this, job] { run(*job); });
    } catch (const std::system_error&) {
      jobs_.pop_back();
      fail(ErrorCode::kSystem, "work on a stream: the machine has no more threads (ulimit -u)");
    }
  } catch (...) {
    give_back(gate);
    throw;
  }
  gpu_->check(wait(word, value, stream), "cuStreamWaitValue64");
}

void HostWork::run(Job& job) {
  // What the stream did before has failed: nothing is left to be in order with.
  bool reached = true;
  try {
    job.place->wait();
  } catch (const Error&) {
    reached = false;
  }
  if (reached) job.work();
  job.work = nullptr;
  job.place = nullptr;
  const std::lock_guard lock(mutex_);
  __atomic_store_n(job.gate->word, job.gate->next++, __ATOMIC_RELEASE);
  free_.push_back(job.gate);
  job.done = true;
}

}  // namespace peal
