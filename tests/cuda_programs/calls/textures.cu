// SPDX-License-Identifier: Apache-2.0
//
// Texture objects on linear memory, on rows with a pitch and on arrays: what is read where, by each
// filter and address mode.
#include <string.h>

#include "tests/cuda_programs/check.h"

constexpr int kWidth = 8, kHeight = 4;

__global__ void read_linear(cudaTextureObject_t bytes, cudaTextureObject_t pairs, float* out) {
  out[0] = tex1Dfetch<unsigned char>(bytes, 3);
  out[1] = tex1Dfetch<unsigned char>(bytes, 100);  // beyond its end
  const int2 pair = tex1Dfetch<int2>(pairs, 1);
  out[2] = (float)pair.x;
  out[3] = (float)pair.y;
}

__global__ void sample(cudaTextureObject_t texture, const float2* where, float* out) {
  const int i = threadIdx.x;
  out[i] = tex2D<float>(texture, where[i].x, where[i].y);
}

__global__ void sample_fours(cudaTextureObject_t texture, float4* out) {
  *out = tex2D<float4>(texture, 1.5f, 0.5f);
}

__global__ void sample_row(cudaTextureObject_t texture, float* out) {
  out[threadIdx.x] = tex1D<float>(texture, threadIdx.x * 0.25f - 1);
}

cudaTextureDesc how(cudaTextureAddressMode mode, cudaTextureFilterMode filter, bool normalized) {
  cudaTextureDesc desc;
  memset(&desc, 0, sizeof desc);
  desc.addressMode[0] = desc.addressMode[1] = mode;
  desc.filterMode = filter;
  desc.readMode = cudaReadModeElementType;
  desc.normalizedCoords = normalized;
  desc.borderColor[0] = 0;
  return desc;
}

void linear() {
  unsigned char* bytes;
  int2* pairs;
  float* out;
  CHECK(cudaMallocManaged(&bytes, 100));
  CHECK(cudaMallocManaged(&pairs, 16));
  CHECK(cudaMallocManaged(&out, 4 * sizeof(float)));
  for (int i = 0; i < 100; ++i) bytes[i] = 2 * i;
  pairs[1] = make_int2(-5, 70000);
  cudaResourceDesc resource;
  memset(&resource, 0, sizeof resource);
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear.devPtr = bytes;
  resource.res.linear.desc = cudaCreateChannelDesc<unsigned char>();
  resource.res.linear.sizeInBytes = 100;
  const cudaTextureDesc desc = how(cudaAddressModeClamp, cudaFilterModePoint, false);
  cudaTextureObject_t of_bytes = 0, of_pairs = 0;
  CHECK(cudaCreateTextureObject(&of_bytes, &resource, &desc, nullptr));
  resource.res.linear.devPtr = pairs;
  resource.res.linear.desc = cudaCreateChannelDesc<int2>();
  resource.res.linear.sizeInBytes = 16;
  CHECK(cudaCreateTextureObject(&of_pairs, &resource, &desc, nullptr));
  read_linear<<<1, 1>>>(of_bytes, of_pairs, out);
  CHECK(cudaDeviceSynchronize());
  EXPECT(out[0] == 6 && out[1] == 0 && out[2] == -5 && out[3] == 70000);
  CHECK(cudaDestroyTextureObject(of_bytes));
  CHECK(cudaDestroyTextureObject(of_pairs));
#ifdef __PEAL_CC__
  cudaTextureDesc wrong = how(cudaAddressModeClamp, cudaFilterModeLinear, false);
  EXPECT(cudaCreateTextureObject(&of_bytes, &resource, &wrong, nullptr) ==
         cudaErrorInvalidFilterSetting);
  wrong.readMode = cudaReadModeNormalizedFloat;
  EXPECT(cudaCreateTextureObject(&of_bytes, &resource, &wrong, nullptr) ==
         cudaErrorInvalidNormSetting);
  resource.res.linear.devPtr = nullptr;
  EXPECT(cudaCreateTextureObject(&of_bytes, &resource, &desc, nullptr) == cudaErrorInvalidValue);
  EXPECT(cudaDestroyTextureObject(12345) == cudaErrorInvalidValue);
  cudaGetLastError();
#endif
}

