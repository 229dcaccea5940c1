// SPDX-License-Identifier: Apache-2.0
#include "host/memory/identity.h"

namespace peal {

MemoryIdentity identify(const Gpu& gpu, const std::byte* address, size_t bytes) {
  MemoryIdentity identity;
  const cuda::Address end = device_address(address) + bytes;
  const bool all = gpu.within([&](const cuda::Driver& driver) {
    for (cuda::Address at = device_address(address); at < end;) {
      unsigned long long id = 0;
      cuda::Address base = 0;
      size_t size = 0;
      if (driver.pointer_attribute(&id, cuda::kPointerBufferId, at) != cuda::kSuccess ||
          driver.address_range(&base, &size, at) != cuda::kSuccess || base + size <= at) {
        return false;
      }
      identity.push_back(id);
      at = base + size;
    }
    return true;
  });
  if (!all) identity.clear();
  return identity;
}

}  // namespace peal
