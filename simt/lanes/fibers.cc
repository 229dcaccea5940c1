// SPDX-License-Identifier: Apache-2.0
#include "simt/lanes/fibers.h"

#include <utility>

#include "simt/lanes/sanitizer.h"

namespace peal::simt {
namespace {

// A block of 1024 lanes that wait for each other.
constexpr size_t kKeptSlabs = kThreadSanitized ? 0 : 32;
constexpr size_t kLine = 64;

}  // namespace

Fiber& Fibers::take() {
  // To ThreadSanitizer two lanes of one fiber are in order: such a one is taken last of all.
  const bool may_grow =
      kThreadSanitized && (fibers_.size() % kSlabStacks != 0 || pool_->has_room());
  if (!idle_.empty() && !may_grow) {
    Fiber* const fiber = kThreadSanitized ? idle_.front() : idle_.back();
    kThreadSanitized ? idle_.pop_front() : idle_.pop_back();
    return *fiber;
  }
  const size_t number = fibers_.size();
  if (number == slabs_.size() * kSlabStacks) slabs_.push_back(pool_->take(stack_bytes_));
  const auto at = static_cast<unsigned>(number % kSlabStacks);
  return fibers_.emplace_back(slabs_.back()->at(at), at * kLine, entry_);
}

void Fibers::set_stack_bytes(size_t bytes) {
  if (bytes != stack_bytes_) keep(0);
  stack_bytes_ = bytes;
}

void Fibers::trim() {
  if (slabs_.size() > kKeptSlabs) keep(kKeptSlabs);
}

void Fibers::keep(size_t slabs) {
  while (fibers_.size() > slabs * kSlabStacks) fibers_.pop_back();
  for (; slabs_.size() > slabs; slabs_.pop_back()) pool_->give_back(std::move(slabs_.back()));
  idle_.clear();
  for (Fiber& fiber : fibers_) idle_.push_front(&fiber);
}

}  // namespace peal::simt
