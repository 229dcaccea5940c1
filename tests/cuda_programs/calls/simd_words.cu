// SPDX-License-Identifier: Apache-2.0
//
// SIMD in a word, dot products, byte and bit intrinsics: each over 4000 pairs of words, in one
// number that an H100 has computed.
#include "tests/cuda_programs/check.h"

constexpr int kPairs = 4000;

template <typename F>
__device__ unsigned sum_of(F function) {
  unsigned sum = 1;
  for (unsigned i = 0; i < kPairs; ++i) {
    unsigned a = i * 2654435761u, b = (a ^ i) * 1664525u + i;
    if (i % 5 == 0) a = 0x80007fffu;  // the borders of both parts
    if (i % 7 == 0) b = 0x8000ffffu;
    sum = (sum ^ function(a, b, (int)a, (int)b)) * 16777619u;
  }
  return sum;
}

__global__ void compare(int* wrong) {
#define SAME(expression, expected)                                                     \
  do {                                                                                 \
    const unsigned sum = sum_of([](unsigned a, unsigned b, int x, int y) -> unsigned { \
      (void)a, (void)b, (void)x, (void)y;                                              \
      return expression;                                                               \
    });                                                                                \
    if (sum != expected) {                                                             \
      printf("%s: 0x%08x\n", #expression, sum);                                        \
      ++*wrong;                                                                        \
    }                                                                                  \
  } while (0)
  SAME((__vadd2(a, b)), 0x10e9b711u);
  SAME((__vadd4(a, b)), 0x97b26b11u);
  SAME((__vaddss2(a, b)), 0x93dd39c9u);
  SAME((__vaddss4(a, b)), 0x4e294982u);
  SAME((__vaddus2(a, b)), 0x0d695fc8u);
  SAME((__vaddus4(a, b)), 0x9e207e02u);
  SAME((__vsub2(a, b)), 0x6f1e0a31u);
  SAME((__vsub4(a, b)), 0xde395a31u);
  SAME((__vsubss2(a, b)), 0xbaa70689u);
  SAME((__vsubss4(a, b)), 0xc2c283fcu);
  SAME((__vsubus2(a, b)), 0x7ec51953u);
  SAME((__vsubus4(a, b)), 0x03cad22bu);
  SAME((__vavgs2(a, b)), 0x4223c165u);
  SAME((__vavgs4(a, b)), 0xfd1a9b81u);
  SAME((__vavgu2(a, b)), 0x2f22a137u);
  SAME((__vavgu4(a, b)), 0x3aed7837u);
  SAME((__vhaddu2(a, b)), 0x131db685u);
  SAME((__vhaddu4(a, b)), 0x4fe8f085u);
  SAME((__vabsdiffs2(a, b)), 0x29a4785du);
  SAME((__vabsdiffs4(a, b)), 0xee6f9d93u);
  SAME((__vabsdiffu2(a, b)), 0x8586205du);
  SAME((__vabsdiffu4(a, b)), 0x4c72ca95u);
  SAME((__vmins2(a, b)), 0x8caef32du);
  SAME((__vmins4(a, b)), 0x5c3726d8u);
  SAME((__vminu2(a, b)), 0x074d5273u);
  SAME((__vminu4(a, b)), 0xacab91abu);
  SAME((__vmaxs2(a, b)), 0x96314a8du);
  SAME((__vmaxs4(a, b)), 0xdbba9aecu);
  SAME((__vmaxu2(a, b)), 0x816af59bu);
  SAME((__vmaxu4(a, b)), 0x9c2b22cfu);
  SAME((__vsads2(a, b)), 0xc503f974u);
  SAME((__vsads4(a, b)), 0x7050f24du);
  SAME((__vsadu2(a, b)), 0x26564d1au);
  SAME((__vsadu4(a, b)), 0x64485261u);
  SAME((__vcmpeq2(a, b)), 0x18621afeu);
  SAME((__vcmpeq4(a, b)), 0x1a88b228u);
  SAME((__vcmpges2(a, b)), 0x49232820u);
  SAME((__vcmpges4(a, b)), 0x1b61774fu);
  SAME((__vcmpgtu2(a, b)), 0x8038e054u);
  SAME((__vcmpgtu4(a, b)), 0x789da0d0u);
  SAME((__vsetles2(a, b)), 0x02a1a1c3u);
  SAME((__vsetles4(a, b)), 0x01bc0ed0u);
  SAME((__vsetltu2(a, b)), 0x891101c3u);
  SAME((__vsetltu4(a, b)), 0x8774bf21u);
  SAME((__vsetne2(a, b)), 0x73fd6e60u);
  SAME((__vsetne4(a, b)), 0xb464fa22u);
  SAME((__vneg2(a ^ __vneg4(b))), 0xd4c88c71u);
  SAME((__vnegss2(a ^ __vnegss4(b))), 0x160f533du);
  SAME((__vabs2(a ^ __vabs4(b))), 0xf4cb9bb9u);
  SAME((__vabsss2(a ^ __vabsss4(b))), 0xddb6b9bbu);
  SAME((__dp4a(x, y, 7)), 0xde8d0dccu);
  SAME((__dp4a(a, b, 7u)), 0xf53226ccu);
  SAME((__dp2a_lo(x, y, -9)), 0x3bd0de78u);
  SAME((__dp2a_hi(x, y, -9)), 0x82560d14u);
  SAME((__dp2a_lo(a, b, 9u)), 0xdf1ce8a0u);
  SAME((__dp2a_hi(a, b, 9u)), 0xa28cea68u);
  SAME((__vimax3_s32(x, y, 5)), 0xf8412c36u);
  SAME((__vimin3_s32_relu(x, y, 5)), 0xbe7f9677u);
  SAME((__viaddmax_s32(x, y, 5)), 0xbbfb8483u);
  SAME((__viaddmin_s32_relu(x, y, 5)), 0x355eff31u);
  SAME((__byte_perm(a, b, b)), 0x10507bfau);
  SAME((__funnelshift_lc(a, b, b & 63)), 0xa6c60225u);
  SAME((__funnelshift_rc(a, b, b & 63)), 0x657aebc1u);
  SAME((__sad(x, y, 1)), 0x7c46ab3du);
#undef SAME
}

// Vectors as operands.
__global__ void dot(int* results) {
  results[0] = __dp4a(make_char4(1, -2, 3, -4), make_char4(5, 6, 7, 8), 100);
  results[1] = __dp2a_hi(make_ushort2(1000, 2), make_uchar4(0, 0, 3, 255), 1u);
  results[2] = __dp2a_lo(make_short2(-1000, 2), make_char4(3, -1, 0, 0), 1);
}

int main() {
  int *wrong, *results;
  CHECK(cudaMallocManaged(&wrong, sizeof(int)));
  CHECK(cudaMallocManaged(&results, 3 * sizeof(int)));
  *wrong = 0;
  compare<<<1, 1>>>(wrong);
  dot<<<1, 1>>>(results);
  CHECK(cudaDeviceSynchronize());
  EXPECT(*wrong == 0);
  EXPECT(results[0] == 82 && results[1] == 3511 && results[2] == -3001);
  return verdict("simd_words");
}
