// SPDX-License-Identifier: Apache-2.0
//
// Where the library's kernels run, in the order of a stream: a GPU's (executor_gpu.cc), or one of
// simt on a CPU (executor_cpu.cc).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "host/memory/backing.h"
#include "host/memory/gpu.h"
#include "kernels/table.h"

namespace peal {

/// A place in a stream.
class StreamMark {
 public:
  virtual ~StreamMark() = default;
  virtual bool reached() const = 0;
  /// Returns once all that lies before it is done.
  virtual void wait() const = 0;
};

/// The copies of a HostTask, for its work.
class StreamCopies {
 public:
  virtual ~StreamCopies() = default;
  /// Copy `index` may be made. Of copies that use the same buffer in this order.
  virtual void allow(size_t index) = 0;
  /// Returns once copy `index`, which was allowed, has been made. Throws kSystem where the stream
  /// has failed.
  virtual void wait(size_t index) = 0;
};

/// Work that a thread of the host does in the order of a stream.
struct HostTask {
  /// Must not throw, and must call nothing of CUDA: while the stream waits for it, another thread's
  /// call may hold a lock of the driver until the stream goes on. Its captures are destroyed when
  /// all copies have been made.
  std::function<void(StreamCopies&)> work;
  /// Made by the stream one after the other, each as soon as the work allows it. Those that the
  /// work has not allowed when it ends are made then.
  std::vector<Copy> copies = {};
  /// Buffers that the copies use in turn: copy i and copy i + buffers the same one.
  size_t buffers = 1;
};

/// Blocks and threads of a grid.
struct GridShape {
  uint32_t blocks;
  uint32_t threads;
};

/// A stream is what the program calls one: a cudaStream_t, or a simt::WorkStream*. Calls throw
/// kSystem when the GPU fails, kInvalidArgument for what is no stream. Thread-safe.
class Executor {
 public:
  virtual ~Executor() = default;

  /// The grid that moves or works out `bytes` bytes, `each` of them by a thread in one go, of at
  /// most `blocks` blocks.
  virtual GridShape shape_for(uint64_t bytes, uint32_t each, uint32_t blocks) const = 0;

  /// The arguments are copied.
  virtual void launch(const kernels::Kernel& kernel, const GridShape& shape, const void* arguments,
                      size_t bytes, void* stream) = 0;
  /// Between any two of memories that this process has mapped, by copy engines where there are
  /// some.
  virtual void copy(void* to, const void* from, size_t bytes, void* stream) = 0;
  /// True where kernels load and store any memory of the host.
  virtual bool shares_host_memory() const = 0;
  /// Stores a word where this process has it mapped, behind all that the stream did before. False
  /// where streams cannot.
  virtual bool store_word(uint64_t* word, uint64_t value, void* stream) = 0;
  /// Has a thread of the host do the task's work behind all that the stream did before, and what it
  /// is given later wait for that. Where what the GPU did before has failed it is left out. Returns
  /// at once, or where the stream holds no more calls when it has room. Not while the stream
  /// captures. Throws kUnsupported where the GPU's streams cannot wait for a word, kSystem where
  /// there are no more threads.
  virtual void host_work(HostTask task, void* stream) = 0;
  virtual bool capturing(void* stream) const = 0;
  /// True if all that the executor's own stream was given is known to be done.
  virtual bool idle(void* own) const = 0;
  virtual std::unique_ptr<StreamMark> mark(void* stream) = 0;

  /// Returns once all streams of the GPU, or of the CPU, have done what they were given; on a
  /// thread that does such work at once. What of it failed is not told here.
  virtual void finish() = 0;

  /// A stream of the executor's own, for calls that name none.
  virtual void* own_stream() = 0;
};

std::unique_ptr<Executor> make_cpu_executor();
/// `kernels` is the path of libpeal_kernels.so, or empty: it is looked for beside the program.
/// Grids have at most `most_blocks` blocks, which run at the same time, as collective calls want.
std::unique_ptr<Executor> make_gpu_executor(std::shared_ptr<Gpu> gpu, const std::string& kernels,
                                            uint32_t most_blocks);

}  // namespace peal
