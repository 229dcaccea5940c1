// SPDX-License-Identifier: Apache-2.0
//
// A picture turned about its middle by a texture with linear filtering and clamped borders.
#include <math.h>
#include <string.h>

#include <vector>

#include "tests/cuda_programs/check.h"

constexpr int kWidth = 40, kHeight = 24;

__host__ __device__ inline float2 source_of(int x, int y, float angle) {
  const float u = (x + 0.5f) / kWidth - 0.5f, v = (y + 0.5f) / kHeight - 0.5f;
  return make_float2(u * cosf(angle) - v * sinf(angle) + 0.5f,
                     v * cosf(angle) + u * sinf(angle) + 0.5f);
}

__global__ void turn(float* out, cudaTextureObject_t texture, float angle) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= kWidth || y >= kHeight) return;
  const float2 from = source_of(x, y, angle);
  out[y * kWidth + x] = tex2D<float>(texture, from.x, from.y);
}

int main() {
  std::vector<float> picture(kWidth * kHeight), out(picture.size());
  for (int i = 0; i < kWidth * kHeight; ++i)
    picture[i] = sinf(i % kWidth * 0.2f) + i / kWidth * 0.1f;
  const cudaChannelFormatDesc channels =
      cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
  cudaArray_t array;
  CHECK(cudaMallocArray(&array, &channels, kWidth, kHeight));
  const size_t pitch = kWidth * sizeof(float);
  CHECK(cudaMemcpy2DToArray(array, 0, 0, picture.data(), pitch, pitch, kHeight,
                            cudaMemcpyHostToDevice));
  cudaResourceDesc resource;
  cudaTextureDesc how;
  memset(&resource, 0, sizeof resource);
  memset(&how, 0, sizeof how);
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  how.addressMode[0] = how.addressMode[1] = cudaAddressModeClamp;
  how.filterMode = cudaFilterModeLinear;
  how.readMode = cudaReadModeElementType;
  how.normalizedCoords = 1;
  cudaTextureObject_t texture = 0;
  CHECK(cudaCreateTextureObject(&texture, &resource, &how, nullptr));
  float* turned;
  CHECK(cudaMalloc(&turned, out.size() * sizeof(float)));
  const float angle = 0.5f;
  turn<<<dim3(3, 3), dim3(16, 8)>>>(turned, texture, angle);
  CHECK(cudaMemcpy(out.data(), turned, out.size() * sizeof(float), cudaMemcpyDeviceToHost));
  const auto at = [&](int x, int y) {
    x = x < 0 ? 0 : x >= kWidth ? kWidth - 1 : x;
    y = y < 0 ? 0 : y >= kHeight ? kHeight - 1 : y;
    return picture[y * kWidth + x];
  };
  for (int i = 0; i < kWidth * kHeight; ++i) {
    const float2 from = source_of(i % kWidth, i / kWidth, angle);
    const float x = from.x * kWidth - 0.5f, y = from.y * kHeight - 0.5f;
    const int left = (int)floorf(x), top = (int)floorf(y);
    const float a = x - left, b = y - top;
    const float expected = (1 - b) * ((1 - a) * at(left, top) + a * at(left + 1, top)) +
                           b * ((1 - a) * at(left, top + 1) + a * at(left + 1, top + 1));
    EXPECT(fabsf(out[i] - expected) < 0.01f);
  }
  CHECK(cudaDestroyTextureObject(texture));
  CHECK(cudaFreeArray(array));
  return verdict("texture_turn");
}
