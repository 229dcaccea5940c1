// SPDX-License-Identifier: Apache-2.0
//
// The modules that kernels lie in, and kernels that are started by their address.
#include "compat/detail/modules.h"

#include <mutex>
#include <utility>

#include "compat/detail/cuda.h"
#include "compat/detail/pe.h"
#include "compat/detail/setup.h"
#include "host/base/error.h"
#include "simt/lanes/kernels.h"
#include "simt/lanes/launch.h"
#include "simt/runtime/state.h"
#include "simt/runtime/stream.h"

namespace peal::compat {
namespace {

// What cudaLaunchKernel answers for a kernel that another copy of CUDA's runtime knows.
constexpr int kInvalidDeviceFunction = 98;

// module_state of state.h, as nvcc names it.
constexpr const char* kStateName = "_ZN4peal6compat12module_stateE";

// Files add to the list before main(), and no object of main() could have it.
struct Modules {
  std::mutex mutex;
  Module* first = nullptr;
  const State* filled_with = nullptr;
};
Modules& modules() {
  static Modules the_modules;
  return the_modules;
}

void check_filled(int error) {
  if (error == 0) return;
  fail(ErrorCode::kSystem,
       "cudaMemcpyToSymbol: CUDA error {}: kernels of a file of this program "
       "would not reach the PE",
       error);
}

// Asks the modules, one of which knows the kernel: libraries may have a runtime of CUDA each.
template <class Ask>
void ask_modules(const char* what, const Ask& ask) {
  const std::lock_guard lock(modules().mutex);
  if (modules().first == nullptr) {
    fail(ErrorCode::kUnsupported, "no file of the program was compiled by nvcc");
  }
  int error = kInvalidDeviceFunction;
  for (Module* module = modules().first; module != nullptr && error == kInvalidDeviceFunction;
       module = module->next) {
    error = ask(*module);
  }
  if (error != 0) fail(ErrorCode::kSystem, "{}: CUDA error {}", what, error);
}

int most_blocks_of(Pe& pe, const KernelStart& start) {
  // simt runs all blocks at a time; more than there are workers gain nothing.
  if (pe.runtime().target() == Target::kCpu) return static_cast<int>(simt::limits().workers);
  int blocks = 0;
  ask_modules("occupancy of the kernel",
              [&](Module& module) { return module.most_blocks(start, &blocks); });
  return blocks;
}

// What each PE's stream did comes before any PE's kernel: programs clear a flag and launch.
void meet_in(Pe& pe, const KernelStart& start) {
  void* const stream = stream_of(static_cast<cudaStream_t>(start.stream));
  detail::start(pe.runtime().on(stream).site(), detail::word_call(Call::kBarrierAll));
}

}  // namespace

void add(Module& module) {
  const std::lock_guard lock(modules().mutex);
  module.next = std::exchange(modules().first, &module);
  if (modules().filled_with == nullptr) return;
  // A library that is loaded when the PE has begun is filled at once.
  try {
    check_filled(module.fill(*modules().filled_with));
  } catch (const std::exception& error) {
    tell("a library of kernels", error);
  }
}

void remove(Module& module) {
  const std::lock_guard lock(modules().mutex);
  Module** at = &modules().first;
  while (*at != nullptr && *at != &module) at = &(*at)->next;
  if (*at != nullptr) *at = module.next;
}

bool any_module() {
  const std::lock_guard lock(modules().mutex);
  return modules().first != nullptr;
}

void fill_modules(const State* with) {
  const std::lock_guard lock(modules().mutex);
  modules().filled_with = with;
  if (with == nullptr) return;
  for (Module* module = modules().first; module != nullptr; module = module->next) {
    check_filled(module->fill(*with));
  }
}

int launch(const char* call, const KernelStart& asked) {
  return code_of(call, [&](Pe& pe) {
    KernelStart start = asked;
    if (start.blocks.x == 0) start.blocks = static_cast<unsigned>(most_blocks_of(pe, start));
    if (pe.runtime().target() == Target::kGpu) {
      meet_in(pe, start);
      return ask_modules("cudaLaunchCooperativeKernel",
                         [&](Module& module) { return module.launch(start); });
    }
    const simt::Grid grid{{start.blocks.x, start.blocks.y, start.blocks.z},
                          {start.threads.x, start.threads.y, start.threads.z},
                          start.shared_bytes,
                          start.kernel};
    auto body = simt::bind_kernel(start.kernel, start.arguments);
    meet_in(pe, start);
    auto& stream = *static_cast<simt::Stream*>(stream_of(static_cast<cudaStream_t>(start.stream)));
    const cudaError_t error = simt::cuda::start_cooperative(stream, grid, nullptr, std::move(body));
    if (error != cudaSuccess) {
      fail(ErrorCode::kInvalidArgument, "{} blocks of {} threads: {}", grid.blocks.count(),
           grid.threads.count(), simt::cuda::calls::cudaGetErrorString(error));
    }
  });
}

int most_blocks(const char* call, const KernelStart& start, int* blocks) {
  return code_of(call, [&](Pe& pe) { *blocks = most_blocks_of(pe, start); });
}

int fill_module(const char* call, CUmod_st* module) {
  return code_of(call,
                 [&](Pe& pe) { fill_object(module, kStateName, &pe.state(), sizeof(State)); });
}

int fill_library(const char* call, CUlib_st* library) {
  return code_of(call,
                 [&](Pe& pe) { fill_object(library, kStateName, &pe.state(), sizeof(State)); });
}

}  // namespace peal::compat