float texel(int x, int y) { return 10.0f * y + x * x; }

// What the CPU says of one place; -1 is outside of the border.
float expected(float2 at, const cudaTextureDesc& desc) {
  const auto axis = [&](float x, int count, int shift) {
    if (desc.normalizedCoords) x *= count;
    int i = (int)floorf(desc.filterMode == cudaFilterModeLinear ? x - 0.5f : x) + shift;
    const bool repeats = desc.normalizedCoords != 0;
    if (desc.addressMode[0] == cudaAddressModeWrap && repeats) return (i % count + count) % count;
    if (desc.addressMode[0] == cudaAddressModeMirror && repeats) {
      i = (i % (2 * count) + 2 * count) % (2 * count);
      return i < count ? i : 2 * count - 1 - i;
    }
    if (desc.addressMode[0] == cudaAddressModeBorder && (i < 0 || i >= count)) return -1;
    return i < 0 ? 0 : i >= count ? count - 1 : i;
  };
  const auto value = [&](int dx, int dy) {
    const int x = axis(at.x, kWidth, dx), y = axis(at.y, kHeight, dy);
    return x < 0 || y < 0 ? 0.0f : texel(x, y);
  };
  if (desc.filterMode == cudaFilterModePoint) return value(0, 0);
  const auto weight = [&](float x, int count) {
    const float place = (desc.normalizedCoords ? x * count : x) - 0.5f;
    return place - floorf(place);
  };
  const float a = weight(at.x, kWidth), b = weight(at.y, kHeight);
  return (1 - b) * ((1 - a) * value(0, 0) + a * value(1, 0)) +
         b * ((1 - a) * value(0, 1) + a * value(1, 1));
}

void compare(const cudaResourceDesc& resource) {
  constexpr int kPlaces = 256;
  float2* where;
  float* out;
  CHECK(cudaMallocManaged(&where, kPlaces * sizeof(float2)));
  CHECK(cudaMallocManaged(&out, kPlaces * sizeof(float)));
  for (int mode = 0; mode < 4; ++mode) {
    for (int kind = 0; kind < 4; ++kind) {
      const bool normalized = kind % 2;
      const auto filter = kind / 2 ? cudaFilterModeLinear : cudaFilterModePoint;
      const cudaTextureDesc desc = how((cudaTextureAddressMode)mode, filter, normalized);
      for (int i = 0; i < kPlaces; ++i) {  // by 1/8 of a texel, off the borders between texels
        const float x = (i * 37 % 192 - 64 + 0.5f) / 8, y = (i * 11 % 96 - 32 + 0.5f) / 8;
        where[i] = normalized ? make_float2(x / kWidth, y / kHeight) : make_float2(x, y);
      }
      cudaTextureObject_t texture = 0;
      CHECK(cudaCreateTextureObject(&texture, &resource, &desc, nullptr));
      sample<<<1, kPlaces>>>(texture, where, out);
      CHECK(cudaDeviceSynchronize());
      for (int i = 0; i < kPlaces; ++i) {
        const float right = expected(where[i], desc);
        if (fabsf(out[i] - right) > 0.01f && wrong_results() < 5) {
          printf("mode %d, kind %d, %g %g: %g, not %g\n", mode, kind, where[i].x, where[i].y,
                 out[i], right);
        }
        EXPECT(fabsf(out[i] - right) <= 0.01f);
      }
      CHECK(cudaDestroyTextureObject(texture));
    }
  }
  CHECK(cudaFree(where));
  CHECK(cudaFree(out));
}

