// SPDX-License-Identifier: Apache-2.0
//
// The modules that kernels lie in, kernels that are started by their address, and what is asked of
// CUDA's driver.
#include <dlfcn.h>

#include <mutex>
#include <utility>

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

// A function of the driver, if this process has loaded it.
template <class Function>
Function* driver_function(const char* name) {
  void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return driver == nullptr ? nullptr : reinterpret_cast<Function*>(::dlsym(driver, name));
}

// Copies `state` to the module_state of `code`; `finder` is the driver's function that answers
// where an object of it lies.
template <class Code>
void fill(const char* finder, Code* code, const State& state) {
  using Address = unsigned long long;
  auto* const find = driver_function<int(Address*, size_t*, Code*, const char*)>(finder);
  auto* const copy = driver_function<int(Address, const void*, size_t)>("cuMemcpyHtoD_v2");
  if (find == nullptr || copy == nullptr) {
    fail(ErrorCode::kUnsupported, "no CUDA driver is in use by this process");
  }
  Address object = 0;
  size_t found = 0;
  if (const int error = find(&object, &found, code, kStateName);
      error != 0 || found != sizeof(State)) {
    fail(ErrorCode::kInvalidArgument,
         "its code has no {} of {} bytes (CUDA error {}): compile it against peal's nvshmem.h of "
         "this version, without -rdc",
         kStateName, sizeof(State), error);
  }
  if (const int error = copy(object, &state, sizeof(State)); error != 0) {
    fail(ErrorCode::kSystem, "cuMemcpyHtoD: CUDA error {}", error);
  }
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
  // On a CPU more blocks than there are workers gain nothing.
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

int gpu_in_use() {
  auto* const device_of_thread = driver_function<int(int*)>("cuCtxGetDevice");
  int device = -1;
  const bool known = device_of_thread != nullptr && device_of_thread(&device) == 0;
  return known ? device : -1;
}

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

int launch(const KernelStart& asked, const char* call) {
  return code_of(call, [&](Pe& pe) {
    KernelStart start = asked;
    if (start.blocks.x == 0) start.blocks = static_cast<unsigned>(most_blocks_of(pe, start));
    if (pe.runtime().target() == Target::kGpu) {
      meet_in(pe, start);
      return ask_modules("cudaLaunchCooperativeKernel",
                         [&](Module& module) { return module.launch(start); });
    }
    const simt::LaneGrid grid{{start.blocks.x, start.blocks.y, start.blocks.z},
                              {start.threads.x, start.threads.y, start.threads.z},
                              start.shared_bytes,
                              start.kernel};
    auto body = simt::bind_kernel(start.kernel, start.arguments);
    meet_in(pe, start);
    auto& stream =
        *static_cast<simt::WorkStream*>(stream_of(static_cast<cudaStream_t>(start.stream)));
    const cudaError_t error = simt::cuda::start_cooperative(stream, grid, nullptr, std::move(body));
    if (error != cudaSuccess) {
      fail(ErrorCode::kInvalidArgument, "{} blocks of {} threads: {}", grid.blocks.count(),
           grid.threads.count(), simt::cuda::calls::cudaGetErrorString(error));
    }
  });
}

int most_blocks(const KernelStart& start, int* blocks, const char* call) {
  return code_of(call, [&](Pe& pe) { *blocks = most_blocks_of(pe, start); });
}

int fill_module(CUmod_st* module, const char* call) {
  return code_of(call, [&](Pe& pe) { fill("cuModuleGetGlobal_v2", module, pe.state()); });
}

int fill_library(CUlib_st* library, const char* call) {
  return code_of(call, [&](Pe& pe) { fill("cuLibraryGetGlobal", library, pe.state()); });
}

}  // namespace peal::compat
