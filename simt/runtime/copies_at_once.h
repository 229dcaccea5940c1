// SPDX-License-Identifier: Apache-2.0
//
// CUDA's asynchronous copies from memory to shared memory. Here a copy has been made when its call
// returns, which CUDA allows: what waits for copies has nothing to wait for but the other threads.
#pragma once

#include <cstddef>
#include <cstring>

#include "simt/runtime/groups.h"

// ---- cuda_pipeline.h: of a thread

/// The last `zeros` bytes are not copied but cleared.
inline void __pipeline_memcpy_async(void* shared, const void* from, size_t bytes,
                                    size_t zeros = 0) {
  std::memcpy(shared, from, bytes - zeros);
  std::memset(static_cast<char*>(shared) + bytes - zeros, 0, zeros);
}
inline void __pipeline_commit() {}
inline void __pipeline_wait_prior(size_t) {}

// ---- cooperative_groups/memcpy_async.h: of a group, whose threads share the work

namespace cooperative_groups {

template <class Group, class T>
void memcpy_async(const Group& group, T* to, const T* from, size_t bytes) {
  auto* const target = reinterpret_cast<char*>(to);
  const auto* const source = reinterpret_cast<const char*>(from);
  constexpr size_t kPart = 16;
  for (size_t at = kPart * group.thread_rank(); at < bytes; at += kPart * group.size()) {
    std::memcpy(target + at, source + at, bytes - at < kPart ? bytes - at : kPart);
  }
}
/// Copies as many elements as both have.
template <class Group, class T>
void memcpy_async(const Group& group, T* to, size_t room, const T* from, size_t count) {
  memcpy_async(group, to, from, sizeof(T) * (room < count ? room : count));
}
template <class Group>
void wait(const Group& group) {
  group.sync();
}
template <unsigned kStages, class Group>
void wait_prior(const Group& group) {
  group.sync();
}

}  // namespace cooperative_groups
