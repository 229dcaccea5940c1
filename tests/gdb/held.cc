// SPDX-License-Identifier: Apache-2.0
//
// A program for gdb_test.py to stop: when everything_waits() is called, lane 0 stands in
// __syncthreads(), lane 1 in wait_until(), lane 2 calls, and lane 3 has ended. One worker runs all
// lanes, in turn, so it is always so.
#include <cstdint>

#include "peal/peal.h"
#include "simt/launch.h"

extern "C" [[gnu::noinline]] void everything_waits() { asm volatile(""); }

namespace {

// What gdb says of the lanes names these functions and lines.
PEAL_DEVICE void meet() {
  __syncthreads();  // line of lane 0
}

PEAL_KERNEL wait_for_ever(peal::Context ctx, uint64_t* word, uint64_t* data) {
  if (blockIdx.x == 0 && threadIdx.x == 0) meet();
  if (blockIdx.x == 0 && threadIdx.x == 1) {
    (void)peal::wait_until(ctx, word, peal::Compare::kGe, 7);  // line of lane 1
    __syncthreads();
  }
  if (blockIdx.x == 1 && threadIdx.x == 0) {
    (void)peal::put(ctx, data + 1, data, 1, ctx.pe);
    everything_waits();
    (void)peal::p(ctx, word, uint64_t{7}, ctx.pe);
  }
}

}  // namespace

int main() {
  return peal::run_main([] {
    peal::simt::Limits limits = peal::simt::limits();
    limits.workers = 1;
    peal::simt::set_limits(limits);
    peal::Runtime pe = peal::start();
    uint64_t* const words = pe.allocate<uint64_t>(3);
    peal::launch({.blocks = 2, .threads = 2}, wait_for_ever, pe.context(), words, words + 1).wait();
    pe.check();
    return 0;
  });
}
