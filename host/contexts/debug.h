// SPDX-License-Identifier: Apache-2.0
//
// The contexts of the process, for a debugger: `peal queues` of simt/gdb.
#pragma once

#include "base/debug_list.h"

namespace peal {

/// A list of ContextFields. The script finds the list by this name.
extern "C" DebugList peal_debug_contexts;

}  // namespace peal
