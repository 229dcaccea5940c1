// SPDX-License-Identifier: Apache-2.0
//
// CUDA's types and functions of numbers mean what CUDA's documentation says. Expected bits are
// written out.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <type_traits>

#include "simt/runtime/cuda_runtime.h"
#include "simt/runtime/half.h"
#include "tests/unit/simt/support.h"

namespace {

constexpr unsigned kAll = 0xffffffff;

template <class Body>
auto on_warp(Body body) {
  std::array<decltype(body()), 32> answers{};
  peal::simt::run({1, 32}, [&] { answers[threadIdx.x] = body(); });
  return answers;
}

TEST(CudaVectors, HaveCudasSizesAndAlignments) {
  static_assert(sizeof(float2) == 8 && alignof(float2) == 8);
  static_assert(sizeof(float3) == 12 && alignof(float3) == 4);
  static_assert(sizeof(float4) == 16 && alignof(float4) == 16);
  static_assert(sizeof(double2) == 16 && alignof(double2) == 16);
  static_assert(sizeof(double3) == 24 && alignof(double3) == 8);
  static_assert(sizeof(double4) == 32 && alignof(double4) == 16);
  static_assert(sizeof(char3) == 3 && alignof(char4) == 4 && alignof(uchar2) == 2);
  static_assert(alignof(short4) == 8 && alignof(ushort2) == 4);
  static_assert(alignof(int4) == 16 && alignof(longlong2) == 16 && alignof(ulong4) == 16);
  static_assert(sizeof(uint3) == 12 && sizeof(dim3) == 12);
  const int4 four = make_int4(1, 2, 3, 4);
  EXPECT_EQ(four.w, 4);
  const float2 braces = {1.0F, 2.0F};
  EXPECT_EQ(make_float2(1, 2).y, braces.y);
  const dim3 grid = {1, 2}, line = 7;
  EXPECT_EQ(grid.y * line.x + line.z, 15u);
  const uint3 index = threadIdx;
  EXPECT_EQ(index.x, 0u);
}

TEST(CudaNumbers, MinAndMaxTakeMixedTypes) {
  static_assert(std::is_same_v<decltype(min(1, 2u)), unsigned>);
  static_assert(std::is_same_v<decltype(max(1.0F, 2.0)), double>);
  static_assert(std::is_same_v<decltype(min(1LL, 2LL)), long long>);
  EXPECT_EQ(max(-1, 2), 2);
  EXPECT_EQ(max(-1, 2u), 0xffffffffu);  // the signed one becomes unsigned
  EXPECT_EQ(min(1.0F, NAN), 1.0F);
  EXPECT_EQ(max(3L, 2L), 3L);
}

TEST(CudaNumbers, IntegersMultiplyHighAndLow) {
  EXPECT_EQ(__mulhi(-2, 3), -1);
  EXPECT_EQ(__umulhi(0x80000000u, 4), 2u);
  EXPECT_EQ(__umul64hi(1ULL << 63, 4), 2ULL);
  EXPECT_EQ(__mul64hi(-1, 1), -1);
  EXPECT_EQ(__mul24(0x01000003, 2), 6);
  EXPECT_EQ(__mul24(0x00ffffff, 5), -5);
  EXPECT_EQ(__umul24(0xff000002u, 3), 6u);
  EXPECT_EQ(__hadd(-3, 0), -2);
  EXPECT_EQ(__rhadd(3, 0), 2);
  EXPECT_EQ(__uhadd(0xffffffffu, 0xffffffffu), 0xffffffffu);
  EXPECT_EQ(__sad(-5, 5, 1), 11u);
  EXPECT_EQ(__usad(1, 5, 1), 5u);
}

TEST(CudaNumbers, BitsMove) {
  EXPECT_EQ(__brev(1), 0x80000000u);
  EXPECT_EQ(__brevll(2), 1ULL << 62);
  EXPECT_EQ(__byte_perm(0x33221100, 0x77665544, 0x7610), 0x77661100u);
  EXPECT_EQ(__byte_perm(0x33221180, 0, 0x8888), 0x80808080u);  // bit 3 means nothing
  EXPECT_EQ(__funnelshift_l(0x80000001, 0x2, 1), 0x5u);
  EXPECT_EQ(__funnelshift_r(0x80000001, 0x1, 1), 0xc0000000u);
  EXPECT_EQ(__funnelshift_l(1, 2, 32), 2u);
  EXPECT_EQ(__funnelshift_lc(1, 2, 32), 1u);
  EXPECT_EQ(__funnelshift_rc(1, 2, 40), 2u);
}

TEST(CudaNumbers, RealsRoundToIntegersAsNamed) {
  EXPECT_EQ(__float2int_rn(2.5F), 2);
  EXPECT_EQ(__float2int_rn(3.5F), 4);
  EXPECT_EQ(__float2int_rz(-2.5F), -2);
  EXPECT_EQ(__float2int_rd(-2.5F), -3);
  EXPECT_EQ(__float2int_ru(2.1F), 3);
  EXPECT_EQ(__double2ll_rn(1e10 + 0.5), 10000000000LL);
  EXPECT_EQ(__float2uint_rz(-1.0F), 0u);
  EXPECT_EQ(__float2int_rz(1e10F), std::numeric_limits<int>::max());
  EXPECT_EQ(__float2int_rz(-1e10F), std::numeric_limits<int>::min());
  EXPECT_EQ(__float2int_rn(NAN), 0);
  EXPECT_EQ(__float2ll_rn(NAN), std::numeric_limits<long long>::min());
  EXPECT_EQ(__double2ull_rz(1e30), std::numeric_limits<unsigned long long>::max());
}

TEST(CudaNumbers, IntegersRoundToRealsAsNamed) {
  // 2^24 + 1 lies between two floats.
  EXPECT_EQ(__int2float_rn(16777217), 16777216.0F);
  EXPECT_EQ(__int2float_ru(16777217), 16777218.0F);
  EXPECT_EQ(__int2float_rd(-16777217), -16777218.0F);
  EXPECT_EQ(__int2float_rz(-16777217), -16777216.0F);
  EXPECT_EQ(__ull2float_rz(~0ULL), 0x1.fffffep63F);
  EXPECT_EQ(__double2float_ru(1.0 + 1e-12), std::nextafter(1.0F, 2.0F));
  EXPECT_EQ(__ll2double_rd(-((1LL << 53) + 1)), -0x1.0000000000001p53);
}

TEST(CudaNumbers, BitsAreReinterpreted) {
  EXPECT_EQ(__float_as_int(1.0F), 0x3f800000);
  EXPECT_EQ(__int_as_float(0x40000000), 2.0F);
  EXPECT_EQ(__double_as_longlong(1.0), 0x3ff0000000000000);
  EXPECT_EQ(__hiloint2double(0x40000000, 0), 2.0);
  EXPECT_EQ(__double2hiint(2.0), 0x40000000);
}

TEST(CudaNumbers, RealFunctions) {
  static_assert(std::is_same_v<decltype(rsqrt(4.0F)), float>);
  static_assert(std::is_same_v<decltype(rsqrtf(4.0F)), float>);
  EXPECT_EQ(rsqrt(4.0), 0.5);
  EXPECT_EQ(rsqrtf(16.0F), 0.25F);
  EXPECT_EQ(__saturatef(-1.0F), 0.0F);
  EXPECT_EQ(__saturatef(NAN), 0.0F);
  EXPECT_EQ(__saturatef(7.0F), 1.0F);
  EXPECT_EQ(__fdividef(1.0F, 4.0F), 0.25F);
  EXPECT_EQ(__fmaf_rn(2.0F, 3.0F, 1.0F), 7.0F);
  EXPECT_FLOAT_EQ(__expf(1.0F), 2.7182817F);
  EXPECT_FLOAT_EQ(sinpif(0.5F), 1.0F);
}

TEST(CudaHalf, RoundsToTheNearestEven) {
  const auto bits = [](float value) { return __half_as_ushort(__float2half(value)); };
  EXPECT_EQ(bits(1.0F), 0x3c00);
  EXPECT_EQ(bits(-2.0F), 0xc000);
  EXPECT_EQ(bits(65504.0F), 0x7bff);    // the largest
  EXPECT_EQ(bits(65519.996F), 0x7bff);  // just below the middle to 2^16
  EXPECT_EQ(bits(65520.0F), 0x7c00);    // the middle: infinity
  EXPECT_EQ(bits(1e30F), 0x7c00);
  EXPECT_EQ(bits(0x1p-24F), 0x0001);      // the smallest
  EXPECT_EQ(bits(0x1p-25F), 0x0000);      // a tie, to even
  EXPECT_EQ(bits(0x1.8p-24F), 0x0002);    // a tie, to even
  EXPECT_EQ(bits(0x1.002p0F), 0x3c00);    // a tie, to even
  EXPECT_EQ(bits(0x1.006p0F), 0x3c02);    // a tie, to even
  EXPECT_EQ(bits(0x1.ff8p-15F), 0x03ff);  // the largest subnormal
  EXPECT_EQ(bits(-0.0F), 0x8000);
  EXPECT_EQ(bits(NAN), 0x7fff);
}

TEST(CudaHalf, EveryValueSurvivesTheWayThroughFloat) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const auto one = static_cast<unsigned short>(bits);
    const float half = __half2float(__ushort_as_half(one));
    const float brain = __bfloat162float(__ushort_as_bfloat16(one));
    EXPECT_TRUE(std::isnan(half) || __half_as_ushort(__float2half(half)) == one) << bits;
    EXPECT_TRUE(std::isnan(brain) || __bfloat16_as_ushort(__float2bfloat16(brain)) == one) << bits;
  }
}

