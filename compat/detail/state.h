// SPDX-License-Identifier: Apache-2.0
//
// What kernels reach without an argument: the PE's context, its teams, and where the first failure
// goes. A kernel of CUDA reads a constant of its own module; nvshmem_init() copies the state into
// the constants of all modules, which have put themselves on a list before main():
//
//   a.cu  [ module_state ] <--.
//   b.cu  [ module_state ] <--+-- Module list <-- nvshmem_init(), nvshmemx_cumodule_init()
//
// So no relocatable device code is needed. On a CPU all files read one object of the library.
#pragma once

#include <cstdint>

#include "compat/detail/types.h"
#include "device/api.h"

#if PEAL_CUDA
#include <cuda_runtime_api.h>
#endif

namespace peal::compat {

inline constexpr int kMaxTeams = 256;

/// In memory that kernels and, by copies, the host reach; of this PE.
struct Shared {
  uint32_t first_failure;  // a Status that no caller was told of; 0: none
  uint32_t reserved[31];
  Team teams[kMaxTeams];  // by nvshmem_team_t; of what is none: rank -1
};

/// Plain data.
struct State {
  Context context;
  Shared* shared;
  /// The same context, whose queues warps choose: for what a thread or a warp posts, and NVSHMEM
  /// orders by fence and quiet alone. Collective calls, iput and iget have a block's queue.
  Context unordered;
};

/// Blocks or threads, as dim3 has them; of dim3, of simt's Dim3, of a number.
struct LaunchExtent {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;

  LaunchExtent(unsigned x_, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  template <class Dim>
  requires requires(const Dim& dim) { dim.x + dim.y + dim.z; }
  LaunchExtent(const Dim& dim) : x(dim.x), y(dim.y), z(dim.z) {}
};

/// A kernel's start by its address.
struct KernelStart {
  const void* kernel;
  LaunchExtent blocks;
  LaunchExtent threads;
  void** arguments;
  size_t shared_bytes;
  void* stream;
};

/// What only a file that nvcc compiled can do for the library. All answer 0, or an error's number.
struct Module {
  int (*fill)(const State& state);
  int (*launch)(const KernelStart& start);
  int (*most_blocks)(const KernelStart& start, int* blocks);
  Module* next = nullptr;
};

/// Fills the module now if nvshmem_init() has been called, else then. It stays until remove().
void add(Module& module);
void remove(Module& module);

#if PEAL_CUDA

// Relocatable code may not have the same name twice; other code must not hide its name from
// nvshmemx_cumodule_init(), which looks for it.
#if defined(__CUDACC_RDC__)
static
#endif
    __constant__ State module_state{};

namespace {

dim3 to_cuda(const LaunchExtent& extent) { return {extent.x, extent.y, extent.z}; }

int fill_module(const State& state) {
  return cudaMemcpyToSymbol(module_state, &state, sizeof(state));
}

int launch_cooperative(const KernelStart& start) {
  return cudaLaunchCooperativeKernel(start.kernel, to_cuda(start.blocks), to_cuda(start.threads),
                                     start.arguments, start.shared_bytes,
                                     static_cast<cudaStream_t>(start.stream));
}

int most_cooperative_blocks(const KernelStart& start, int* blocks) {
  int device = 0;
  int processors = 0;
  const dim3 threads = to_cuda(start.threads);
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  }
  if (error == cudaSuccess) {
    error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks, start.kernel, static_cast<int>(threads.x * threads.y * threads.z),
        start.shared_bytes);
  }
  *blocks *= processors;
  return error;
}

/// This file's, on the list from before main() until it is unloaded.
struct ListedModule : Module {
  ListedModule() : Module{fill_module, launch_cooperative, most_cooperative_blocks} { add(*this); }
  ~ListedModule() { remove(*this); }
};
const ListedModule this_module;

}  // namespace

PEAL_DEVICE const State& state() { return module_state; }

#else

/// The library's.
const State& process_state();
PEAL_DEVICE const State& state() { return process_state(); }

#endif

PEAL_DEVICE const Context& context() { return state().context; }
PEAL_DEVICE const Context& unordered() { return state().unordered; }

/// The team of a handle; of one that is none, a team that nobody is in.
PEAL_DEVICE Team team_of(nvshmem_team_t handle) {
  if (static_cast<uint32_t>(handle) >= static_cast<uint32_t>(kMaxTeams)) return Team{};
  return state().shared->teams[handle];
}

PEAL_DEVICE_COLD inline void keep_first(uint32_t* first, Status status) {
  atomicCAS(first, 0u, static_cast<uint32_t>(status));
}

/// The guide's calls answer nothing: what a call should have told its caller is kept. Not for calls
/// that only post: peal latches their errors itself, and the next quiet or barrier tells.
PEAL_DEVICE void keep(Status status) {
  if (status != Status::kOk) keep_first(&state().shared->first_failure, status);
}

PEAL_DEVICE int kept() {
  return static_cast<int>(atomicCAS(&state().shared->first_failure, 0u, 0u));
}

/// -1 for a team that this PE is not in.
PEAL_HD int size_or_none(const Team& team) { return team.rank < 0 ? -1 : team.size; }

/// 0 or not 0, as the guide's calls answer.
PEAL_DEVICE int code(Status status) {
  keep(status);
  return status == Status::kOk ? 0 : 1;
}

template <class T>
PEAL_DEVICE T value(const Fetched<T>& fetched) {
  keep(fetched.status);
  return fetched.value;
}

}  // namespace peal::compat
