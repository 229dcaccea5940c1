// SPDX-License-Identifier: Apache-2.0
//
// Another device's memory that the CPU has mapped over the bus (host/memory/host_view.h). It is
// mapped write-combining as a rule: stores wait in the CPU until something sends them on, and loads
// may be ahead of loads in front of them, which x86 promises of no other memory.
//
// A target of its own (//device/base:mapped): kernels have no use for it.
#pragma once

namespace peal {

/// What stands in front of it is done before what stands behind it, loads and stores alike, and
/// stores are on their way. Not an atomic fence: g++ makes one of a locked instruction, behind
/// which x86 lets loads of write-combining memory be early.
inline void fence_mapped() {
#if defined(__x86_64__)
  __builtin_ia32_mfence();
#elif defined(__aarch64__)
  asm volatile("dsb sy" ::: "memory");
#else
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

}  // namespace peal
