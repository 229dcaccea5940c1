// SPDX-License-Identifier: Apache-2.0
//
// Read in front of libcu++'s file of this name, where an installed CCCL is used: its atomics on a
// CPU, by which lanes wait for each other, let other lanes run (simt/runtime/scoped_atomic.h).
#pragma once

#include "simt/lanes/lane.h"

#define __atomic_load(...) (::peal::simt::breathe(), __atomic_load(__VA_ARGS__))
#define __atomic_exchange(...) (::peal::simt::breathe(), __atomic_exchange(__VA_ARGS__))
#define __atomic_compare_exchange(...) \
  (::peal::simt::breathe(), __atomic_compare_exchange(__VA_ARGS__))
#define __atomic_fetch_add(...) (::peal::simt::breathe(), __atomic_fetch_add(__VA_ARGS__))
#define __atomic_fetch_or(...) (::peal::simt::breathe(), __atomic_fetch_or(__VA_ARGS__))

#include_next <cuda/std/__atomic/functions/host.h>

#undef __atomic_load
#undef __atomic_exchange
#undef __atomic_compare_exchange
#undef __atomic_fetch_add
#undef __atomic_fetch_or
