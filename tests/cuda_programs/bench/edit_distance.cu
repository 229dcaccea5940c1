// SPDX-License-Identifier: Apache-2.0
//
// The edit distance of two texts along diagonals: a block that meets after each, three diagonals in
// shared memory.
#include <string.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/cuda_programs/check.h"

constexpr int kMost = 128;

__global__ void distance(const char* a, int m, const char* b, int n, int* result) {
  __shared__ int diagonals[3][kMost + 1];
  const int i = threadIdx.x;  // a's first i letters
  for (int d = 0; d <= m + n; ++d) {
    int* const now = diagonals[d % 3];
    const int *const last = diagonals[(d + 2) % 3], *const before = diagonals[(d + 1) % 3];
    const int j = d - i;
    if (i <= m && j >= 0 && j <= n) {
      if (i == 0 || j == 0) {
        now[i] = i + j;
      } else {
        const int change = before[i - 1] + (a[i - 1] != b[j - 1]);
        now[i] = min(change, min(last[i - 1], last[i]) + 1);
      }
    }
    __syncthreads();
  }
  if (i == m) *result = diagonals[(m + n) % 3][m];
}

int on_host(const std::string& a, const std::string& b) {
  std::vector<int> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = (int)j;
  for (size_t i = 1; i <= a.size(); ++i) {
    int corner = row[0];
    row[0] = (int)i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const int above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, corner + (a[i - 1] != b[j - 1])});
      corner = above;
    }
  }
  return row.back();
}

int main() {
  char *a, *b;
  int* result;
  CHECK(cudaMallocManaged(&a, kMost));
  CHECK(cudaMallocManaged(&b, kMost));
  CHECK(cudaMallocManaged(&result, sizeof(int)));
  std::string first = "the bells of the old town", second = "a bell rung in the cold dawn";
  for (int round = 0; round < 3; ++round, first += second, second.erase(0, 5)) {
    first.resize(std::min<size_t>(first.size(), kMost - 1));
    memcpy(a, first.data(), first.size());
    memcpy(b, second.data(), second.size());
    distance<<<1, kMost>>>(a, (int)first.size(), b, (int)second.size(), result);
    CHECK(cudaDeviceSynchronize());
    EXPECT(*result == on_host(first, second));
  }
  return verdict("edit_distance");
}
