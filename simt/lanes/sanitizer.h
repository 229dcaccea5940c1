// SPDX-License-Identifier: Apache-2.0
//
// What AddressSanitizer and ThreadSanitizer must be told about lanes.
//
// AddressSanitizer is asked for when the program runs: a program that was built with it may use a
// library that was not. Its runtime's functions are null where it is not in the program.
//
// To ThreadSanitizer every lane is a thread of its own, and a switch between lanes orders nothing:
// lanes are ordered only by what orders them in CUDA (barriers, atomics, fences). So device code
// that forgets an ordering edge is reported, although its lanes share one CPU thread.
#pragma once

#include <atomic>
#include <cstddef>

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

// PEAL_SIMT_UNSEEN: code that runs between two fibers or only keeps books, which ThreadSanitizer
// shall not look at. PEAL_SIMT_SWITCH: the same on the path of a switch, inlined elsewhere, because
// the CPU mispredicts every return that crosses a switch (some 10 ns each).
#if defined(__SANITIZE_THREAD__)
#define PEAL_SIMT_UNSEEN __attribute__((noinline, no_sanitize("thread")))
#define PEAL_SIMT_SWITCH PEAL_SIMT_UNSEEN inline
#else
#define PEAL_SIMT_UNSEEN
#define PEAL_SIMT_SWITCH [[gnu::always_inline]] inline
#endif

extern "C" {
#if defined(__SANITIZE_THREAD__)
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
#endif
[[gnu::weak]] void __sanitizer_start_switch_fiber(void** fake_stack, const void* bottom,
                                                  size_t bytes);
[[gnu::weak]] void __sanitizer_finish_switch_fiber(void* fake_stack, const void** bottom,
                                                   size_t* bytes);
[[gnu::weak]] void __asan_unpoison_memory_region(const volatile void* start, size_t bytes);
}

namespace peal::simt {

PEAL_SIMT_SWITCH bool address_sanitized() { return &__sanitizer_start_switch_fiber != nullptr; }

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitized = true;
/// What this lane or thread did so far happens before a later acquire_from(tag).
inline void release_to(void* tag) { __tsan_release(tag); }
inline void acquire_from(void* tag) { __tsan_acquire(tag); }
/// What the calling thread does meanwhile is of a library that nobody built with ThreadSanitizer,
/// whose own order it does not see.
struct OfAnother {
  OfAnother() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~OfAnother() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
  OfAnother(const OfAnother&) = delete;
  OfAnother& operator=(const OfAnother&) = delete;
};

inline constinit std::atomic<unsigned> fence_word{0};
/// ThreadSanitizer does not know fences; a read-modify-write of one word orders as strongly.
inline void full_fence() { fence_word.fetch_add(0, std::memory_order_acq_rel); }
#else
inline constexpr bool kThreadSanitized = false;
inline void release_to(void*) {}
inline void acquire_from(void*) {}
struct OfAnother {
  OfAnother() {}
};
inline void full_fence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
#endif

/// By either of the two.
inline bool sanitized() { return kThreadSanitized || address_sanitized(); }

}  // namespace peal::simt
