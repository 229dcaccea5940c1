// SPDX-License-Identifier: Apache-2.0
//
// A program for gdb_test.py to stop: when everything_waits() is called, lane 0 stands in
// __syncthreads(), lane 1 in wait_until(), lane 2 calls, and lane 3 has ended; the other three
// blocks have no room yet. One worker runs all lanes, in turn, so it is always so. Its clock shows
// `held_seconds` more than it is, as after a stop of that length: the test sets it while gdb holds
// the process. It ends with 0 if no wait timed out.
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>

#include "peal/peal.h"
#include "simt/lanes/launch.h"

extern "C" {

volatile long held_seconds = 0;

int clock_gettime(clockid_t id, timespec* time) noexcept {
  const long failed = ::syscall(SYS_clock_gettime, id, time);
  if (id == CLOCK_MONOTONIC) time->tv_sec += held_seconds;
  return static_cast<int>(failed);
}

[[gnu::noinline]] void everything_waits() { asm volatile(""); }
}

namespace {

// What gdb says of the lanes names these functions and lines.
PEAL_DEVICE void meet() {
  __syncthreads();  // line of lane 0
}

// A wait looks at its deadline in its 32nd turn and the 64th, 128th, ...: before the stop, and
// behind it before its value comes.
PEAL_DEVICE void let_others_turn() {
  for (int i = 0; i < 500; ++i) __nanosleep(1);
}

PEAL_KERNEL wait_for_seven(peal::Context ctx, uint64_t* word, uint64_t* data, peal::Status* end) {
  if (blockIdx.x == 0 && threadIdx.x == 0) meet();
  if (blockIdx.x == 0 && threadIdx.x == 1) {
    *end = peal::wait_until(ctx, word, peal::Compare::kGe, 7);  // line of lane 1
    __syncthreads();
  }
  if (blockIdx.x == 1 && threadIdx.x == 0) {
    (void)peal::put(ctx, data + 1, data, 1, ctx.pe);
    let_others_turn();
    everything_waits();
    let_others_turn();
    (void)peal::p(ctx, word, uint64_t{7}, ctx.pe);
  }
}

// Behind it, for the stack of a put by the NIC.
PEAL_KERNEL put_by_warp(peal::Context ctx, uint64_t* dst, const uint64_t* src, size_t count) {
  (void)peal::put(ctx, peal::warp, dst, src, count, ctx.pe);
}

}  // namespace

int main() {
  return peal::run_main([] {
    peal::simt::Limits limits = peal::simt::limits();
    limits.workers = 1;
    limits.max_lanes = 2;  // beside the first block's
    peal::simt::set_limits(limits);
    peal::Runtime pe = peal::start();
    constexpr size_t kMany = 8;  // more than a request carries
    uint64_t* const words = pe.allocate<uint64_t>(3 + 2 * kMany);
    auto* const end = pe.allocate<peal::Status>(1);
    const peal::Grid grid{.blocks = 5, .threads = 2};
    peal::launch(grid, wait_for_seven, pe.context(), words, words + 1, end).wait();
    peal::launch({.blocks = 1, .threads = 2}, put_by_warp, pe.context(), words + 3,
                 words + 3 + kMany, kMany)
        .wait();
    pe.check();
    return *end == peal::Status::kOk ? 0 : 1;
  });
}
