// SPDX-License-Identifier: Apache-2.0
//
// Memory that others look at while the NIC writes it: atomic words, and the copy whose last word is
// the last to appear. Everything here runs on a host or in a kernel.
//
//   bulk bytes (plain) -> last aligned word (release)    pairs with a poller's acquire load
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "device/base/endian.h"
#include "device/base/target.h"
#include "softnic/engine/gpu_memory.h"

// The one difference between the targets: whose atomic_ref, and whose memory orders.
#if PEAL_SIM
#include <atomic>

#include "device/base/word_sim.h"
#define PEAL_SOFTNIC_ATOMICS ::std
#elif PEAL_CUDA
#include <cuda/atomic>
#define PEAL_SOFTNIC_ATOMICS ::cuda::std
#else
#include <atomic>
#define PEAL_SOFTNIC_ATOMICS ::std
#endif

namespace peal::softnic {

#if PEAL_SIM
template <class T>
using Word = sim::SimulatedWord<T>;
#elif PEAL_CUDA
template <class T>
using Word = cuda::atomic_ref<T, cuda::thread_scope_system>;
#else
template <class T>
using Word = std::atomic_ref<T>;
#endif

inline constexpr auto kRelaxed = PEAL_SOFTNIC_ATOMICS::memory_order_relaxed;
inline constexpr auto kAcquire = PEAL_SOFTNIC_ATOMICS::memory_order_acquire;
inline constexpr auto kRelease = PEAL_SOFTNIC_ATOMICS::memory_order_release;
inline constexpr auto kOrdered = PEAL_SOFTNIC_ATOMICS::memory_order_seq_cst;
#undef PEAL_SOFTNIC_ATOMICS

template <class T>
PEAL_HD T& word_at(const void* address) {
  return *static_cast<T*>(const_cast<void*>(address));
}

template <class T>
PEAL_HD T load(const void* address) {
  return Word<T>(word_at<T>(address)).load(kAcquire);
}

template <class T>
PEAL_HD void store(void* address, T value) {
  Word<T>(word_at<T>(address)).store(value, kRelease);
}

template <class T>
PEAL_HD void store_relaxed(void* address, T value) {
  Word<T>(word_at<T>(address)).store(value, kRelaxed);
}

PEAL_HD bool aligned(const void* address, size_t bytes) {
  return (reinterpret_cast<uintptr_t>(address) & (bytes - 1)) == 0;
}

/// Counts what several engines may count at once.
PEAL_HD void count_one(uint64_t& counter) { Word<uint64_t>(counter).fetch_add(1, kRelaxed); }

/// A turn at something that several queue pairs change. Taken only where there can be several:
/// holders do a few stores, and on a CPU wait at most for copies of a GPU's memory, so that a taker
/// waits for no longer than that.
class ShortLock {
 public:
  PEAL_HD ShortLock(uint32_t& word, bool contended) : word_(contended ? &word : nullptr) {
    while (word_ != nullptr && Word<uint32_t>(*word_).exchange(1, kAcquire) != 0) {
    }
  }
  PEAL_HD ~ShortLock() {
    if (word_ != nullptr) store<uint32_t>(word_, 0);
  }
  ShortLock(const ShortLock&) = delete;
  ShortLock& operator=(const ShortLock&) = delete;

