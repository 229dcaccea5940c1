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
  const Tile tile{4, 3, {8, 16}};
  s = put(ctx, scope, data, data, tile, 1);
  s = get(ctx, scope, data, data, tile, 1);
  s = wait(ctx, scope, put_nbi(ctx, scope, data, data, tile, 1));
  s = wait(ctx, scope, get_nbi(ctx, scope, data, data, tile, 1));
  s = put_signal(ctx, scope, data, data, 8, Signal::add(flag, 1, 1));
  ticket = put_signal_nbi(ctx, scope, data, data, 8, Signal::set(flag, 1, 1));
  s = wait_until(ctx, scope, flag, Compare::kGe, 1);
  s = signal_wait_until(ctx, scope, flag, Compare::kGe, signal_fetch(ctx, flag)).status;
  s = fence(ctx, scope);
  s = quiet(ctx, scope);
  s = fence(ctx, scope, 1);
  s = quiet(ctx, scope, 1);
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

template <class C, class T>
PEAL_DEVICE T more_atomics(const C& ctx, T* word) {
  (void)atomic_add(ctx, word, 1, 1);
  (void)atomic_min(ctx, word, 1, 1);
  (void)atomic_max(ctx, word, 1, 1);
  (void)atomic_swap_nbi(ctx, word, word, 1, 1);
  (void)atomic_fetch_nbi(ctx, word, word, 1);
  (void)atomic_compare_swap_nbi(ctx, word, word, 1, 2, 1);
  return atomic_fetch_add(ctx, word, 1, 1).value + atomic_fetch_min(ctx, word, 1, 1).value +
         atomic_fetch_max(ctx, word, 1, 1).value;
}

template <class C, class T>
PEAL_DEVICE void fetches_that_do_not_wait(const C& ctx, T* word) {
  (void)atomic_fetch_add_nbi(ctx, word, word, 1, 1);
  (void)atomic_fetch_inc_nbi(ctx, word, word, 1);
  (void)atomic_fetch_and_nbi(ctx, word, word, 1, 1);
  (void)atomic_fetch_or_nbi(ctx, word, word, 1, 1);
  (void)atomic_fetch_xor_nbi(ctx, word, word, 1, 1);
}

template <class C, class S>
PEAL_DEVICE void post_in_a_batch(const C& ctx, S scope, int* data, uint64_t* flag) {
  Batch batch(ctx);
  for (int i = 0; i < 4; ++i) (void)batch.put_nbi(scope, data + i, data, 100, 1);
  (void)batch.get_nbi(scope, data, data, 100, 1);
  (void)batch.put_signal_nbi(scope, data, data, 8, Signal::add(flag, 1, 1));
  (void)batch.p(data, 3, 1);
  (void)batch.atomic_set(data, 3, 1);
  (void)batch.atomic_inc(flag, 1);
  (void)batch.atomic_and(flag, 1, 1);
  (void)batch.atomic_or(flag, 1, 1);
  (void)batch.atomic_xor(flag, 1, 1);
  batch.ring();
  (void)batch.signal(Signal::set(flag, 1, 1));
}

template <class C>
PEAL_DEVICE size_t compare_with_many(const C& ctx, const WaitSet<uint64_t>& set, size_t* found) {
  const uint64_t values[4] = {1, 2, 3, 4};
  (void)wait_until_all(ctx, set, Compare::kGe, values);
  return wait_until_any(ctx, set, Compare::kGe, values).index +
         wait_until_some(ctx, set, found, Compare::kGe, values).count +
         test_any(ctx, set, Compare::kEq, values) +
         test_some(ctx, set, found, Compare::kNe, values) +
         (test_all(ctx, set, Compare::kLt, values) ? 1 : 0);
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
  post_in_a_batch(ctx, thread, data, flag);
  post_in_a_batch(ctx, warp, data, flag);
  post_in_a_batch(ctx, block, data, flag);
  fetches_that_do_not_wait(ctx, data);
  fetches_that_do_not_wait(ctx, word);
  (void)more_atomics(ctx, reinterpret_cast<float*>(data));
  (void)more_atomics(ctx, reinterpret_cast<double*>(word));
  flag[1] = compare_with_many(ctx, set, found) + more_atomics(ctx, flag);
  *word = atomics(ctx, word) + more_atomics(ctx, data) + atomics(ctx, data) + g(ctx, word, 1).value;
  *out = s;
}

template __global__ void everything(Context, int*, long*, uint64_t*, Status*);
template __global__ void everything(BlockContext, int*, long*, uint64_t*, Status*);
template __global__ void everything(ExclusiveContext, int*, long*, uint64_t*, Status*);

}  // namespace
