// SPDX-License-Identifier: Apache-2.0
//
// Stacks for fibers, kept from launch to launch. A slab is one mapping with 32 of them:
//
//   | guard | stack 0 | guard | stack 1 | ... | guard | stack 31 |      low addresses first
//
// Invariant: a stack belongs to one fiber at a time. Pages take memory once touched.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace peal::simt {

/// One fiber's stack: [bottom, bottom + bytes). `tsan_fiber` is ThreadSanitizer's view of it.
struct Stack {
  void* bottom = nullptr;
  size_t bytes = 0;
  void* tsan_fiber = nullptr;
};

inline constexpr unsigned kSlabStacks = 32;

/// 32 stacks; owns the mapping. Throws Error when the system has no room.
class StackSlab {
 public:
  /// Guarded while `guarded_slabs`, which it counts up, is in budget. It must outlive the slab.
  StackSlab(size_t stack_bytes, std::atomic<size_t>& guarded_slabs);
  ~StackSlab();
  StackSlab(const StackSlab&) = delete;
  StackSlab& operator=(const StackSlab&) = delete;

  size_t stack_bytes() const { return stack_bytes_; }
  /// Stack `index`, 0..31. Threads may ask for different ones at the same time.
  Stack at(unsigned index);

 private:
  const size_t stack_bytes_;
  std::atomic<size_t>& guarded_slabs_;
  const bool guarded_;
  size_t stride_;
  size_t mapped_;
  std::byte* base_;
  std::array<void*, kSlabStacks> tsan_fibers_{};
};

/// Slabs of the process that nobody uses.
class StackPool {
 public:
  /// The process's pool. Shared, so that a thread that ends during exit can still hand back.
  static std::shared_ptr<StackPool> shared();

  /// Throws Error where the system has no room.
  std::unique_ptr<StackSlab> take(size_t stack_bytes);
  /// Keeps it, or unmaps it.
  void give_back(std::unique_ptr<StackSlab> slab);
  /// False once ThreadSanitizer should be asked for no more fibers.
  bool has_room() const { return taken_ < kMostSanitizedSlabs; }

 private:
  // ThreadSanitizer has room for 8128 threads and fibers.
  static constexpr size_t kMostSanitizedSlabs = 128;

  std::mutex mutex_;
  std::atomic<size_t> guarded_slabs_{0};
  std::atomic<size_t> taken_{0};
  std::vector<std::unique_ptr<StackSlab>> idle_;
};

}  // namespace peal::simt
