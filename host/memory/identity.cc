// SPDX-License-Identifier: Apache-2.0
#include "host/memory/identity.h"

#include "host/memory/allocations.h"

namespace peal {

MemoryIdentity identify(const Gpu& gpu, const std::byte* address, size_t bytes) {
  MemoryIdentity identity;
  const auto add = [&](const cuda::Driver& driver, cuda::Address at, cuda::Address, size_t) {
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
