// SPDX-License-Identifier: Apache-2.0
//
// The Mandelbrot set in a picture with a pitch, threads in two dimensions.
#include <vector>

#include "tests/cuda_programs/check.h"

constexpr int kWidth = 60, kHeight = 40, kMost = 100;

__host__ __device__ inline int iterations(double cx, double cy) {
  double x = 0, y = 0;
  int count = 0;
  for (; count < kMost && x * x + y * y < 4; ++count) {
    const double was = x;
    x = x * x - y * y + cx;
    y = 2 * was * y + cy;
  }
  return count;
}

__global__ void draw(unsigned char* picture, size_t pitch) {
  const int x = blockDim.x * blockIdx.x + threadIdx.x, y = blockDim.y * blockIdx.y + threadIdx.y;
  if (x >= kWidth || y >= kHeight) return;
  picture[y * pitch + x] = (unsigned char)iterations(-2 + x * 0.05, -1 + y * 0.05);
}

int main() {
  unsigned char* picture;
  size_t pitch;
  CHECK(cudaMallocPitch(&picture, &pitch, kWidth, kHeight));
  const dim3 threads(16, 4), blocks((kWidth + 15) / 16, (kHeight + 3) / 4);
  draw<<<blocks, threads>>>(picture, pitch);
  std::vector<unsigned char> host(kWidth * kHeight);
  CHECK(cudaMemcpy2D(host.data(), kWidth, picture, pitch, kWidth, kHeight, cudaMemcpyDeviceToHost));
  int different = 0;  // a fused multiplication moves a point at the set's edge
  for (int y = 0; y < kHeight; ++y) {
    for (int x = 0; x < kWidth; ++x) {
      different += host[y * kWidth + x] != iterations(-2 + x * 0.05, -1 + y * 0.05);
    }
  }
  EXPECT(different <= 3);
  EXPECT(host[20 * kWidth + 40] == kMost && host[0] < 5);
  CHECK(cudaFree(picture));
  return verdict("mandelbrot");
}
