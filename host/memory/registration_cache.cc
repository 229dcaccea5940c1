// SPDX-License-Identifier: Apache-2.0
#include "host/memory/registration_cache.h"

#include <fmt/format.h>

#include <utility>

#include "host/base/error.h"
#include "host/memory/gpu.h"

namespace peal {

RegistrationCache::Memory RegistrationCache::describe(const char* call, const std::byte* address,
                                                      size_t bytes) const {
  if (bytes == 0) return {};
  MemoryIdentity identity = identify_(address, bytes);
  if (identity.empty()) {
    fail(
        ErrorCode::kUnsupported,
        "{}: WindowOptions::cached: {} bytes at {} are not a GPU's and not pinned by CUDA: nothing "
        "tells when they are freed; register them without it, and end that before they are freed",
        call, bytes, fmt::ptr(address));
  }
  return {address, bytes, std::move(identity)};
}

RegistrationCache::Numbers RegistrationCache::find(const Memory& memory) const {
  Numbers found{};
  size_t count = 0;
  const auto [begin, end] = by_address_.equal_range(memory.address);
  for (auto at = end; at != begin && count < found.size();) {
    --at;
    const Memory& one = entries_.at(at->second);
    if (one.bytes == memory.bytes && one.identity == memory.identity) found[count++] = at->second;
  }
  return found;
}

void RegistrationCache::keep(uint64_t number, Memory memory) {
  by_address_.emplace(memory.address, number);
  entries_.emplace(number, std::move(memory));
}

void RegistrationCache::forget(uint64_t number) {
  const auto entry = entries_.find(number);
  if (entry == entries_.end()) return;
  auto at = by_address_.lower_bound(entry->second.address);
  while (at->second != number) ++at;
  by_address_.erase(at);
  entries_.erase(entry);
}

std::vector<uint64_t> RegistrationCache::numbers() const {
  std::vector<uint64_t> all;
  for (const auto& [number, memory] : entries_) all.push_back(number);
  return all;
}

std::vector<uint64_t> RegistrationCache::ended() const {
  std::vector<uint64_t> ended;
  for (const auto& [number, memory] : entries_) {
    if (memory.bytes == 0) continue;
    if (identify_(memory.address, memory.bytes) != memory.identity) ended.push_back(number);
  }
  return ended;
}

MemoryIdentity identify(const Gpu& gpu, const std::byte* address, size_t bytes) {
  MemoryIdentity identity;
  const auto add = [&](const cuda::Driver& driver, cuda::DeviceAddress at, cuda::DeviceAddress,
                       size_t) {
    unsigned long long id = 0;
    const cuda::Result asked = driver.pointer_attribute(&id, cuda::kPointerBufferId, at);
    if (asked == cuda::kSuccess) identity.push_back(id);
    return asked == cuda::kSuccess;
  };
  const bool all = for_each_allocation(gpu, address, bytes, add);
  if (!all) identity.clear();
  return identity;
}

}  // namespace peal
