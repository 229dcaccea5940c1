// SPDX-License-Identifier: Apache-2.0
//
// A kernel that a host finds by its name: in a GPU's module, or on a CPU as a function that every
// lane of a grid calls with the address of the arguments.
//
//   PEAL_NAMED_KERNEL(name, Arguments) { ... args ... }
#pragma once

#include "device/base/target.h"

#if PEAL_CUDA
#define PEAL_NAMED_KERNEL(name, Arguments)                                                         \
  static PEAL_DEVICE void body_of_##name(const Arguments& args);                                   \
  extern "C" __global__ void __launch_bounds__(512) name(const __grid_constant__ Arguments args) { \
    peal::await_stream();                                                                          \
    body_of_##name(args);                                                                          \
  }                                                                                                \
  static PEAL_DEVICE void body_of_##name(const Arguments& args)
#else
#define PEAL_NAMED_KERNEL(name, Arguments)                     \
  static void body_of_##name(const Arguments& args);           \
  extern "C" void name(const void* arguments) {                \
    body_of_##name(*static_cast<const Arguments*>(arguments)); \
  }                                                            \
  static void body_of_##name(const Arguments& args)
#endif

namespace peal {

/// Where the host launched the kernel ahead of its time (a programmatic dependent launch): all that
/// the stream had before is done and visible. Then the next kernel may come, and wait likewise.
PEAL_DEVICE void await_stream() {
#if PEAL_ON_GPU
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;\n\tgriddepcontrol.launch_dependents;" ::: "memory");
#endif
#endif
}

}  // namespace peal
