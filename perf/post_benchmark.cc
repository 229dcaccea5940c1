// SPDX-License-Identifier: Apache-2.0
//
// What posting a put costs the kernel, without a NIC: reserve, write, publish, ring on a queue with
// one owner.
//
// The bar is instructions, not time: they do not depend on the machine. perf/count_instructions.sh
// counts them with callgrind; docs/performance.md has bar and figure.
#include <benchmark/benchmark.h>

#include <cstring>
#include <memory>
#include <vector>

#include "device/rma.h"

namespace {

using namespace peal;

// perf/count_instructions.sh divides by their product.
constexpr int kBatch = 100;
constexpr int64_t kCalls = 10'000;

struct Queue {
  std::unique_ptr<mlx5::Wqebb[]> blocks = std::make_unique<mlx5::Wqebb[]>(1024);
  mlx5::DoorbellRecord record{};
  uint64_t doorbell = 0;
  mlx5::Cqe cqe{};
  uint32_t stop = 0;
  std::vector<uint32_t> ready = std::vector<uint32_t>(1024);
  SendQueue q{};

  Queue() {
    std::memset(&cqe, 0xff, sizeof(cqe));
    q.nic.blocks = blocks.get();
    q.nic.doorbell_record = &record;
    q.nic.doorbell = &doorbell;
    q.nic.cqe = &cqe;
    q.stop = &stop;
    q.mask = 1023;
    q.ready = ready.data();
    q.nic.qpn_shifted = Be32{0x12345600u};
  }
};

// Kernels post in loops, with the put inlined: so do these.
template <Reach R>
[[gnu::noinline]] void post_put(SendQueue& q, const nic::Remote& to, const nic::Local& from,
                                uint32_t bytes) {
  for (int i = 0; i < kBatch; ++i) {
    nic::post<R>(q, nic::Alone{}, nic::Write{to, from, bytes});
    q.completed = q.reserved;  // a NIC of infinite speed
  }
}

template <Reach R>
[[gnu::noinline]] void post_inline(SendQueue& q, const nic::Remote& to, uint64_t value) {
  for (int i = 0; i < kBatch; ++i, ++value) {
    const uint32_t payload[3] = {static_cast<uint32_t>(value), static_cast<uint32_t>(value >> 32),
                                 0};
    nic::post<R>(q, nic::Alone{}, nic::write_inline(to, payload, 8));
    q.completed = q.reserved;
  }
}

template <Reach R>
void put(benchmark::State& state) {
  Queue queue;
  const nic::Remote to{4096, mlx5::key(0x1234)};
  const nic::Local from{8192, mlx5::key(0x5678)};
  for (auto _ : state) post_put<R>(queue.q, to, from, 64);
  state.SetItemsProcessed(state.iterations() * kBatch);
}

template <Reach R>
void put_inline(benchmark::State& state) {
  Queue queue;
  const nic::Remote to{4096, mlx5::key(0x1234)};
  uint64_t value = 0;
  for (auto _ : state) post_inline<R>(queue.q, to, ++value);
  state.SetItemsProcessed(state.iterations() * kBatch);
}

BENCHMARK(put<Reach::kLane>)->Name("put, exclusive queue")->Iterations(kCalls);
BENCHMARK(put<Reach::kGpu>)->Name("put, shared queue")->Iterations(kCalls);
BENCHMARK(put_inline<Reach::kLane>)->Name("8-byte inline put, exclusive queue")->Iterations(kCalls);
BENCHMARK(put_inline<Reach::kGpu>)->Name("8-byte inline put, shared queue")->Iterations(kCalls);

}  // namespace

BENCHMARK_MAIN();
