// SPDX-License-Identifier: Apache-2.0
//
// PEAL_NVTX is 1 where NVTX's headers were found. They load the profiler's library with the first
// call and keep its functions in plain pointers, which ThreadSanitizer reports where two threads
// make that call at once (nvtxDetail/nvtxInit.h): here one thread makes it and the others wait.
#include "host/nvtx/range.h"

#if PEAL_NVTX
#include <nvtx3/nvToolsExt.h>
#endif

namespace peal::nvtx {

#if PEAL_NVTX
Range::Range(const char* name) {
  [[maybe_unused]] static const bool loaded = (nvtxInitialize(nullptr), true);
  nvtxRangePushA(name);
}
Range::~Range() { nvtxRangePop(); }
#else
Range::Range(const char*) {}
Range::~Range() {}
#endif

}  // namespace peal::nvtx
