// SPDX-License-Identifier: Apache-2.0
//
// Random updates of a table that all PEs hold a part of (the HPC Challenge's RandomAccess): each
// thread xors random words of random PEs. Checked: the xor of all words is that of all updates, and
// the same updates once more bring back what was there.
//
//   gups [--words 2^20 a PE] [--updates 256 a thread] [--blocks 132] [--threads 256]
#include "perf/apps/app.cuh"

namespace {

using Word = unsigned long long;

struct Table {
  uint64_t* words;
  uint64_t mask;  // words of a PE - 1
  uint32_t log_words;
  uint32_t pes;
};

__global__ void update(Table table, uint64_t seed, uint32_t updates) {
  const uint64_t thread = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (uint32_t i = 0; i < updates; ++i) {
    const uint64_t random = app::mixed(seed + thread * updates + i);
    const auto pe = static_cast<int>((random >> table.log_words) % table.pes);
    nvshmem_uint64_atomic_xor(table.words + (random & table.mask), random | 1, pe);
  }
  __syncthreads();
  if (threadIdx.x == 0) nvshmem_quiet();
}

std::vector<uint64_t> on_host(const Table& table) {
  std::vector<uint64_t> words(table.mask + 1);
  CUDA_CHECK(cudaMemcpy(words.data(), table.words, words.size() * sizeof(uint64_t),
                        cudaMemcpyDeviceToHost));
  return words;
}

}  // namespace

int main(int argc, char** argv) {
  app::AppOptions options(argc, argv);
  const auto words = static_cast<uint64_t>(options.number("words", 1 << 20));
  const auto updates = static_cast<uint32_t>(options.number("updates", 256));
  const auto blocks = static_cast<uint32_t>(options.number("blocks", 132));
  const auto threads = static_cast<uint32_t>(options.number("threads", 256));
  options.done();
  if ((words & (words - 1)) != 0) options.refuse("--words takes a power of two");
  app::begin();
  uint32_t log_words = 0;
  while (uint64_t{1} << log_words < words) ++log_words;
  const Table table{app::symmetric<uint64_t>(words), words - 1, log_words,
                    static_cast<uint32_t>(nvshmem_n_pes())};
  const uint64_t all = uint64_t{blocks} * threads * updates;
  const uint64_t seed = all * static_cast<uint64_t>(nvshmem_my_pe());
  const auto run = [&] {
    return app::seconds([&] { update<<<blocks, threads>>>(table, seed, updates); });
  };
  const double first = run();
  uint64_t made = 0;  // less what the words say, so zero where all updates have come
  for (uint64_t i = 0; i < all; ++i) made ^= app::mixed(seed + i) | 1;
  for (const uint64_t word : on_host(table)) made ^= word;
  uint64_t errors = app::xor_of_all(made) != 0 ? 1 : 0;
  const double second = run();
  const double best = first < second ? first : second;
  for (const uint64_t word : on_host(table)) errors += word != 0 ? 1 : 0;
  return app::finish("gups",
                     app::row("\"words\": %llu, \"blocks\": %u, \"threads\": %u, \"gups\": %.4f",
                              static_cast<Word>(words), blocks, threads,
                              static_cast<double>(all) * table.pes / best * 1e-9),
                     errors);
}
