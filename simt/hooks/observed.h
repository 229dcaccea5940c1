// SPDX-License-Identifier: Apache-2.0
//
// Makes the loads, stores and atomics of a translation unit known to simt
// (simt/lanes/plain_access.h). Nothing of ThreadSanitizer is in the program: its compiler pass
// calls a function ahead of each access, and //simt/hooks has functions of those names. To be
// included before anything else:
//
//   g++ -include simt/hooks/observed.h -fsanitize=thread --param=tsan-distinguish-volatile=1
//       -fno-builtin-memcpy -fno-builtin-memmove -fno-builtin-memset -Wno-tsan -g -c kernels.cc
//   g++ kernels.o ... -lpeal_hooks -lpeal       (no -fsanitize=thread)
//
// Invariant: it declares nothing.
#pragma once

// There is no ThreadSanitizer that would want to be told of fibers and fences.
#undef __SANITIZE_THREAD__
// It would make calls of memcpy into others.
#undef _FORTIFY_SOURCE

// The compiler's pass leaves these calls to the library, which must be another one then. In the
// assembler, so that calls which the compiler makes of itself are meant, too; -fno-builtin keeps it
// from putting code in a call's place that nobody is told of.
asm("memcpy = peal_observed_memcpy\n"
    "memmove = peal_observed_memmove\n"
    "memset = peal_observed_memset");
