// SPDX-License-Identifier: Apache-2.0
//
// Every device operation, scope and kind of context, compiled by nvcc. It finds what g++ accepts
// and nvcc does not; running it needs a GPU and a job.
#include "device/api.h"

namespace {

using namespace peal;

template <class C, class S>
PEAL_DEVICE Status transfers(const C& ctx, S scope, int* data, uint64_t* flag) {
  Status s = put(ctx, scope, data, data, 100, 1);
  s = get(ctx, scope, data, data, 100, 1);
  Ticket ticket = put_nbi(ctx, scope, data, data, 100, 1);
  s = wait(ctx, ticket);
  ticket = get_nbi(ctx, scope, static_cast<void*>(data), data, 7, 1);
  if (!test(ctx, ticket)) s = wait(ctx, ticket);
  s = iput(ctx, scope, data, data, Strides{1, 2}, 4, 1);
  s = iget(ctx, scope, data, data, Strides{1, 2}, 4, 1);
  s = put_signal(ctx, scope, data, data, 8, Signal::add(flag, 1, 1));
  ticket = put_signal_nbi(ctx, scope, data, data, 8, Signal::set(flag, 1, 1));
  s = wait_until(ctx, scope, flag, Compare::kGe, 1);
  s = fence(ctx, scope);
  s = quiet(ctx, scope);
  s = sync_all(ctx, scope);
  return s == Status::kOk ? barrier_all(ctx, scope) : s;
}

template <class C, class T>
PEAL_DEVICE T atomics(const C& ctx, T* word) {
  (void)atomic_set(ctx, word, 1, 1);
  (void)atomic_add(ctx, word, 1, 1);
  (void)atomic_inc(ctx, word, 1);
  (void)atomic_and(ctx, word, 1, 1);
  (void)atomic_or(ctx, word, 1, 1);
  (void)atomic_xor(ctx, word, 1, 1);
  return atomic_fetch(ctx, word, 1).value + atomic_swap(ctx, word, 1, 1).value +
         atomic_compare_swap(ctx, word, 1, 2, 1).value + atomic_fetch_add(ctx, word, 1, 1).value +
         atomic_fetch_inc(ctx, word, 1).value + atomic_fetch_and(ctx, word, 1, 1).value +
         atomic_fetch_or(ctx, word, 1, 1).value + atomic_fetch_xor(ctx, word, 1, 1).value;
}

template <class C>
PEAL_KERNEL everything(C ctx, int* data, long* word, uint64_t* flag, Status* out) {
  Status s = transfers(ctx, thread, data, flag);
  s = transfers(ctx, warp, data, flag);
  s = transfers(ctx, block, data, flag);
  s = p(ctx, data, 3, 1);
  s = signal(ctx, Signal::add(flag, 1, 1));
  const WaitSet<uint64_t> set{flag, 4};
  size_t found[4];
  s = wait_until_all(ctx, set, Compare::kGe, 1);
  const WaitAny any = wait_until_any(ctx, set, Compare::kGe, 1);
  const WaitSome some = wait_until_some(ctx, set, found, Compare::kGe, 1);
  if (int* direct = ptr(ctx, data, 1)) *direct = static_cast<int>(any.index + some.count);
  *word = atomics(ctx, word) + atomics(ctx, data) + g(ctx, word, 1).value;
  *out = s;
}

template __global__ void everything(Context, int*, long*, uint64_t*, Status*);
template __global__ void everything(BlockContext, int*, long*, uint64_t*, Status*);
template __global__ void everything(ExclusiveContext, int*, long*, uint64_t*, Status*);

}  // namespace
