// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "host/base/error.h"
#include "host/stream/executor.h"
#include "simt/lanes/lane.h"
#include "simt/lanes/launch.h"
#include "simt/runtime/stream.h"

namespace peal {
namespace {

constexpr uint32_t kThreadsOnCpu = 32;
constexpr uint32_t kMostBlocks = 2;
constexpr uint64_t kTurns = 8;  // of a block's threads

simt::WorkStream& stream_at(void* stream) {
  if (stream == nullptr) {
    fail(ErrorCode::kInvalidArgument,
         "a call on stream null: on a CPU name a peal::Stream (there is no default stream)");
  }
  return *static_cast<simt::WorkStream*>(stream);
}

class CpuMark : public StreamMark {
 public:
  explicit CpuMark(simt::Mark mark) : mark_(std::move(mark)) {}
  bool reached() const override { return mark_.reached(); }
  void wait() const override { mark_.wait(); }

 private:
  const simt::Mark mark_;
};

/// The copies of a CPU's task. There are none to make: the CPU's threads reach all memory.
class NoCopies : public StreamCopies {
 public:
  void allow(size_t) override {}
  void wait(size_t) override {}
};

class CpuExecutor : public Executor {
 public:
  GridShape shape_for(uint64_t bytes, uint32_t each, uint32_t blocks) const override {
    const uint64_t turns = bytes / (uint64_t{kThreadsOnCpu} * each);
    const uint64_t wanted = std::clamp<uint64_t>(turns / kTurns, 1, kMostBlocks);
    return {static_cast<uint32_t>(std::min<uint64_t>(wanted, blocks)), kThreadsOnCpu};
  }

  bool shares_host_memory() const override { return true; }

  void launch(const kernels::Kernel& kernel, const GridShape& shape, const void* arguments,
              size_t bytes, void* stream) override {
    // Aligned as operator new aligns: kernels take what they point at for their own type.
    std::vector<std::byte> copy(bytes);
    std::memcpy(copy.data(), arguments, bytes);
    stream_at(stream).add([on_cpu = kernel.on_cpu, shape, copy = std::move(copy)] {
      simt::launch_and_wait({.blocks = shape.blocks, .threads = shape.threads},
                            [&] { on_cpu(copy.data()); });
    });
  }

  void copy(void* to, const void* from, size_t bytes, void* stream) override {
    stream_at(stream).add([to, from, bytes] { std::memmove(to, from, bytes); });
  }

  bool store_word(uint64_t* word, uint64_t value, void* stream) override {
    stream_at(stream).add([word, value] { __atomic_store_n(word, value, __ATOMIC_RELEASE); });
    return true;
  }

  void host_work(HostTask task, void* stream) override {
    if (!task.copies.empty()) {
      fail(ErrorCode::kInvalidArgument, "host_work: {} copies, and the stream is a CPU's",
           task.copies.size());
    }
    stream_at(stream).add([work = std::move(task.work)] {
      NoCopies none;
      work(none);
    });
  }

  bool capturing(void* stream) const override { return stream_at(stream).capturing(); }

  bool idle(void*) const override { return false; }  // nobody asks: kernels are the host's own

  std::unique_ptr<StreamMark> mark(void* stream) override {
    return std::make_unique<CpuMark>(stream_at(stream).mark());
  }

  void finish() override {
    if (simt::in_kernel() || simt::on_stream_thread()) return;
    for (const simt::Mark& mark : simt::WorkStream::marks_of_all()) mark.wait();
  }

  void* own_stream() override {
    const std::lock_guard lock(mutex_);
    if (!own_) own_.emplace();
    return &*own_;
  }

 private:
  std::mutex mutex_;
  std::optional<simt::WorkStream> own_;
};

}  // namespace

std::unique_ptr<Executor> make_cpu_executor() { return std::make_unique<CpuExecutor>(); }

}  // namespace peal
