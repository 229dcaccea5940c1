// SPDX-License-Identifier: Apache-2.0
//
// What the way between a kernel and a CPU thread costs by itself: the floor of a call by the proxy
// (docs/proxy.md), without a NIC. One thread of a GPU hands something over in pinned host memory, a
// CPU thread that does nothing else answers with a word, and the GPU's thread has seen it.
//
//   word      a word alone
//   entry     64 bytes, a fence of system scope, the word: how work requests are posted
//   shared    the same, and two atomics on a word of the GPU: as on a queue that lanes share
//   marked    64 bytes whose four lines of 16 bytes have the lap in them: no fence, no word
//
//   proxy_floor [--gpu N] [--rounds N]        one JSON object a line: ns of one round
#include <emmintrin.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "device/base/order.h"
#include "device/base/spin.h"
#include "tests/gpu/softnic_rig.cuh"

namespace {

using namespace peal;
using testing::check;
using testing::device_array;
using testing::option;

enum class Way : uint32_t { kWord, kEntry, kShared, kMarked };
constexpr const char* kNames[] = {"word", "entry", "shared", "marked"};
constexpr uint32_t kLines = 4;

/// In host memory. GPU and CPU write lines of their own.
struct Mailbox {
  alignas(64) Line entry[kLines];
  alignas(64) uint64_t word;
  alignas(64) uint64_t answer;
};

template <Way kWay>
constexpr bool kHasEntry = kWay != Way::kWord;
template <Way kWay>
constexpr bool kHasWord = kWay != Way::kMarked;

/// An atomic on a word of the GPU whose answer, 0, is waited for.
__device__ uint64_t touch(uint64_t* word) {
  return atomicAdd(reinterpret_cast<unsigned long long*>(word), 1) >> 63;
}

/// `ns`: of the rounds from the eighth part on; 0 where the CPU did not answer in time.
template <Way kWay>
__global__ void hand_over(Mailbox* box, uint64_t* queue, uint32_t rounds, uint64_t* ns) {
  uint64_t began = 0;
  *ns = 0;
  for (uint64_t i = 1; i <= rounds; ++i) {
    if (i == rounds / 8) began = now_ns();  // what comes before warms up
    const uint64_t place = kWay == Way::kShared ? touch(queue) : 0;
    if constexpr (kHasEntry<kWay>) {
      for (uint32_t k = 0; k < kLines; ++k) store_line_direct(&box->entry[k], Line{{i + place, k}});
    }
    const uint64_t taken = kWay == Way::kShared ? touch(queue) : 0;
    if constexpr (kHasEntry<kWay> && kHasWord<kWay>) fence_posted<Reach::kSystem>();
    if constexpr (kHasWord<kWay>) store_relaxed<Reach::kSystem>(&box->word, i + taken);
    const SpinEnd end = spin_until(
        testing::kTimeoutNs, [&] { return load_acquire<Reach::kSystem>(&box->answer) == i; },
        [] { return false; });
    if (end != SpinEnd::kDone) return;
  }
  *ns = now_ns() - began;
}

/// True once round `i` has arrived as a whole. A line of 16 bytes is read in one piece.
template <Way kWay>
bool arrived(const Mailbox& box, uint64_t i) {
  if constexpr (kHasWord<kWay>) {
    return __atomic_load_n(&box.word, __ATOMIC_ACQUIRE) == i;
  } else {
    for (const Line& line : box.entry) {
      const __m128i seen = _mm_load_si128(reinterpret_cast<const __m128i*>(&line));
      std::atomic_signal_fence(std::memory_order_seq_cst);  // and again at the next look
      if (static_cast<uint64_t>(_mm_cvtsi128_si64(seen)) != i) return false;
    }
    return true;
  }
}

template <Way kWay>
void answer(Mailbox* box, uint32_t rounds, const std::atomic<bool>& stop) {
  for (uint64_t i = 1; i <= rounds; ++i) {
    while (!arrived<kWay>(*box, i)) {
      if (stop.load(std::memory_order_relaxed)) return;
    }
    __atomic_store_n(&box->answer, i, __ATOMIC_RELEASE);
  }
}

template <Way kWay>
void row(uint32_t rounds) {
  void* memory = nullptr;
  CHECK(cudaHostAlloc(&memory, sizeof(Mailbox), cudaHostAllocMapped));
  auto* const box = static_cast<Mailbox*>(memory);
  uint64_t* const ns = device_array<uint64_t>(2);
  std::vector<double> each;
  for (int repeat = 0; repeat < 5; ++repeat) {
    *box = {};
    std::atomic<bool> stop{false};
    std::thread cpu([&] { answer<kWay>(box, rounds, stop); });
    hand_over<kWay><<<1, 1>>>(box, ns + 1, rounds, ns);
    const cudaError_t ended = cudaDeviceSynchronize();
    stop = true;
    cpu.join();
    CHECK(ended);
    uint64_t took = 0;
    CHECK(cudaMemcpy(&took, ns, sizeof(took), cudaMemcpyDeviceToHost));
    if (took == 0) {
      std::printf("proxy_floor: no answer of the CPU in 10 s\n");
      std::exit(1);
    }
    each.push_back(static_cast<double>(took) / (rounds - rounds / 8 + 1));
  }
  std::nth_element(each.begin(), each.begin() + 2, each.end());
  std::printf("{\"how\": \"%s\", \"ns\": %.0f}\n", kNames[static_cast<uint32_t>(kWay)], each[2]);
  CHECK(cudaFree(ns));
  CHECK(cudaFreeHost(memory));
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(cudaSetDevice(static_cast<int>(option(argc, argv, "--gpu", 0))));
  const uint32_t rounds = std::max(option(argc, argv, "--rounds", 10000), 16u);
  row<Way::kWord>(rounds);
  row<Way::kEntry>(rounds);
  row<Way::kShared>(rounds);
  row<Way::kMarked>(rounds);
  return 0;
}
