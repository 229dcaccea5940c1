// SPDX-License-Identifier: Apache-2.0
//
// C's math.h in a CUDA source, without the ::lerp that C++20 adds: programs of CUDA are older, and
// many have a function of their own of that name.
#pragma once

#ifdef __CUDACC__
#include <cmath>

namespace std {
void peal_no_lerp();
}  // namespace std

#define lerp peal_no_lerp  // in `using std::lerp;`
#include_next <math.h>
#undef lerp
#else
#include_next <math.h>
#endif
