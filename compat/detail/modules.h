// SPDX-License-Identifier: Apache-2.0
//
// The modules of the process that kernels lie in: which there are, and what they were filled with.
// CUDA is asked by the driver that is loaded, so that programs for CPUs need none.
#pragma once

#include "compat/detail/state.h"

namespace peal::compat {

/// True if a file of this program was compiled by nvcc.
bool any_module();
/// Copies the state into all modules, and into those that are loaded from now on; null ends that.
/// Throws Error kSystem.
void fill_modules(const State* with);

/// The GPU that the calling thread has in use, or -1 where it has none or there is no driver.
int gpu_in_use();

}  // namespace peal::compat
