// SPDX-License-Identifier: Apache-2.0
//
// The settings of a job that is measured: those of the environment, with a heap that does not grow.
// Another segment would be looked up, registered and mapped like the first, but beside it; rows of
// a run whose heap grew on the way do not compare with rows of one that began large enough.
#pragma once

#include "peal/peal.h"

namespace peal::perf {

/// `bytes` of heap where PEAL_HEAP_SIZE says nothing and they are not 0. PEAL_HEAP_LIMIT, where it
/// is set, is the user's own word.
inline Config fixed_heap(uint64_t bytes = 0) {
  Config config = Config::from_environment(environ);
  if (bytes != 0 && !config.given.contains("PEAL_HEAP_SIZE")) config.heap_size = bytes;
  if (!config.given.contains("PEAL_HEAP_LIMIT")) config.heap_limit = config.heap_size;
  return config;
}

}  // namespace peal::perf
