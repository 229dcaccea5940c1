// SPDX-License-Identifier: Apache-2.0
//
// C's assert.h, which a program may read several times, each time by the NDEBUG of then; in CUDA
// sources assert() is simt's.
#include_next <assert.h>

#if defined(__CUDACC__) && !defined(NDEBUG)
#include "simt/runtime/assertion.h"

#undef assert
#define assert(condition)       \
  (static_cast<bool>(condition) \
       ? static_cast<void>(0)   \
       : ::peal::simt::cuda::assertion_failed(#condition, __FILE__, __LINE__, __func__))
#endif
