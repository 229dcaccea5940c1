// SPDX-License-Identifier: Apache-2.0
//
// Symmetric memory that this PE gives out and takes back by itself, without a collective call.
//
// An arena is memory of every PE. Where its blocks lie differs from PE to PE; who wants to reach
// another PE's block asks for its offset (rendezvous). Blocks are made and dropped under locks of
// torch's, by threads that must not wait for Python: nothing here takes the interpreter's lock, nor
// waits for a thread that holds it.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace peal::arenas {

constexpr uint64_t kAlignment = 512;  // of torch's CUDA allocator

using ArenaRange = std::pair<uint64_t, uint64_t>;  // (offset, bytes)

// What one asks of a GPU by CUDA's driver: torch's own calls may run Python where it is being
// traced.
class ArenaGpu {
 public:
  explicit ArenaGpu(void* context) : context_(context), driver_(dlopen("libcuda.so.1", RTLD_NOW)) {}

  // Returns when all streams have done what they were given; false where they have failed.
  bool settle() const {
    return selected([&] { return call<int()>("cuCtxSynchronize") == 0; });
  }

  // Whether a graph is being made of what a stream is given, or that is not known.
  bool is_capturing(void* stream) const {
    return !selected([&] {
      int status = 0;
      return call<int(void*, int*)>("cuStreamIsCapturing", stream, &status) == 0 && status == 0;
    });
  }

 private:
  // What `ask` answers while the GPU is this thread's; false where that cannot be.
  template <class Ask>
  bool selected(const Ask& ask) const {
    void* before = nullptr;
    if (call<int(void*)>("cuCtxPushCurrent_v2", context_) != 0) return false;
    const bool answer = ask();
    return call<int(void**)>("cuCtxPopCurrent_v2", &before) == 0 && answer;
  }

  template <class Function, class... Arguments>
  int call(const char* name, Arguments... arguments) const {
    auto* const function = driver_ ? reinterpret_cast<Function*>(dlsym(driver_, name)) : nullptr;
    return function ? function(arguments...) : -1;
  }

  void* context_;
  void* driver_;
};

// One array of every PE's, given out first fit.
class Arena {
 public:
  // `number` is the same on all PEs.
  Arena(size_t number, uint64_t base, uint64_t bytes)
      : number(number), base(base), bytes(bytes), free_{{0, bytes}} {}

  const size_t number;
  const uint64_t base;
  const uint64_t bytes;

  // The offset of `room` bytes; false where there are none in one piece.
  bool take(uint64_t room, uint64_t* offset) {
    const std::lock_guard lock(mutex_);
    for (const auto& [begin, size] : free_) {
      if (size < room) continue;
      *offset = begin;
      if (size > room) free_.emplace(begin + room, size - room);
      free_.erase(begin);
      return true;
    }
    return false;
  }

  // Takes a range back once give_back() is asked.
  void drop(uint64_t offset, uint64_t room) {
    const std::lock_guard lock(mutex_);
    dropped_.push_back({offset, room});
  }

  // What has been dropped so far; streams may have been given work on it.
  std::vector<ArenaRange> dropped() {
    const std::lock_guard lock(mutex_);
    return std::exchange(dropped_, {});
  }

  void give_back(const std::vector<ArenaRange>& ranges) {
    const std::lock_guard lock(mutex_);
    for (auto [begin, size] : ranges) {
      const auto after = free_.find(begin + size);
      if (after != free_.end()) {
        size += after->second;
        free_.erase(after);
      }
      const auto behind = free_.lower_bound(begin);
      if (behind != free_.begin()) {
        const auto before = std::prev(behind);
        if (before->first + before->second == begin) {
          before->second += size;
          continue;
        }
      }
      free_.emplace(begin, size);
    }
  }

 private:
  std::mutex mutex_;
  std::map<uint64_t, uint64_t> free_;  // bytes by offset
  std::vector<ArenaRange> dropped_;
};

// Memory of an arena, dropped when nothing refers to it.
class ArenaBlock {
 public:
  ArenaBlock(std::shared_ptr<Arena> arena, uint64_t offset, uint64_t bytes, uint64_t room)
      : arena(std::move(arena)), offset(offset), bytes(bytes), room(room) {}
  ~ArenaBlock() { arena->drop(offset, room); }
  ArenaBlock(const ArenaBlock&) = delete;
  ArenaBlock& operator=(const ArenaBlock&) = delete;

  uint64_t address() const { return arena->base + offset; }

  const std::shared_ptr<Arena> arena;
  const uint64_t offset;
  const uint64_t bytes;  // what was asked for
  const uint64_t room;   // what it takes
};

// The arenas of this PE's part in one job. Lives as long as the job does; blocks may outlive it.
class Arenas {
 public:
  Arenas(int device, void* context) : device(device), gpu(context) {}

  const int device;  // -1: a CPU
  const ArenaGpu gpu;

  std::shared_ptr<Arena> add(uint64_t base, uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    return all_.emplace_back(std::make_shared<Arena>(all_.size(), base, bytes));
  }

  std::vector<std::shared_ptr<Arena>> all() const {
    const std::lock_guard lock(mutex_);
    return all_;
  }

  // A block of any arena; null where none has room. `stream`: the caller's current one.
  std::shared_ptr<ArenaBlock> take(uint64_t bytes, void* stream) {
    const uint64_t room =
        bytes == 0 ? kAlignment : (bytes + kAlignment - 1) / kAlignment * kAlignment;
    for (const auto& arena : all()) {
      reclaim(*arena, stream);
      uint64_t offset = 0;
      if (room >= bytes && arena->take(room, &offset))
        return std::make_shared<ArenaBlock>(arena, offset, bytes, room);
    }
    return nullptr;
  }

 private:
  void reclaim(Arena& arena, void* stream) const {
    if (device >= 0 && gpu.is_capturing(stream)) return;
    const std::vector<ArenaRange> ranges = arena.dropped();
    if (ranges.empty()) return;
    if (device < 0 || gpu.settle())
      arena.give_back(ranges);  // else kernels have failed: nobody uses it again
  }

  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Arena>> all_;
};

}  // namespace peal::arenas
