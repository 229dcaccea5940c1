// SPDX-License-Identifier: Apache-2.0
//
// The three things that the library asks of CUDA itself, in a process that uses it already: by the
// driver that is loaded, so that programs for CPUs need none.
#pragma once

#include <cstddef>

struct CUlib_st;
struct CUmod_st;

namespace peal::compat {

/// The GPU that the calling thread has in use, or -1 where it has none or there is no driver.
int gpu_in_use();

/// Copies to the global object `name` of a module, or of a library. Throws Error kInvalidArgument
/// where there is no such object of that size.
void fill_object(CUmod_st* module, const char* name, const void* from, size_t bytes);
void fill_object(CUlib_st* library, const char* name, const void* from, size_t bytes);

}  // namespace peal::compat
