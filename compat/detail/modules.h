// SPDX-License-Identifier: Apache-2.0
//
// The modules of the process that kernels lie in: which there are, and what they were filled with.
#pragma once

#include "compat/detail/state.h"

namespace peal::compat {

/// True if a file of this program was compiled by nvcc.
bool any_module();
/// Copies the state into all modules, and into those that are loaded from now on; null ends that.
/// Throws Error kSystem.
void fill_modules(const State* with);

}  // namespace peal::compat
