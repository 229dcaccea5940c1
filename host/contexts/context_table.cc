// SPDX-License-Identifier: Apache-2.0
#include "host/contexts/context_table.h"

#include <utility>

namespace peal {

size_t ContextTable::bytes(int n_pes) {
  return kMaxContexts * (sizeof(ContextWords) + static_cast<size_t>(n_pes) * sizeof(uint32_t));
}

ContextTable::ContextTable(Backing memory, int n_pes)
    : memory_(std::move(memory)), n_pes_(static_cast<size_t>(n_pes)) {}

ContextWords& ContextTable::words(uint32_t slot) const {
  return reinterpret_cast<ContextWords*>(memory_.address())[slot];
}

uint32_t* ContextTable::requests(uint32_t slot) const {
  return reinterpret_cast<uint32_t*>(&words(kMaxContexts)) + slot * n_pes_;
}

void ContextTable::add(const std::shared_ptr<ContextOwner>& context) {
  const std::lock_guard lock(mutex_);
  contexts_[context->slot()] = context;
  if (context->ended()) context->show_end();  // while it was made
}

uint64_t ContextTable::taken() const {
  static_assert(kMaxContexts == 64, "one bit a slot");
  uint64_t taken = 0;
  for_each([&](const ContextOwner& context) { taken |= uint64_t{1} << context.slot(); });
  return taken;
}

std::shared_ptr<ContextOwner> ContextTable::at(uint32_t slot) const {
  const std::lock_guard lock(mutex_);
  return contexts_[slot].lock();
}

bool ContextTable::well() const {
  for (uint32_t slot = 0; slot < kMaxContexts; ++slot) {
    if (load_acquire<Reach::kSystem>(&words(slot).stop) != 0) return false;
    if (load_acquire<Reach::kSystem>(&words(slot).alarm) != 0) return false;
  }
  return true;
}

void ContextTable::report(Failure failure) {
  {
    const std::lock_guard lock(mutex_);
    reported_.push_back(std::move(failure));
  }
  store_release<Reach::kSystem>(&words(0).alarm, 1u);
}

std::vector<Failure> ContextTable::reported() const {
  const std::lock_guard lock(mutex_);
  return reported_;
}

void ContextTable::forget_reported() {
  const std::lock_guard lock(mutex_);
  reported_.clear();
}

void ContextTable::stop_all(Status why) const {
  for (uint32_t slot = 0; slot < kMaxContexts; ++slot) {
    compare_exchange<Reach::kSystem>(&words(slot).stop, 0u, static_cast<uint32_t>(why));
  }
  for_each([](const ContextOwner& context) { context.show_end(); });
}

}  // namespace peal
