// SPDX-License-Identifier: Apache-2.0
//
// The game of life on a torus of bits: 32 cells in a word, neighbours added in parallel.
#include <utility>
#include <vector>

#include "tests/cuda_programs/check.h"

constexpr int kWords = 3, kWidth = 32 * kWords, kHeight = 40, kSteps = 20;

__device__ inline unsigned word(const unsigned* cells, int x, int y) {
  return cells[(y + kHeight) % kHeight * kWords + (x + kWords) % kWords];
}

// Adds one bit to each of 32 counters of three bits that stop at 7.
struct Counters {
  unsigned ones = 0, twos = 0, fours = 0;
  __device__ void add(unsigned bits) {
    const unsigned carry = ones & bits;
    ones ^= bits;
    fours |= twos & carry;
    twos ^= carry;
  }
};

__global__ void step(const unsigned* in, unsigned* out) {
  const int x = threadIdx.x, y = blockIdx.x * blockDim.y + threadIdx.y;
  if (y >= kHeight) return;
  Counters counters;
  for (int dy = -1; dy <= 1; ++dy) {
    const unsigned left = word(in, x - 1, y + dy), here = word(in, x, y + dy);
    const unsigned right = word(in, x + 1, y + dy);
    counters.add(__funnelshift_l(left, here, 1));
    counters.add(__funnelshift_r(here, right, 1));
    if (dy != 0) counters.add(here);
  }
  const unsigned alive = word(in, x, y);
  out[y * kWords + x] = counters.twos & ~counters.fours & (counters.ones | alive);
}

int main() {
  unsigned *in, *out;
  CHECK(cudaMallocManaged(&in, kWords * kHeight * sizeof(unsigned)));
  CHECK(cudaMallocManaged(&out, kWords * kHeight * sizeof(unsigned)));
  for (int i = 0; i < kWords * kHeight; ++i) in[i] = i * 2654435761u ^ (i * 40503u << 7);
  std::vector<char> cells(kWidth * kHeight), next(cells.size());
  for (int i = 0; i < kWidth * kHeight; ++i) cells[i] = in[i / 32] >> (i % 32) & 1;
  for (int s = 0; s < kSteps; ++s) {
    step<<<(kHeight + 15) / 16, dim3(kWords, 16)>>>(in, out);
    std::swap(in, out);
    for (int i = 0; i < kWidth * kHeight; ++i) {
      int neighbours = 0;
      for (int d = 0; d < 9; ++d) {
        const int x = (i + d % 3 - 1 + kWidth) % kWidth;
        const int row = (i / kWidth + d / 3 - 1 + kHeight) % kHeight;
        const int column = (i % kWidth + d % 3 - 1 + kWidth) % kWidth;
        (void)x;
        neighbours += d == 4 ? 0 : cells[row * kWidth + column];
      }
      next[i] = neighbours == 3 || (neighbours == 2 && cells[i]);
    }
    cells.swap(next);
  }
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < kWidth * kHeight; ++i) EXPECT((in[i / 32] >> (i % 32) & 1) == cells[i]);
  return verdict("life");
}
