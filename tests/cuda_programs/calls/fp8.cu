// SPDX-License-Identifier: Apache-2.0
//
// cuda_fp8.h: both formats at their borders, with and without saturation, from every type; what
// they are read as; pairs and fours. A GPU has the same bits.
#include <cuda_fp8.h>

#include "tests/cuda_programs/check.h"

struct Case {
  double value;
  unsigned e4m3, e4m3_saturated, e5m2, e5m2_saturated;
};
__device__ const Case kCases[] = {
    {0.0, 0x00, 0x00, 0x00, 0x00},
    {-0.0, 0x80, 0x80, 0x80, 0x80},
    {1.0, 0x38, 0x38, 0x3c, 0x3c},
    {-1.5, 0xbc, 0xbc, 0xbe, 0xbe},
    {1.0625, 0x38, 0x38, 0x3c, 0x3c},
    {1.1875, 0x3a, 0x3a, 0x3d, 0x3d},  // ties to even
    {448.0, 0x7e, 0x7e, 0x5f, 0x5f},
    {464.0, 0x7e, 0x7e, 0x5f, 0x5f},
    {465.0, 0x7f, 0x7e, 0x5f, 0x5f},
    {57344.0, 0x7f, 0x7e, 0x7b, 0x7b},
    {61439.0, 0x7f, 0x7e, 0x7b, 0x7b},
    {61440.0, 0x7f, 0x7e, 0x7c, 0x7b},
    {-1e30, 0xff, 0xfe, 0xfc, 0xfb},
    {0.015625, 0x08, 0x08, 0x24, 0x24},
    {0.001953125, 0x01, 0x01, 0x18, 0x18},
    {0.0009765625, 0x00, 0x00, 0x14, 0x14},
    {0.00146484375, 0x01, 0x01, 0x16, 0x16},
    {0x1p-16, 0x00, 0x00, 0x01, 0x01},
    {0x1.8p-17, 0x00, 0x00, 0x01, 0x01},
    {0x1p-17, 0x00, 0x00, 0x00, 0x00},
    {1.0625000000000002, 0x39, 0x39, 0x3c, 0x3c},  // a float of it would be a tie
};
constexpr int kCount = sizeof(kCases) / sizeof(kCases[0]);

__global__ void convert(int* wrong) {
  const Case& one = kCases[threadIdx.x];
  const bool exact = static_cast<float>(one.value) == one.value;
  const auto compare = [&](unsigned e4m3, unsigned e4m3_saturated, unsigned e5m2,
                           unsigned e5m2_saturated) {
    if (e4m3 != one.e4m3 || e4m3_saturated != one.e4m3_saturated || e5m2 != one.e5m2 ||
        e5m2_saturated != one.e5m2_saturated) {
      printf("%a: %x %x %x %x\n", one.value, e4m3, e4m3_saturated, e5m2, e5m2_saturated);
      atomicAdd(wrong, 1);
    }
  };
  const double d = one.value;
  compare(__nv_cvt_double_to_fp8(d, __NV_NOSAT, __NV_E4M3),
          __nv_cvt_double_to_fp8(d, __NV_SATFINITE, __NV_E4M3),
          __nv_cvt_double_to_fp8(d, __NV_NOSAT, __NV_E5M2),
          __nv_cvt_double_to_fp8(d, __NV_SATFINITE, __NV_E5M2));
  if (!exact) return;
  const auto f = static_cast<float>(d);
  compare(__nv_cvt_float_to_fp8(f, __NV_NOSAT, __NV_E4M3), __nv_fp8_e4m3(f).__x,
          __nv_cvt_float_to_fp8(f, __NV_NOSAT, __NV_E5M2), __nv_fp8_e5m2(f).__x);
  if (f < -1e5f) return;
  const __half h = __float2half(f);
  if (__half2float(h) != f) return;
  const __half_raw raw = h;
  compare(__nv_cvt_halfraw_to_fp8(raw, __NV_NOSAT, __NV_E4M3), __nv_fp8_e4m3(h).__x,
          __nv_cvt_halfraw_to_fp8(raw, __NV_NOSAT, __NV_E5M2), __nv_fp8_e5m2(h).__x);
}

template <class Fp8>
__global__ void read_back(int* wrong) {  // every finite number is read as what is written as it
  Fp8 one;
  one.__x = static_cast<__nv_fp8_storage_t>(blockIdx.x * blockDim.x + threadIdx.x);
  const auto value = static_cast<float>(one);
  const bool finite = value - value == 0;
  if (finite && Fp8(value).__x != one.__x) atomicAdd(wrong, 1);
  if (finite && static_cast<int>(one) != static_cast<int>(value)) atomicAdd(wrong, 1);
}

int main() {
  int* wrong;
  CHECK(cudaMallocManaged(&wrong, sizeof(int)));
  *wrong = 0;
  convert<<<1, kCount>>>(wrong);
  read_back<__nv_fp8_e4m3><<<4, 64>>>(wrong);
  read_back<__nv_fp8_e5m2><<<4, 64>>>(wrong);
  CHECK(cudaDeviceSynchronize());
  EXPECT(*wrong == 0);

  __nv_fp8_e4m3 not_a_number;
  not_a_number.__x = 0x7f;
  const float value = static_cast<float>(not_a_number);
  EXPECT(value != value && __nv_fp8_e4m3(value).__x == 0x7f && __nv_fp8_e5m2(value).__x == 0x7f);
  EXPECT(__nv_cvt_fp8_to_halfraw(0x7c, __NV_E5M2).x == 0x7c00);
  EXPECT(__nv_cvt_fp8_to_halfraw(0x01, __NV_E4M3).x == 0x1800);
  EXPECT(__nv_fp8_e4m3(1000).__x == 0x7e && __nv_fp8_e5m2(-3).__x == 0xc2);
  EXPECT(__nv_fp8_e4m3(__float2bfloat16(2.5f)).__x == 0x42);

  const __nv_fp8x2_e5m2 two(make_float2(1.0f, -4.0f));
  EXPECT(two.__x == 0xc43c && static_cast<float2>(two).y == -4.0f);
  EXPECT(__nv_cvt_float2_to_fp8x2(make_float2(1.0f, 500.0f), __NV_NOSAT, __NV_E4M3) == 0x7f38);
  EXPECT(__nv_fp8x2_e4m3(__floats2half2_rn(0.5f, 448.0f)).__x == 0x7e30);
  const __nv_fp8x4_e4m3 four(make_float4(1.0f, 2.25f, -9.0f, 1e9f));
  const float4 back = static_cast<float4>(four);
  EXPECT(four.__x == 0x7ed14138);
  EXPECT(back.x == 1.0f && back.y == 2.25f && back.z == -9.0f && back.w == 448.0f);
  return verdict("fp8");
}
