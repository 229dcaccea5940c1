// SPDX-License-Identifier: Apache-2.0
//
// A square matrix of doubles, dealt to the PEs by rows, becomes its transpose: the exchange of a
// distributed FFT. Each block packs a strip of columns into rows and puts them at once, so that
// packing and sending overlap.
//
//   transpose [--n 4096] [--strip 8 columns a block] [--threads 256] [--rounds 10]
#include "perf/apps/app.cuh"

namespace {

struct Matrix {
  double* from;    // rows x n
  double* packed;  // n x rows: the transpose of `from`
  double* to;      // rows x n
  uint32_t n;
  uint32_t rows;  // of a PE
};

/// What stands in row `row`, column `column` of the whole.
__host__ __device__ double element(uint32_t row, uint32_t column, uint32_t n, uint32_t round) {
  return static_cast<double>(row) * n + column + round;
}

__global__ void set(Matrix m, uint32_t first_row, uint32_t round) {
  for (uint32_t row = blockIdx.x; row < m.rows; row += gridDim.x) {
    for (uint32_t column = threadIdx.x; column < m.n; column += blockDim.x) {
      m.from[uint64_t{row} * m.n + column] = element(first_row + row, column, m.n, round);
    }
  }
}

/// Block b has columns [b * strip, (b + 1) * strip), which are rows of the peer that owns them.
__global__ void transpose(Matrix m, uint32_t strip, int me) {
  const uint32_t first = blockIdx.x * strip;
  for (uint32_t i = threadIdx.x; i < m.rows * strip; i += blockDim.x) {
    const uint32_t row = i / strip;
    const uint32_t column = first + i % strip;
    m.packed[uint64_t{column} * m.rows + row] = m.from[uint64_t{row} * m.n + column];
  }
  __syncthreads();
  const auto pe = static_cast<int>(first / m.rows);
  for (uint32_t k = 0; k < strip; ++k) {
    const uint64_t row_there = (first + k) % m.rows;
    nvshmemx_putmem_nbi_block(m.to + row_there * m.n + static_cast<uint32_t>(me) * m.rows,
                              m.packed + uint64_t{first + k} * m.rows, m.rows * sizeof(double), pe);
  }
  if (threadIdx.x == 0) nvshmem_quiet();
}

__global__ void compare(Matrix m, uint32_t first_row, uint32_t round, unsigned long long* wrong) {
  unsigned long long mine = 0;
  for (uint32_t row = blockIdx.x; row < m.rows; row += gridDim.x) {
    for (uint32_t column = threadIdx.x; column < m.n; column += blockDim.x) {
      const double want = element(column, first_row + row, m.n, round);
      mine += m.to[uint64_t{row} * m.n + column] != want ? 1 : 0;
    }
  }
  if (mine != 0) atomicAdd(wrong, mine);
}

}  // namespace

int main(int argc, char** argv) {
  app::AppOptions options(argc, argv);
  const auto n = static_cast<uint32_t>(options.number("n", 4096));
  const auto strip = static_cast<uint32_t>(options.number("strip", 8));
  const auto threads = static_cast<uint32_t>(options.number("threads", 256));
  const auto rounds = static_cast<uint32_t>(options.number("rounds", 10));
  options.done();
  app::begin();
  const auto pes = static_cast<uint32_t>(nvshmem_n_pes());
  const int me = nvshmem_my_pe();
  if (n % pes != 0 || n / pes % strip != 0) {
    options.refuse("--n is to be a multiple of --strip times the number of PEs");
  }
  const uint32_t rows = n / pes;
  const uint64_t count = uint64_t{rows} * n;
  const Matrix m{app::symmetric<double>(count), app::symmetric<double>(count),
                 app::symmetric<double>(count), n, rows};
  const uint32_t first_row = static_cast<uint32_t>(me) * rows;
  unsigned long long* wrong = nullptr;
  CUDA_CHECK(cudaMalloc(&wrong, sizeof *wrong));
  CUDA_CHECK(cudaMemset(wrong, 0, sizeof *wrong));
  double best = 1e9;
  for (uint32_t round = 0; round < rounds; ++round) {
    set<<<64, threads>>>(m, first_row, round);
    const double took = app::seconds([&] { transpose<<<n / strip, threads>>>(m, strip, me); });
    best = took < best ? took : best;
    compare<<<64, threads>>>(m, first_row, round, wrong);
    CUDA_CHECK(cudaDeviceSynchronize());
  }
  unsigned long long errors = 0;
  CUDA_CHECK(cudaMemcpy(&errors, wrong, sizeof errors, cudaMemcpyDeviceToHost));
  CUDA_CHECK(cudaFree(wrong));
  const double sent = static_cast<double>(count) * sizeof(double) * (pes - 1) / pes;
  return app::finish("transpose",
                     app::row("\"n\": %u, \"strip\": %u, \"us\": %.1f, \"gbytes_per_s\": %.2f", n,
                              strip, best * 1e6, sent / best * 1e-9),
                     errors);
}
