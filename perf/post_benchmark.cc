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
  mlx5::SendQueue q{};

  Queue() {
    std::memset(&cqe, 0xff, sizeof(cqe));
    q.blocks = blocks.get();
    q.doorbell_record = &record;
    q.doorbell = &doorbell;
    q.cqe = &cqe;
    q.stop = &stop;
    q.mask = 1023;
    q.qpn_shifted = Be32{0x12345600u};
  }
};

// Kernels post in loops, with the put inlined: so do these.
template <Reach R>
[[gnu::noinline]] void post_put(mlx5::SendQueue& q, const mlx5::Remote& to, const mlx5::Local& from,
                                uint32_t bytes) {
  for (int i = 0; i < kBatch; ++i) {
    ibgda::post<R>(q, ibgda::Alone{},
                   [&](const mlx5::Header& h) { return mlx5::compose_write(h, to, from, bytes); });
    q.completed = q.reserved;  // a NIC of infinite speed
  }
}

template <Reach R>
[[gnu::noinline]] void post_inline(mlx5::SendQueue& q, const mlx5::Remote& to, uint64_t value) {
  for (int i = 0; i < kBatch; ++i, ++value) {
    const uint32_t payload[3] = {static_cast<uint32_t>(value), static_cast<uint32_t>(value >> 32),
                                 0};
    ibgda::post<R>(q, ibgda::Alone{}, [&](const mlx5::Header& h) {
      return mlx5::compose_write_inline(h, to, payload, 8);
    });
    q.completed = q.reserved;
  }
}

template <Reach R>
void put(benchmark::State& state) {
  Queue queue;
  const mlx5::Remote to{4096, Be32{0x1234u}};
  const mlx5::Local from{8192, Be32{0x5678u}};
  for (auto _ : state) post_put<R>(queue.q, to, from, 64);
  state.SetItemsProcessed(state.iterations() * kBatch);
}

template <Reach R>
void put_inline(benchmark::State& state) {
  Queue queue;
  const mlx5::Remote to{4096, Be32{0x1234u}};
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
