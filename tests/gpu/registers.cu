// SPDX-License-Identifier: Apache-2.0
//
// A kernel for each operation and scope, which does nothing else, for registers_test.py.
#include <nvshmem.h>
#include <nvshmemx.h>

using namespace peal;

#define PEAL_NATIVE(name, ...)                                                                \
  extern "C" __global__ void name(Context ctx, Team team, int* dst, const int* src, size_t n, \
                                  uint64_t* word, int pe) {                                   \
    (void)(__VA_ARGS__);                                                                      \
  }
#define PEAL_NVSHMEM(name, ...)                                                                 \
  extern "C" __global__ void nvshmem_##name(int* dst, const int* src, size_t n, uint64_t* word, \
                                            int pe) {                                           \
    (void)(__VA_ARGS__);                                                                        \
  }

namespace {
__device__ Signal signal_to(uint64_t* word, size_t n, int pe) {
  return {word, 1, pe, static_cast<Signal::Kind>(n)};
}
}  // namespace

#define PEAL_BY(scope)                                                                         \
  PEAL_NATIVE(put_##scope, put(ctx, scope, dst, src, n, pe))                                   \
  PEAL_NATIVE(put_nbi_##scope, put_nbi(ctx, scope, dst, src, n, pe))                           \
  PEAL_NATIVE(get_##scope, get(ctx, scope, dst, src, n, pe))                                   \
  PEAL_NATIVE(get_nbi_##scope, get_nbi(ctx, scope, dst, src, n, pe))                           \
  PEAL_NATIVE(put_signal_##scope, put_signal(ctx, scope, dst, src, n, signal_to(word, n, pe))) \
  PEAL_NATIVE(quiet_##scope, quiet(ctx, scope))                                                \
  PEAL_NATIVE(fence_##scope, fence(ctx, scope))                                                \
  PEAL_NATIVE(sync_all_##scope, sync_all(ctx, scope))                                          \
  PEAL_NATIVE(barrier_all_##scope, barrier_all(ctx, scope))
PEAL_BY(thread)
PEAL_BY(warp)
PEAL_BY(block)

PEAL_NATIVE(p, p(ctx, dst, static_cast<int>(n), pe))
PEAL_NATIVE(g, *dst = g(ctx, src, pe).value)
PEAL_NATIVE(signal, signal(ctx, signal_to(word, n, pe)))
PEAL_NATIVE(signal_wait, signal_wait_until(ctx, word, Compare::kGe, n))
PEAL_NATIVE(atomic_add, atomic_add(ctx, word, n, pe))
PEAL_NATIVE(atomic_fetch_add, *word = atomic_fetch_add(ctx, word, n, pe, acq_rel).value)
PEAL_NATIVE(atomic_fetch_max, *word = atomic_fetch_max(ctx, word, n, pe).value)
PEAL_NATIVE(atomic_fetch_add_nbi, atomic_fetch_add_nbi(ctx, word, word, n, pe))
PEAL_NATIVE(quiet_pe, quiet(ctx, pe))
PEAL_NATIVE(iput_block, iput(ctx, block, dst, src, {2, 2}, n, pe))
PEAL_NATIVE(iget_block, iget(ctx, block, dst, src, {2, 2}, n, pe))
PEAL_NATIVE(team_barrier_block, barrier(ctx, block, team))

PEAL_NVSHMEM(put_block, nvshmemx_float_put_block(reinterpret_cast<float*>(dst),
                                                 reinterpret_cast<const float*>(src), n, pe))
PEAL_NVSHMEM(getmem_warp, nvshmemx_getmem_warp(dst, src, n, pe))
PEAL_NVSHMEM(put_signal_block,
             nvshmemx_int_put_signal_block(dst, src, n, word, 1, static_cast<int>(n), pe))
PEAL_NVSHMEM(quiet, nvshmem_quiet())
PEAL_NVSHMEM(barrier_all_block, nvshmemx_barrier_all_block())
PEAL_NVSHMEM(atomic_fetch_add, *dst = nvshmem_int_atomic_fetch_add(dst, 1, pe))
