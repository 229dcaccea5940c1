// SPDX-License-Identifier: Apache-2.0
//
// The NIC as a kernel. Warp 0 of each block watches for the order to stop; each other warp serves
// the queue pairs in its slots (warp.cuh):
//
//   work[w], work[w + workers], ... -> slots of warp w -> turns until the order to stop -> tables
//
// A warp with nothing to do, or without work of its own, takes parts of others' long copies
// (copy_board.h).
//
// The tables do not change while the kernel runs, so a warp keeps what it needs of its queue pairs
// in shared memory and writes it back before the exact step and at the end.
#include <cuda_runtime.h>

#include "softnic/gpu/kernel.h"
#include "softnic/gpu/lossy.h"
#include "softnic/gpu/warp.cuh"

namespace peal::softnic::gpu {

namespace {

constexpr uint32_t kMaxWarps = 6;  // of a block, the watching one among them: half a multiprocessor
constexpr uint32_t kMaxSlots = 8;  // of a warp
constexpr uint32_t kFewestBlocks = 32;  // what long copies take to fill a link
constexpr uint32_t kIdleTurns = 4096;   // until a warp polls less often
constexpr uint32_t kIdleSleepNs = 500;
constexpr uint32_t kTurnsALook = 8;  // turns until the order to stop is looked for
constexpr uint32_t kWatchSleepNs = 1000;

/// Passes the order to stop on: host -> block 0 -> GPU memory -> every block. The host also counts
/// beats; when they cease, block 0 gives the order itself.
__device__ void watch(const EngineArguments& a, volatile uint32_t* stop) {
  uint32_t beat = 0;
  uint64_t heard = clock_ns();
  for (;;) {
    if (blockIdx.x == 0) {
      const uint32_t now_beat = volatile_load(&a.watch->beat);
      if (now_beat != beat) heard = clock_ns();
      beat = now_beat;
      const bool deserted = clock_ns() - heard > a.patience_ns;
      if (volatile_load(&a.watch->stop) != 0 || deserted) store_relaxed<uint32_t>(a.order, 1);
    }
    if (volatile_load(a.order) != 0) break;
    __nanosleep(kWatchSleepNs);
  }
  *stop = 1;
}

__device__ void serve(const EngineArguments& a, EngineSlot* slots, uint32_t worker,
                      uint32_t workers, const volatile uint32_t* stop) {
  const uint32_t lane = threadIdx.x % kLanes;
  const uint32_t share =
      worker < a.work_count ? (a.work_count - 1 - worker) / workers + 1 : 0;  // of the work
  const bool settled = share <= a.slots;
  EngineWarp warp(a, slots, lane, worker);
  for (uint32_t done = 0; __shfl_sync(kAll, *stop, 0) == 0;) {
    const uint32_t left = share - done;
    const uint32_t count = left < a.slots ? left : a.slots;
    warp.load(worker + done * workers, workers, count);
    uint32_t idle = 0;
    bool finishing = false;
    for (uint32_t turn = 1; !finishing || warp.busy(); ++turn) {
      idle = warp.turn(finishing) ? 0 : idle + 1;
      if (share == 0 ? idle != 0 : settled && idle > kIdleTurns) __nanosleep(kIdleSleepNs);
      const bool looks = !settled || turn % kTurnsALook == 0;
      finishing = finishing || (looks && (!settled || __shfl_sync(kAll, *stop, 0) != 0));
    }
    warp.save();
    done = done + count == share ? 0 : done + count;
  }
}

__global__ void __launch_bounds__(kMaxWarps* kLanes, 2) engine_kernel(EngineArguments a) {
  extern __shared__ uint64_t memory[];
  auto* slots = reinterpret_cast<EngineSlot*>(memory);
  __shared__ uint32_t stop;
  if (threadIdx.x == 0) stop = 0;
  __syncthreads();
  const uint32_t warp = threadIdx.x / kLanes;
  if (warp == 0) {
    if (threadIdx.x == 0) watch(a, &stop);
    return;
  }
  // Neighbours in the list go to different multiprocessors first.
  const uint32_t worker = (warp - 1) * gridDim.x + blockIdx.x;
  serve(a, slots + (warp - 1) * a.slots, worker, (blockDim.x / kLanes - 1) * gridDim.x, &stop);
}

/// Where NICs have fault plans: warp 0 watches, one lane of warp 1 serves all queue pairs.
__global__ void __launch_bounds__(2 * kLanes) lossy_kernel(EngineArguments a) {
  __shared__ LossyWire wire;  // and not on a stack, which every thread of the GPU would have
  __shared__ uint32_t stop;
  if (threadIdx.x == 0) stop = 0;
  __syncthreads();
  if (threadIdx.x == 0) watch(a, &stop);
  if (threadIdx.x != kLanes) return;
  const DirectWire lookup = {a.ports, a.lids};
  while (*static_cast<volatile uint32_t*>(&stop) == 0) {
    bool tells = false;
    lossy_round(lookup, a.work, a.work_count, wire, clock_ns(), &tells);
    if (tells) store_relaxed<uint32_t>(&a.watch->attention, 1);
  }
}

}  // namespace

const char* launch_engine(const EngineArguments& arguments, uint32_t most_blocks, void* stream) {
  EngineArguments a = arguments;
  if (a.lossy) {
    lossy_kernel<<<1, 2 * kLanes, 0, static_cast<cudaStream_t>(stream)>>>(a);
  } else {
    const uint32_t work = a.work_count;
    const uint32_t useful = work > kFewestBlocks ? work : kFewestBlocks;
    const uint32_t blocks = useful < most_blocks ? useful : most_blocks;
    const uint32_t serving = kMaxWarps - 1;
    const uint32_t share = (work + blocks * serving - 1) / (blocks * serving);
    a.slots = share < kMaxSlots ? share : kMaxSlots;
    engine_kernel<<<blocks, (1 + serving) * kLanes, serving * a.slots * sizeof(EngineSlot),
                    static_cast<cudaStream_t>(stream)>>>(a);
  }
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

}  // namespace peal::softnic::gpu