 private:
  uint32_t* word_;
};

/// Copies plainly, in any order.
PEAL_HD void copy_bytes(void* to, const void* from, size_t bytes) {
  if (in_gpu(to) || in_gpu(from)) return copy_by_gpu(to, from, bytes);
#if PEAL_SIM
  sim::copy(to, from, bytes);
#else
  memcpy(to, from, bytes);
#endif
}

/// Reads a T at any alignment; an aligned one is read in one piece, so that it may change
/// meanwhile.
template <class T>
PEAL_HD T fetch(const std::byte* from) {
  if (aligned(from, sizeof(T)) && !in_gpu(from)) return load<T>(from);
  T value = {};  // what a copy that fails leaves
  copy_bytes(&value, from, sizeof(T));
  return value;
}

/// A big-endian word of a client's queue or doorbell record, aligned, in host order. Loaded in one
/// piece (acquire), or copied from a GPU's memory, complete on return; either way before all that
/// is read of the client after it. 0 where the copy fails.
PEAL_HD uint32_t client_word(const void* at) {
  const uint32_t raw =
      in_gpu(at) ? fetch<uint32_t>(static_cast<const std::byte*>(at)) : load<uint32_t>(at);
  return Be32::from_raw(raw).host();
}

/// Stores the T read from `from` at an aligned `to`, in one piece, after all earlier stores.
template <class T>
PEAL_HD void move_word(std::byte* to, const std::byte* from) {
  store<T>(to, fetch<T>(from));
}

/// Copies between ranges that may overlap: a client may write its memory onto itself. (Kernels have
/// no memmove.)
PEAL_HD void copy(std::byte* to, const std::byte* from, size_t bytes) {
  const auto ahead = reinterpret_cast<uintptr_t>(to) - reinterpret_cast<uintptr_t>(from);
  if ((ahead >= bytes && 0 - ahead >= bytes) || in_gpu(to) || in_gpu(from)) {
    copy_bytes(to, from, bytes);
  } else if (ahead >= bytes) {  // `to` lies before `from`
    for (size_t i = 0; i < bytes; ++i) to[i] = from[i];
  } else {
    for (size_t i = bytes; i > 0; --i) to[i - 1] = from[i - 1];
  }
}

/// The most bytes that are words of which each may be waited for: what a warp's lanes have stored
/// side by side comes as one WRITE (device/nic/combine.h).
inline constexpr size_t kMostWordBytes = 512;

/// True where [to, to + bytes) consists of aligned words, 4 bytes or more, and may be waited for.
PEAL_HD bool is_words(const std::byte* to, size_t bytes) {
  return bytes <= kMostWordBytes && bytes % 4 == 0 && aligned(to, 4) && !in_gpu(to);
}

/// Stores them upwards, each in one piece, after all earlier stores: of 8 bytes where aligned.
PEAL_HD void place_words(std::byte* to, const std::byte* from, size_t bytes) {
  const size_t word = aligned(to, 8) ? 8 : 4;
  size_t done = 0;
  for (; done + word <= bytes; done += word) {
    if (word == 8) {
      move_word<uint64_t>(to + done, from + done);
    } else {
      move_word<uint32_t>(to + done, from + done);
    }
  }
  if (done < bytes) move_word<uint32_t>(to + done, from + done);
}

/// Copies upwards so that the last aligned word of the destination appears last (release). A copy
/// of exactly one aligned word of 1, 2, 4 or 8 bytes is one atomic store. What arrives where
/// the two overlap is not defined.
PEAL_HD void place(std::byte* to, const std::byte* from, size_t bytes) {
  constexpr size_t kPiece = 4096;  // a library copy may run in any order inside one piece
  if (bytes == 0) return;
  if (is_words(to, bytes) && !in_gpu(from)) return place_words(to, from, bytes);
  const std::byte* end = to + bytes;
  size_t last = 8;
  while (last > bytes || !aligned(end, last)) last /= 2;
  size_t bulk = bytes - last;
  if (in_gpu(to) || in_gpu(from)) {
    if (bulk > 0) copy_by_gpu(to, from, bulk, true);
    return copy_by_gpu(to + bulk, from + bulk, last);
  }
  for (size_t done = 0; done < bulk;) {
    const size_t piece = bulk - done < kPiece ? bulk - done : kPiece;
    copy(to + done, from + done, piece);
    done += piece;
  }
  to += bulk;
  from += bulk;
  switch (last) {
    case 8:
      return move_word<uint64_t>(to, from);
    case 4:
      return move_word<uint32_t>(to, from);
    case 2:
      return move_word<uint16_t>(to, from);
    default:
      return move_word<uint8_t>(to, from);
  }
}

}  // namespace peal::softnic
