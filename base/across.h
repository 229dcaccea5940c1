// SPDX-License-Identifier: Apache-2.0
//
// What ThreadSanitizer must be told of the order between processes. It sees neither what another
// process does nor what a socket or shared memory carries from one to the other, and so took this
// for a race:
//
//   PE 0: memset(box) | barrier of the host -> PE 1: put(box) -> NIC of PE 0: stores into the box
//
// What a process does before it tells others something happens before what it does behind anything
// that it hears from them: more than is so, but for nobody whom both ways lead past.
#pragma once

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#include <unistd.h>
#endif

namespace peal {

#if defined(__SANITIZE_THREAD__)
/// Ahead of a message to another process. The object stands for all others: one that libpeal and
/// the software NIC, a library of its own, both know.
inline void tell_others() { __tsan_release(&::environ); }
/// To be called after a message from another process was received.
inline void hear_others() { __tsan_acquire(&::environ); }
#else
inline void tell_others() {}
inline void hear_others() {}
#endif

}  // namespace peal
