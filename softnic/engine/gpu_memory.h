// SPDX-License-Identifier: Apache-2.0
//
// A GPU's memory as the engine on a CPU has it: registered like the host's, but moved by the
// GPU's copy engines, since no CPU loads or stores it.
//
//   Key::memory, rings, CQs, records   address | kGpuMark   the engine copies by the process's
//                                                           copier where it meets the mark
//
// The mark is a bit that no address of a process has: what is added to a marked address stays
// marked, and code that forgets the mark faults instead of reading something else. The engine on a
// GPU and the simulation have no such memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/base/target.h"

namespace peal::softnic {

/// Copies between any two of the host's and GPUs' memory of this process. Called by the engine
/// threads of all its NICs at once, and by those of control calls.
class GpuCopier {
 public:
  virtual ~GpuCopier() = default;
  /// Addresses as the engine has them. Comes behind all copies before it, and is complete on
  /// return, but where `more` follows at once: then when that is. What cannot be copied is told
  /// once on stderr, and the bytes stay as they were.
  virtual void copy(void* to, const void* from, size_t bytes, bool more) = 0;
};

/// The byte by which to ask whether the end of a range is a GPU's memory: where its last 2 MiB
/// begin. cudaMalloc takes memory of the GPU in such pieces and nvidia_peermem pins whole pages, so
/// that a range may end a little behind its allocation. UCX's do.
inline const std::byte* asked_for_end(const void* address, size_t bytes) {
  constexpr uintptr_t kPiece = 2 << 20;
  const auto first = reinterpret_cast<uintptr_t>(address);
  const uintptr_t piece = (first + bytes - 1) / kPiece * kPiece;
  return reinterpret_cast<const std::byte*>(piece < first ? first : piece);
}

#if PEAL_CUDA || PEAL_SIM

PEAL_HD constexpr bool in_gpu(const void*) { return false; }
PEAL_HD constexpr void copy_by_gpu(void*, const void*, size_t, bool = false) {}

#else

inline constexpr uintptr_t kGpuMark = uintptr_t{1} << 62;

/// The process has one; it is set before the first address is marked.
inline GpuCopier* gpu_copier = nullptr;

inline bool in_gpu(const void* address) {
  return (reinterpret_cast<uintptr_t>(address) & kGpuMark) != 0;
}

inline std::byte* with_mark(std::byte* address) {
  return reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(address) | kGpuMark);
}

inline std::byte* without_mark(const void* address) {
  return reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(address) & ~kGpuMark);
}

inline void copy_by_gpu(void* to, const void* from, size_t bytes, bool more = false) {
  gpu_copier->copy(to, from, bytes, more);
}

#endif

}  // namespace peal::softnic
