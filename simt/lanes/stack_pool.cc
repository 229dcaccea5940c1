// SPDX-License-Identifier: Apache-2.0
//
// Maps stacks, and decides which get guard pages and which stay mapped while idle.
#include "simt/lanes/stack_pool.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/immortal.h"
#include "simt/lanes/launch.h"
#include "simt/lanes/sanitizer.h"

namespace peal::simt {
namespace {

// A guard page costs a mapping of its own, and Linux allows a process 65530 (vm.max_map_count). All
// lanes run the same code, so guarding the first 8192 stacks finds an overflow just as well.
constexpr size_t kGuardedSlabs = 256;

// Kept mapped between launches: 4096 stacks, or some 32 MiB once each lane touched two pages.
constexpr size_t kIdleSlabs = kThreadSanitized ? 64 : 128;

size_t page_bytes() { return static_cast<size_t>(::sysconf(_SC_PAGESIZE)); }

[[noreturn]] void fail_mapping(const char* call, size_t bytes) {
  throw LaneError(std::string(call) + " of " + std::to_string(bytes) + " bytes of lane stacks: " +
                  std::strerror(errno) + "; launch fewer lanes or lower Limits::stack_bytes");
}

}  // namespace

StackSlab::StackSlab(size_t stack_bytes, std::atomic<size_t>& guarded_slabs)
    : stack_bytes_(stack_bytes),
      guarded_slabs_(guarded_slabs),
      guarded_(guarded_slabs < kGuardedSlabs) {
  const size_t page = page_bytes();
  const size_t rounded = (stack_bytes + page - 1) / page * page;
  stride_ = rounded + (guarded_ ? page : 0);
  mapped_ = stride_ * kSlabStacks;
  const int protection = guarded_ ? PROT_NONE : PROT_READ | PROT_WRITE;
  void* mapping =
      ::mmap(nullptr, mapped_, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) fail_mapping("mmap", mapped_);
  base_ = static_cast<std::byte*>(mapping);
  // One huge page would make 32 stacks cost 2 MiB, touched or not. A kernel without huge pages
  // refuses the advice, which is as good.
  ::madvise(base_, mapped_, MADV_NOHUGEPAGE);
  if (!guarded_) return;
  for (unsigned i = 0; i < kSlabStacks; ++i) {
    if (::mprotect(base_ + i * stride_ + page, rounded, PROT_READ | PROT_WRITE) != 0) {
      const int error = errno;
      ::munmap(base_, mapped_);
      errno = error;
      fail_mapping("mprotect", rounded);
    }
  }
  ++guarded_slabs_;
}

StackSlab::~StackSlab() {
  if (guarded_) --guarded_slabs_;
#if defined(__SANITIZE_THREAD__)
  for (void* fiber : tsan_fibers_) {
    if (fiber != nullptr) __tsan_destroy_fiber(fiber);
  }
#endif
  if (address_sanitized()) __asan_unpoison_memory_region(base_, mapped_);
  ::munmap(base_, mapped_);
}

Stack StackSlab::at(unsigned index) {
#if defined(__SANITIZE_THREAD__)
  if (tsan_fibers_[index] == nullptr) tsan_fibers_[index] = __tsan_create_fiber(0);
#endif
  const size_t usable = stride_ - (guarded_ ? page_bytes() : 0);
  std::byte* const end = base_ + (index + 1) * stride_;
  return {.bottom = end - usable, .bytes = usable, .tsan_fiber = tsan_fibers_[index]};
}

std::shared_ptr<StackPool> StackPool::shared() {
  // One for the process, because reuse between launches is what it is for.
  static Immortal<std::shared_ptr<StackPool>> pool(std::make_shared<StackPool>());
  return *pool;
}

std::unique_ptr<StackSlab> StackPool::take(size_t stack_bytes) {
  const std::lock_guard lock(mutex_);
  ++taken_;
  while (!idle_.empty()) {
    // Slabs from before set_limits() may have another size: those go.
    std::unique_ptr<StackSlab> slab = std::move(idle_.back());
    idle_.pop_back();
    if (slab->stack_bytes() == stack_bytes) return slab;
  }
  try {
    return std::make_unique<StackSlab>(stack_bytes, guarded_slabs_);
  } catch (...) {
    --taken_;
    throw;
  }
}

void StackPool::give_back(std::unique_ptr<StackSlab> slab) {
  const std::lock_guard lock(mutex_);
  --taken_;
  if (idle_.size() < kIdleSlabs) idle_.push_back(std::move(slab));
}

}  // namespace peal::simt
