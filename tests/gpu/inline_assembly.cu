// SPDX-License-Identifier: Apache-2.0
//
// Every statement of inline assembly that device/base has for a GPU, in each of its forms: ptxas
// takes it wherever nvcc is. Never run. Other files go through nvcc's front end alone, which does
// not read inline assembly.
#include "device/base/half.h"
#include "device/base/named_kernel.h"
#include "device/base/order.h"
#include "device/base/spin.h"

namespace peal {

template <Update U, Reach R, class T>
__device__ void update_in_each_order(T* p, T value) {
  *p += memory::update<U, R, Order::kRelaxed, Edge::kNone>(p, value);
  *p += memory::update<U, R, Order::kAcquire, Edge::kNone>(p, value);
  *p += memory::update<U, R, Order::kRelease, Edge::kNone>(p, value);
  *p += memory::update<U, R, Order::kBoth, Edge::kNone>(p, value);
}

template <Reach R, class T>
__device__ void access_in_each_order(T* p, T value) {
  *p += load_relaxed<R>(p) + load_acquire<R>(p);
  store_relaxed<R>(p, value);
  store_release<R>(p, value);
  *p += memory::compare_swap<R, Order::kRelaxed, Edge::kNone>(p, value, *p);
  *p += memory::compare_swap<R, Order::kAcquire, Edge::kNone>(p, value, *p);
  *p += compare_swap_release<R>(p, value, *p) + compare_swap<R>(p, value, *p);
  update_in_each_order<Update::kAdd, R>(p, value);
  update_in_each_order<Update::kAnd, R>(p, value);
  update_in_each_order<Update::kOr, R>(p, value);
  update_in_each_order<Update::kXor, R>(p, value);
  update_in_each_order<Update::kSwap, R>(p, value);
  update_in_each_order<Update::kRaise, R>(p, value);
}

template <Order O, class T>
__device__ void update_blindly(T* p, T value) {
  memory::update_blind<Update::kAdd, O, Edge::kNone>(p, value);
  memory::update_blind<Update::kAnd, O, Edge::kNone>(p, value);
  memory::update_blind<Update::kOr, O, Edge::kNone>(p, value);
  memory::update_blind<Update::kXor, O, Edge::kNone>(p, value);
  memory::update_blind<Update::kRaise, O, Edge::kNone>(p, value);
}

template <class T>
__device__ void access_words(T* p, T value) {
  access_in_each_order<Reach::kBlock>(p, value);
  access_in_each_order<Reach::kGpu>(p, value);
  access_in_each_order<Reach::kSystem>(p, value);
  update_blindly<Order::kRelaxed>(p, value);
  update_blindly<Order::kRelease>(p, value);
}

template <Order O>
__device__ void add_reals(float* f, double* d) {
  *f += fetch_add_real_direct<O>(f, 1.0f);
  *d += fetch_add_real_direct<O>(d, 1.0);
}

__global__ void words(uint32_t* four, uint64_t* eight) {
  access_words(four, 1u);
  access_words(eight, uint64_t{1});
  *four += load_neighbour(four);
  *eight += load_stale(eight) + now_ns();
  store_mmio(eight, *eight);
  nap();
}

__global__ void reals(float* f, double* d, Half* h) {
  add_reals<Order::kRelaxed>(f, d);
  add_reals<Order::kAcquire>(f, d);
  add_reals<Order::kRelease>(f, d);
  add_reals<Order::kBoth>(f, d);
  *f += to_float(*h);
  *h = to_half(*f);
}

__global__ void lines(Line* line) {
  store_line(line, *line);
  store_line_direct(line, load_line_direct(line));
  store_line(line, load_line_stale(line));
}

__global__ void fences(uint32_t* p) {
  acquire_batch<Reach::kBlock>();
  acquire_batch<Reach::kGpu>();
  acquire_batch<Reach::kSystem>();
  *p = 1;
  await_stream();
  fence_direct_stores<Edge::kNone, Reach::kGpu>();
  fence_direct_stores();
}

}  // namespace peal
