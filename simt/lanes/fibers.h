// SPDX-License-Identifier: Apache-2.0
//
// Fibers of one thread that wait for lanes to run. The one that stood down last is taken first: its
// stack is still in the cache. A stack is touched when its fiber is first taken.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "simt/lanes/fiber.h"
#include "simt/lanes/stack_pool.h"

namespace peal::simt {

class Fibers {
 public:
  explicit Fibers(Fiber::Entry entry) : entry_(entry) {}
  /// All must have been given back, or stand still for good.
  ~Fibers() { keep(0); }
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;

  /// An idle one, or a new one. Throws Error where the system has no room for its stack.
  Fiber& take();
  /// It stands still, or is about to: it runs again when it was taken and is switched to.
  void give_back(Fiber& fiber) { idle_.push_back(&fiber); }

  /// From now on stacks have so many bytes. All must have been given back.
  void set_stack_bytes(size_t bytes);
  /// Hands stacks back but for some hundreds. All must have been given back.
  void trim();

 private:
  void keep(size_t slabs);

  const Fiber::Entry entry_;
  const std::shared_ptr<StackPool> pool_ = StackPool::shared();
  size_t stack_bytes_ = 0;
  std::vector<std::unique_ptr<StackSlab>> slabs_;
  std::deque<Fiber> fibers_;  // number n has stack n % 32 of slab n / 32
  std::deque<Fiber*> idle_;
};

}  // namespace peal::simt