TEST(CudaHalf, DoublesAreRoundedOnce) {
  // By way of float this would become a tie, and the tie 1.
  EXPECT_EQ(__half_as_ushort(__double2half(0x1.0020000001p0)), 0x3c01);
  EXPECT_EQ(__half_as_ushort(__double2half(-0x1.005ffffffp0)), 0xbc01);
  EXPECT_EQ(__half_as_ushort(__double2half(1e300)), 0x7c00);
}

TEST(CudaHalf, BrainFloatsRoundToTheNearestEven) {
  const auto bits = [](float value) { return __bfloat16_as_ushort(__float2bfloat16(value)); };
  EXPECT_EQ(bits(1.0F), 0x3f80);
  EXPECT_EQ(bits(0x1.01p0F), 0x3f80);  // a tie, to even
  EXPECT_EQ(bits(0x1.03p0F), 0x3f82);  // a tie, to even
  EXPECT_EQ(bits(3.4e38F), 0x7f80);
  EXPECT_EQ(bits(NAN), 0x7fff);
}

TEST(CudaHalf, Calculates) {
  const __half two = 2, three = 3.0F;
  EXPECT_EQ(float(two * three + two), 8.0F);
  EXPECT_EQ(float(__hfma(two, three, two)), 8.0F);
  EXPECT_TRUE(__hlt(two, three));
  EXPECT_EQ(float(__hmax(two, three)), 3.0F);
  EXPECT_EQ(float(-two), -2.0F);
  EXPECT_EQ(float(hsqrt(__float2half(9))), 3.0F);
  const __half2 pair = __floats2half2_rn(1, 2);
  EXPECT_EQ(__high2float(__hadd2(pair, pair)), 4.0F);
  EXPECT_EQ(__half22float2(__hfma2(pair, pair, pair)).y, 6.0F);
  const __nv_bfloat162 brains = __halves2bfloat162(__float2bfloat16(1), __float2bfloat16(2));
  EXPECT_EQ(__low2float(__hmul2(brains, brains)), 1.0F);
  static_assert(sizeof(__half) == 2 && sizeof(__half2) == 4 && alignof(__half2) == 4);
  static_assert(std::is_trivially_default_constructible_v<__half>);
}

