// SPDX-License-Identifier: Apache-2.0
//
// A product of matrices by tiles in shared memory, of any size; a template over the tile.
#include <vector>

#include "tests/cuda_programs/check.h"

template <int kTile, typename T>
__global__ void multiply(const T* __restrict__ a, const T* __restrict__ b, T* __restrict__ c, int m,
                         int n, int k) {
  __shared__ T of_a[kTile][kTile], of_b[kTile][kTile + 1];
  const int row = blockIdx.y * kTile + threadIdx.y, column = blockIdx.x * kTile + threadIdx.x;
  T sum = 0;
  for (int first = 0; first < k; first += kTile) {
    const int x = first + threadIdx.x, y = first + threadIdx.y;
    of_a[threadIdx.y][threadIdx.x] = row < m && x < k ? a[row * k + x] : T(0);
    of_b[threadIdx.y][threadIdx.x] = y < k && column < n ? b[y * n + column] : T(0);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kTile; ++i) sum += of_a[threadIdx.y][i] * of_b[i][threadIdx.x];
    __syncthreads();
  }
  if (row < m && column < n) c[row * n + column] = sum;
}

template <int kTile, typename T>
void try_out(int m, int n, int k) {
  std::vector<T> a(m * k), b(k * n), c(m * n);
  for (int i = 0; i < m * k; ++i) a[i] = T(i % 7) - 3;
  for (int i = 0; i < k * n; ++i) b[i] = T(i % 5) - 2;
  T *on_a, *on_b, *on_c;
  CHECK(cudaMalloc(&on_a, a.size() * sizeof(T)));
  CHECK(cudaMalloc(&on_b, b.size() * sizeof(T)));
  CHECK(cudaMalloc(&on_c, c.size() * sizeof(T)));
  CHECK(cudaMemcpy(on_a, a.data(), a.size() * sizeof(T), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(on_b, b.data(), b.size() * sizeof(T), cudaMemcpyHostToDevice));
  const dim3 threads(kTile, kTile), blocks((n + kTile - 1) / kTile, (m + kTile - 1) / kTile);
  multiply<kTile><<<blocks, threads>>>(on_a, on_b, on_c, m, n, k);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(c.data(), on_c, c.size() * sizeof(T), cudaMemcpyDeviceToHost));
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      T sum = 0;
      for (int x = 0; x < k; ++x) sum += a[i * k + x] * b[x * n + j];
      EXPECT(c[i * n + j] == sum);
    }
  }
  CHECK(cudaFree(on_a));
  CHECK(cudaFree(on_b));
  CHECK(cudaFree(on_c));
}

int main() {
  try_out<16, float>(40, 33, 50);
  try_out<8, double>(17, 24, 9);
  return verdict("matrix_shared");
}