void pitched() {
  float host[kHeight][kWidth];
  for (int y = 0; y < kHeight; ++y) {
    for (int x = 0; x < kWidth; ++x) host[y][x] = texel(x, y);
  }
  float* rows;
  size_t pitch;
  CHECK(cudaMallocPitch(&rows, &pitch, sizeof host[0], kHeight));
  CHECK(cudaMemcpy2D(rows, pitch, host, sizeof host[0], sizeof host[0], kHeight,
                     cudaMemcpyHostToDevice));
  cudaResourceDesc resource;
  memset(&resource, 0, sizeof resource);
  resource.resType = cudaResourceTypePitch2D;
  resource.res.pitch2D.devPtr = rows;
  resource.res.pitch2D.desc = cudaCreateChannelDesc<float>();
  resource.res.pitch2D.width = kWidth;
  resource.res.pitch2D.height = kHeight;
  resource.res.pitch2D.pitchInBytes = pitch;
  compare(resource);
  CHECK(cudaFree(rows));

  cudaArray_t array;
  const cudaChannelFormatDesc channels = cudaCreateChannelDesc<float>();
  CHECK(cudaMallocArray(&array, &channels, kWidth, kHeight));
  CHECK(cudaMemcpy2DToArray(array, 0, 0, host, sizeof host[0], sizeof host[0], kHeight,
                            cudaMemcpyHostToDevice));
  float back[kHeight][kWidth];
  CHECK(cudaMemcpy2DFromArray(back, sizeof back[0], array, 0, 0, sizeof back[0], kHeight,
                              cudaMemcpyDeviceToHost));
  EXPECT(memcmp(back, host, sizeof host) == 0);
  memset(&resource, 0, sizeof resource);
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  compare(resource);
  CHECK(cudaFreeArray(array));
}

void fours_and_rows() {
  uchar4 host[2] = {make_uchar4(1, 2, 3, 4), make_uchar4(0, 51, 255, 102)};
  cudaArray_t array;
  cudaChannelFormatDesc channels = cudaCreateChannelDesc(8, 8, 8, 8, cudaChannelFormatKindUnsigned);
  CHECK(cudaMallocArray(&array, &channels, 2, 1));
  CHECK(cudaMemcpy2DToArray(array, 0, 0, host, 8, 8, 1, cudaMemcpyHostToDevice));
  cudaResourceDesc resource;
  memset(&resource, 0, sizeof resource);
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaTextureDesc desc = how(cudaAddressModeClamp, cudaFilterModePoint, false);
  desc.readMode = cudaReadModeNormalizedFloat;
  cudaTextureObject_t texture = 0;
  CHECK(cudaCreateTextureObject(&texture, &resource, &desc, nullptr));
  float4* four;
  float* row;
  CHECK(cudaMallocManaged(&four, sizeof *four));
  CHECK(cudaMallocManaged(&row, 16 * sizeof *row));
  sample_fours<<<1, 1>>>(texture, four);
  CHECK(cudaDeviceSynchronize());
  EXPECT(four->x == 0 && fabsf(four->y - 0.2f) < 1e-6f && four->z == 1);
  EXPECT(fabsf(four->w - 0.4f) < 1e-6f);
  CHECK(cudaDestroyTextureObject(texture));
  CHECK(cudaFreeArray(array));

  const float values[2] = {1, 3};
  channels = cudaCreateChannelDesc<float>();
  CHECK(cudaMallocArray(&array, &channels, 2));
  CHECK(cudaMemcpy2DToArray(array, 0, 0, values, 8, 8, 1, cudaMemcpyHostToDevice));
  resource.res.array.array = array;
  desc = how(cudaAddressModeClamp, cudaFilterModeLinear, false);
  CHECK(cudaCreateTextureObject(&texture, &resource, &desc, nullptr));
  sample_row<<<1, 16>>>(texture, row);
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < 16; ++i) {
    const float x = i * 0.25f - 1.5f;
    EXPECT(row[i] == (x <= 0 ? 1 : x >= 1 ? 3 : 1 + 2 * x));
  }
  CHECK(cudaDestroyTextureObject(texture));
  CHECK(cudaFreeArray(array));
}

int main() {
  linear();
  pitched();
  fours_and_rows();
  return verdict("textures");
}
