// SPDX-License-Identifier: Apache-2.0
//
// The library's kernels as its host finds them: on a CPU functions, on a GPU names in the images of
// libpeal_kernels.so (host/stream/executor_gpu.cc).
#pragma once

#include <cstddef>

#include "device/shared/kernel_arguments.h"

namespace peal::kernels {

struct Kernel {
  const char* name;             // in its image
  const char* image;            // Image::name
  void (*on_cpu)(const void*);  // by every lane of the grid, with the arguments' address
};

const Kernel& transfer_kernel();
const Kernel& word_kernel();
/// The kernel of a call from kSync to kAllToAllV.
const Kernel& collective_kernel(Call call);
/// Reduces by one block, in a team that has members that are not mapped.
const Kernel& reduce_by_nic_kernel();
/// Reduces by a grid where all members are mapped; null for bits of floating-point numbers. `type`
/// is kernel_type()'s.
const Kernel* reduce_kernel(Call call, DataType type, Operation operation);

/// A fat binary for cuModuleLoadData.
struct Image {
  const char* name;
  const void* begin;
};

/// The type that has kernels for what `operation` makes of `type`: of those that make the same bits
/// the unsigned one.
DataType kernel_type(DataType type, Operation operation);

/// "i32", "bit_and".
const char* to_string(DataType type);
const char* to_string(Operation operation);

size_t bytes_of(DataType type);
/// False for bits of floating-point numbers.
bool applies(Operation operation, DataType type);

}  // namespace peal::kernels
