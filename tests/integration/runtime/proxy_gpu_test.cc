// SPDX-License-Identifier: Apache-2.0
//
// Memory of a GPU, which is a stand-in, and queues that a CPU thread serves: the software NIC's
// engine on the CPU has what lies there copied. Hazard: code of the engine that takes an address of
// a GPU for the host's; here it faults.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/gpu_job.h"
#include "tests/support/require.h"

namespace peal {
namespace {

constexpr size_t kWords = 40'000;  // of several packets

/// What each PE does to the next one's memory, which begins with 16 words that are its own.
PEAL_KERNEL all_operations(Context ctx, uint64_t* words, Status* ended) {
  const int next = (my_pe(ctx) + 1) % n_pes(ctx);
  const auto me = static_cast<uint64_t>(my_pe(ctx));
  auto* const halves = reinterpret_cast<uint32_t*>(words + 4);
  uint64_t* const data = words + 16;
  Status s = barrier_all(ctx);
  const auto keep = [&](Status one) { s = s == Status::kOk ? one : s; };
  keep(p(ctx, words, me + 1, next));
  keep(atomic_add(ctx, words + 1, 5, next));
  keep(atomic_fetch_add(ctx, words + 2, 7, next).status);
  keep(atomic_compare_swap(ctx, words + 3, 0, me + 9, next).status);
  keep(atomic_add(ctx, halves, 3u, next));
  keep(atomic_or(ctx, halves + 1, 0x30u, next));
  keep(put_signal(ctx, data, data + kWords, kWords, Signal::add(words + 5, 1, next)));
  keep(wait_until(ctx, words + 5, Compare::kEq, 1));
  keep(get(ctx, data + 2 * kWords, data, kWords, next));
  const auto got = g(ctx, words + 1, next);
  keep(got.status);
  words[6] = got.value;
  keep(barrier_all(ctx));
  *ended = s;
}

/// 0 if all of that has come about at this PE.
int look_at_operations(Runtime& pe) {
  auto* const words = pe.allocate<uint64_t>(16 + 3 * kWords);
  auto* const ended = pe.allocate<Status>(1);
  const auto me = static_cast<uint64_t>(pe.my_pe());
  const auto n = static_cast<uint64_t>(pe.n_pes());
  const std::vector<uint64_t> nothing(16, 0);
  std::vector<uint64_t> sent(kWords);
  for (size_t i = 0; i < kWords; ++i) sent[i] = i * 1000 + me;
  pe.copy_in(words, nothing.data(), 16 * sizeof(uint64_t));
  pe.copy_in(words + 16 + kWords, sent.data(), kWords * sizeof(uint64_t));
  launch({}, all_operations, pe.context(), words, ended).wait();
  pe.check();
  Status status = Status::kAborted;
  pe.copy_out(&status, ended, sizeof(status));
  std::vector<uint64_t> seen(16 + 3 * kWords);
  pe.copy_out(seen.data(), words, seen.size() * sizeof(uint64_t));
  const uint64_t before = (me + n - 1) % n;
  const uint64_t halves = uint64_t{0x30} << 32 | 3;
  const std::vector<uint64_t> expected = {before + 1, 5, 7, before + 9, halves, 1, 5};
  int result = status == Status::kOk ? 0 : 10 + static_cast<int>(status);
  for (size_t i = 0; i < expected.size(); ++i) {
    if (seen[i] != expected[i]) result = 30 + static_cast<int>(i);
  }
  for (size_t i = 0; i < kWords; ++i) {
    if (seen[16 + i] != i * 1000 + before) result = 40;           // from the PE before
    if (seen[16 + 2 * kWords + i] != i * 1000 + me) result = 41;  // back from the next: mine
  }
  pe.barrier();
  return result;
}

class ProxyOnGpu : public RuntimeOnGpu {
 protected:
  ProxyOnGpu() { config_.transport = TransportKind::kProxy; }
};

TEST_F(ProxyOnGpu, DoesAllOperationsOnMemoryOfTheGpu) {
  on_gpus(3, [&](Runtime& pe) {
    if (pe.transport() != std::string("proxy") || pe.nic() != "softnic-cpu") return 50;
    fake_.copies = 0;
    const int result = look_at_operations(pe);
    return result != 0 ? result : fake_.copies < 10 ? 51 : 0;
  });
}

constexpr uint32_t kTurns = 20;

/// All lanes of all PEs count in two halves of a word of PE 0's.
PEAL_KERNEL count_together(Context ctx, uint32_t* halves) {
  Status s = Status::kOk;
  for (uint32_t i = 0; i < kTurns && s == Status::kOk; ++i) {
    s = atomic_add(ctx, halves, 1u, 0);
    if (s == Status::kOk) s = atomic_fetch_add(ctx, halves + 1, 2u, 0).status;
  }
  (void)quiet(ctx);
}

// Atomics on 4 bytes are loops of compare-and-swap on 8, which the engine executes by two copies.
TEST_F(ProxyOnGpu, CountsTogetherInHalvesOfAWord) {
  on_gpus(4, [&](Runtime& pe) {
    constexpr uint32_t kLanes = 8;
    auto* const halves = static_cast<uint32_t*>(pe.calloc(2, sizeof(uint32_t)));
    pe.barrier();
    launch({.threads = kLanes}, count_together, pe.context(), halves).wait();
    pe.check();
    pe.barrier();
    uint32_t seen[2];
    pe.copy_out(seen, halves, sizeof(seen));
    pe.barrier();
    if (pe.my_pe() != 0) return 0;
    const uint32_t all = kLanes * kTurns * static_cast<uint32_t>(pe.n_pes());
    return seen[0] == all && seen[1] == 2 * all ? 0 : 60;
  });
}

}  // namespace
}  // namespace peal
