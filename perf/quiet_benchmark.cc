// SPDX-License-Identifier: Apache-2.0
//
// What quiet costs beside waiting: one put to one of many PEs, complete at once, and then quiet by
// one thread. Without a NIC. "all" looks at every queue of the context, as quiet did before queues
// had marks: docs/performance.md.
#include <benchmark/benchmark.h>

#include <cstring>
#include <vector>

#include "device/api.h"

namespace {

using namespace peal;

constexpr uint32_t kQueuesPerPeer = 4;
constexpr uint32_t kDepth = 128;

/// A context of PE 0, whose NIC is of infinite speed.
struct Job {
  explicit Job(uint32_t n_pes)
      : queues(n_pes * kQueuesPerPeer), marks(mark_words(kQueuesPerPeer, n_pes)), blocks(kDepth) {
    std::memset(static_cast<void*>(&cqe), 0xff, sizeof cqe);
    for (uint32_t i = 0; i < queues.size(); ++i) {
      SendQueue& q = queues[i];
      q.nic.blocks = blocks.data();
      q.nic.doorbell_record = &record;
      q.nic.doorbell = &doorbell;
      q.nic.cqe = &cqe;
      q.stop = &stop;
      q.mask = kDepth - 1;
      q.reserved = kUnmarked;
      q.ready = ready.data();
      q.marks = &marks[i / 64];
      q.mark_bit = uint64_t{1} << i % 64;
    }
    ctx.n_pes = static_cast<int32_t>(n_pes);
    ctx.queues_per_peer = kQueuesPerPeer;
    ctx.rails = 1;
    ctx.queues = reinterpret_cast<std::byte*>(queues.data());
    ctx.queue_stride = sizeof(SendQueue);
    ctx.marks = marks.data();
    ctx.state = &state;
    state.fields = ctx;
  }

  void put(SendQueue& q) {
    const nic::Remote to{0, mlx5::key(1)};
    nic::post<Reach::kGpu>(q, nic::Alone{}, nic::Write{to, {}, 64});
    q.completed = posted_last(q.posted) + 1;
  }

  std::vector<SendQueue> queues;
  std::vector<uint64_t> marks;
  std::vector<mlx5::Wqebb> blocks;
  std::vector<uint32_t> ready = std::vector<uint32_t>(kDepth);
  mlx5::DoorbellRecord record{};
  uint64_t doorbell = 0;
  mlx5::Cqe cqe{};
  uint32_t stop = 0;
  ContextState state{};
  Context ctx{};
};

/// Always the same queue: `again`. Else the next one each time.
template <bool kAgain, bool kAll>
void quiet_after_put(benchmark::State& state) {
  Job job(static_cast<uint32_t>(state.range(0)));
  job.state.look_everywhere = kAll ? 1 : 0;
  size_t next = job.queues.size() / 2;
  for (auto _ : state) {
    job.put(job.queues[next]);
    if (quiet(job.ctx) != Status::kOk) state.SkipWithError("quiet failed");
    if (!kAgain) next = (next + 1) % job.queues.size();
  }
}

BENCHMARK(quiet_after_put<true, false>)->Name("put, quiet; PEs")->Arg(2)->Arg(64)->Arg(1024);
BENCHMARK(quiet_after_put<false, false>)
    ->Name("put to another, quiet; PEs")
    ->Arg(2)
    ->Arg(64)
    ->Arg(1024);
BENCHMARK(quiet_after_put<true, true>)->Name("put, quiet, all; PEs")->Arg(2)->Arg(64)->Arg(1024);

}  // namespace

BENCHMARK_MAIN();
