// SPDX-License-Identifier: Apache-2.0
//
// A sparse matrix in compressed rows times a vector: a thread for each row, and a warp for each.
#include <math.h>

#include <vector>

#include "tests/cuda_programs/check.h"

constexpr int kRows = 150, kColumns = 120;

__global__ void by_thread(const int* rows, const int* columns, const double* values,
                          const double* x, double* y) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= kRows) return;
  double sum = 0;
  for (int i = rows[row]; i < rows[row + 1]; ++i) sum += values[i] * x[columns[i]];
  y[row] = sum;
}

__global__ void by_warp(const int* rows, const int* columns, const double* values,
                        const double* __restrict__ x, double* y) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x & 31;
  if (row >= kRows) return;
  double sum = 0;
  for (int i = rows[row] + lane; i < rows[row + 1]; i += 32) {
    sum += values[i] * __ldg(&x[columns[i]]);
  }
  for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffff, sum, step);
  if (lane == 0) y[row] = sum;
}

template <typename T>
T* on_device(const std::vector<T>& host) {
  T* data;
  CHECK(cudaMalloc(&data, host.size() * sizeof(T)));
  CHECK(cudaMemcpy(data, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
  return data;
}

int main() {
  std::vector<int> rows = {0}, columns;
  std::vector<double> values, x(kColumns), expected(kRows), y(kRows);
  for (int i = 0; i < kColumns; ++i) x[i] = cos(i);
  for (int row = 0; row < kRows; ++row) {
    for (int i = 0; i < row % 71; ++i) {
      columns.push_back((row * 13 + i * 7) % kColumns);
      values.push_back(1.0 / (1 + row + i));
      expected[row] += values.back() * x[columns.back()];
    }
    rows.push_back((int)columns.size());
  }
  const int *const on_rows = on_device(rows), *const on_columns = on_device(columns);
  const double *const on_values = on_device(values), *const on_x = on_device(x);
  double* const on_y = on_device(y);
  for (int way = 0; way < 2; ++way) {
    if (way == 0) by_thread<<<3, 64>>>(on_rows, on_columns, on_values, on_x, on_y);
    if (way == 1) by_warp<<<(kRows + 3) / 4, 128>>>(on_rows, on_columns, on_values, on_x, on_y);
    CHECK(cudaMemcpy(y.data(), on_y, kRows * sizeof(double), cudaMemcpyDeviceToHost));
    for (int row = 0; row < kRows; ++row) EXPECT(fabs(y[row] - expected[row]) < 1e-12);
    CHECK(cudaMemset(on_y, 0, kRows * sizeof(double)));
  }
  return verdict("sparse_product");
}
