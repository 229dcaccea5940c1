// SPDX-License-Identifier: Apache-2.0
//
// What assert() of a CUDA program does: in a kernel it ends the launch with cudaErrorAssert, as
// CUDA does; on the host it is C's.
#pragma once

namespace peal::simt::cuda {

[[noreturn]] void assertion_failed(const char* condition, const char* file, unsigned line,
                                   const char* function);

}  // namespace peal::simt::cuda
