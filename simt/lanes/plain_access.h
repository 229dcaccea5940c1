// SPDX-License-Identifier: Apache-2.0
//
// What kernels do to memory by themselves, without a call of peal: loads, stores and atomics of
// their own code, told one by one to an observer. They are told in translation units that were
// compiled for it (simt/hooks/observed.h); code that was compiled otherwise tells nothing.
//
// Invariant: what an observer learns of acquire and release holds at that moment. A store is told
// before it is made, an atomic load after it has read, and a read-modify-write twice: as a write
// before it, as a read after it. So whoever reads what a release wrote is told of later than the
// release.
#pragma once

#include <cstddef>

namespace peal::simt {

/// One access, or a fence: `address` null, no bytes, `atomic`. `order` is the memory_order of
/// atomics and fences as a number, else 0. Volatile accesses count as relaxed atomics, which they
/// are in CUDA. A compare-and-swap counts as a write even where it fails. `pc` lies within the
/// instruction that called (place_of_code() in simt/lanes/symbol.h names its line).
struct PlainAccess {
  const void* address;
  size_t bytes;
  bool write;
  bool atomic;
  int order;
  const void* pc;
};

/// Called on the lane that accesses. What it accesses itself is not told. It must not throw: the
/// compiler takes an access for something that cannot.
using AccessObserver = void (*)(const PlainAccess&);

/// From now on lanes of all threads tell `observer`; null: nobody. Kernels that run meanwhile may
/// still tell the one before.
void observe_accesses(AccessObserver observer);

/// For the hooks: null while nobody observes. A plain pointer, read by __atomic_load_n: an inline
/// function of std::atomic may be the one of a kernel's translation unit, which would call a hook.
extern AccessObserver access_observer;
/// For the hooks: true once code of this process has begun that was compiled for them.
extern bool accesses_are_told;
/// For the hooks: reports an access of the lane that runs on this thread. Accesses of host threads
/// are not reported.
void tell_access(const PlainAccess& access);

}  // namespace peal::simt
