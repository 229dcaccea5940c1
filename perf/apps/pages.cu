// SPDX-License-Identifier: Apache-2.0
//
// Pages of a key-value cache move from one GPU to another, as where prompts and tokens are served
// by different GPUs: page by page, from and to places in any order, each announced by a signal.
// Even PEs send, odd ones receive.
//
//   pages [--bytes 32768 a page] [--pages 4096] [--blocks 32] [--threads 256] [--rounds 10]
#include <numeric>

#include "perf/apps/app.cuh"

namespace {

struct Pool {
  uint8_t* pages;
  uint64_t* arrived;       // by page: the last round that has brought it
  const uint32_t* source;  // page i of the sequence lies there at the sender,
  const uint32_t* target;  // and goes there at the receiver
  uint32_t count;
  uint32_t bytes;
};

__global__ void send(Pool pool, uint64_t round, int pe) {
  for (uint32_t i = blockIdx.x; i < pool.count; i += gridDim.x) {
    nvshmemx_putmem_signal_nbi_block(pool.pages + uint64_t{pool.target[i]} * pool.bytes,
                                     pool.pages + uint64_t{pool.source[i]} * pool.bytes, pool.bytes,
                                     pool.arrived + pool.target[i], round, NVSHMEM_SIGNAL_SET, pe);
  }
  __syncthreads();
  if (threadIdx.x == 0) nvshmem_quiet();
}

/// The first and the last word of a page.
__device__ volatile uint64_t* end_of(const Pool& pool, uint32_t page, bool last) {
  uint8_t* const begin = pool.pages + uint64_t{page} * pool.bytes;
  return reinterpret_cast<volatile uint64_t*>(last ? begin + pool.bytes - 8 : begin);
}

/// Both ends of each page say the round.
__global__ void stamp(Pool pool, uint64_t round) {
  for (uint32_t i = threadIdx.x; i < pool.count; i += blockDim.x) {
    *end_of(pool, i, false) = round;
    *end_of(pool, i, true) = round;
  }
}

/// Counts pages that are not there although their signal is.
__global__ void receive(Pool pool, uint64_t round, unsigned long long* wrong) {
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < pool.count;
       i += gridDim.x * blockDim.x) {
    nvshmem_signal_wait_until(pool.arrived + i, NVSHMEM_CMP_GE, round);
    if (*end_of(pool, i, false) != round || *end_of(pool, i, true) != round) atomicAdd(wrong, 1ull);
  }
}

/// 0, 1, ... count - 1 in an order of its own for each seed.
std::vector<uint32_t> shuffled(uint32_t count, uint64_t seed) {
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  for (uint32_t i = count - 1; i > 0; --i) {
    std::swap(order[i], order[app::mixed(seed + i) % (i + 1)]);
  }
  return order;
}

uint8_t byte_of(uint32_t page, uint64_t at) { return static_cast<uint8_t>(page * 131 + at * 7); }

uint32_t* on_gpu(const std::vector<uint32_t>& numbers) {
  uint32_t* copy = nullptr;
  CUDA_CHECK(cudaMalloc(&copy, numbers.size() * sizeof(uint32_t)));
  CUDA_CHECK(
      cudaMemcpy(copy, numbers.data(), numbers.size() * sizeof(uint32_t), cudaMemcpyHostToDevice));
  return copy;
}

}  // namespace

int main(int argc, char** argv) {
  app::AppOptions options(argc, argv);
  const auto bytes = static_cast<uint32_t>(options.number("bytes", 32 << 10, 16));
  const auto count = static_cast<uint32_t>(options.number("pages", 4096));
  const auto blocks = static_cast<uint32_t>(options.number("blocks", 32));
  const auto threads = static_cast<uint32_t>(options.number("threads", 256));
  const long rounds = options.number("rounds", 10);
  options.done();
  app::begin();
  const int me = nvshmem_my_pe();
  if (nvshmem_n_pes() % 2 != 0) options.refuse("an even number of PEs");
  if (bytes % 8 != 0) options.refuse("--bytes takes a multiple of 8");
  const bool sends = me % 2 == 0;
  const auto source = shuffled(count, 1);
  const auto target = shuffled(count, 1u << 20);
  const Pool pool{app::symmetric<uint8_t>(uint64_t{count} * bytes),
                  app::symmetric<uint64_t>(count),
                  on_gpu(source),
                  on_gpu(target),
                  count,
                  bytes};
  std::vector<uint8_t> data(uint64_t{count} * bytes);
  if (sends) {
    for (uint64_t i = 0; i < data.size(); ++i) {
      data[i] = byte_of(static_cast<uint32_t>(i / bytes), i % bytes);
    }
    CUDA_CHECK(cudaMemcpy(pool.pages, data.data(), data.size(), cudaMemcpyHostToDevice));
  }
  unsigned long long* wrong = nullptr;
  CUDA_CHECK(cudaMalloc(&wrong, sizeof *wrong));
  CUDA_CHECK(cudaMemset(wrong, 0, sizeof *wrong));
  double best = 1e9;
  for (long round = 1; round <= rounds; ++round) {
    if (sends) stamp<<<1, threads>>>(pool, static_cast<uint64_t>(round));
    const double took = app::seconds([&] {
      if (sends) send<<<blocks, threads>>>(pool, static_cast<uint64_t>(round), me + 1);
      if (!sends) receive<<<1, threads>>>(pool, static_cast<uint64_t>(round), wrong);
    });
    best = took < best ? took : best;
  }
  unsigned long long errors = 0;
  CUDA_CHECK(cudaMemcpy(&errors, wrong, sizeof errors, cudaMemcpyDeviceToHost));
  CUDA_CHECK(cudaFree(wrong));
  if (!sends) {
    CUDA_CHECK(cudaMemcpy(data.data(), pool.pages, data.size(), cudaMemcpyDeviceToHost));
    for (uint32_t i = 0; i < count; ++i) {
      for (uint64_t at = 8; at < bytes - 8; ++at) {
        errors += data[uint64_t{target[i]} * bytes + at] != byte_of(source[i], at) ? 1 : 0;
      }
    }
  }
  return app::finish(
      "pages",
      app::row("\"bytes\": %u, \"pages\": %u, \"blocks\": %u, \"us\": %.1f, "
               "\"gbytes_per_s\": %.2f",
               bytes, count, blocks, best * 1e6, static_cast<double>(count) * bytes / best * 1e-9),
      errors);
}