TEST(CudaHalf, IsAddedAtomicallyAndShuffled) {
  __half sum = 0;
  __nv_bfloat162 pair{0, 0};
  peal::simt::run({4, 32}, [&] {
    atomicAdd(&sum, __float2half(1));
    atomicAdd(&pair, __nv_bfloat162{1, 2});
  });
  EXPECT_EQ(float(sum), 128.0F);
  EXPECT_EQ(float(pair.y), 256.0F);
  const auto got = on_warp([] { return float(__shfl_sync(kAll, __half(threadIdx.x), 9)); });
  EXPECT_EQ(got[0], 9.0F);
}

TEST(CudaIntrinsics, ReduceTheLanesOfAMask) {
  const auto sum = on_warp([] { return __reduce_add_sync(kAll, threadIdx.x); });
  const auto least =
      on_warp([] { return __reduce_min_sync(kAll, -static_cast<int>(threadIdx.x)); });
  const auto odd = on_warp([] {
    const unsigned mask = threadIdx.x % 2 == 1 ? 0xaaaaaaaa : 0x55555555;
    return __reduce_max_sync(mask, threadIdx.x);
  });
  const auto all = on_warp([] { return __reduce_or_sync(kAll, 1u << threadIdx.x); });
  EXPECT_EQ(sum[7], 496u);
  EXPECT_EQ(least[7], -31);
  EXPECT_EQ(odd[0], 30u);
  EXPECT_EQ(odd[1], 31u);
  EXPECT_EQ(all[31], kAll);
}

TEST(CudaIntrinsics, LoadsPastTheCacheLetOthersRun) {
  // The lane that would write the flag comes after the one that spins.
  int flag = 0;
  peal::simt::run({1, 2}, [&] {
    if (threadIdx.x == 0) {
      while (__ldcg(&flag) == 0) {
      }
    } else {
      __stcg(&flag, 1);
    }
  });
  EXPECT_EQ(__ldg(&flag), 1);
}

TEST(CudaIntrinsics, ScopedAtomicsAreAtomics) {
  unsigned long long sum = 0;
  peal::simt::run({4, 64}, [&] { atomicAdd_system(&sum, 2); });
  EXPECT_EQ(sum, 512u);
  EXPECT_EQ(atomicCAS_block(&sum, 512, 7), 512u);
  EXPECT_EQ(atomicMax_system(&sum, 9), 7u);
}

}  // namespace
