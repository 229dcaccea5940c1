// SPDX-License-Identifier: Apache-2.0
//
// The 16-bit floating-point types. They have the bits of CUDA's __half and __nv_bfloat16, which a
// program casts to them by pointer.
#pragma once

#include <cstdint>
#include <cstring>

#include "device/base/target.h"

namespace peal {

/// Storage of IEEE binary16.
struct Half {
  uint16_t bits;
};
/// Storage of bfloat16: the upper half of a float.
struct BFloat16 {
  uint16_t bits;
};

PEAL_HD float to_float(BFloat16 value) {
  const uint32_t bits = uint32_t{value.bits} << 16;
  float result;
  memcpy(&result, &bits, sizeof(result));
  return result;
}

PEAL_HD BFloat16 to_bfloat16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  if ((bits & 0x7fffffff) > 0x7f800000) return {static_cast<uint16_t>(bits >> 16 | 0x40)};  // NaN
  return {static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

PEAL_HD float to_float(Half value) {
#if PEAL_ON_GPU
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
  return result;
#else
  // The exponent's bias is mended by a product, which also makes subnormal numbers right.
  const uint32_t sign = uint32_t{value.bits & 0x8000u} << 16;
  const bool special = (value.bits & 0x7c00) == 0x7c00;  // infinite or NaN
  uint32_t bits = uint32_t{value.bits & 0x7fffu} << 13;
  float result;
  memcpy(&result, &bits, sizeof(result));
  result *= 0x1p112f;
  memcpy(&bits, &result, sizeof(bits));
  bits |= sign | (special ? 0x7f800000u : 0u);
  memcpy(&result, &bits, sizeof(result));
  return result;
#endif
}

PEAL_HD Half to_half(float value) {
#if PEAL_ON_GPU
  Half result;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
  return result;
#else
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  bits &= 0x7fffffff;
  if (bits > 0x7f800000) return {static_cast<uint16_t>(sign | 0x7e00)};   // NaN
  if (bits >= 0x477ff000) return {static_cast<uint16_t>(sign | 0x7c00)};  // rounds to infinity
  if (bits < 0x38800000) {  // subnormal: the sum's last place is 2^-24, and the CPU rounds it
    float magnitude;
    memcpy(&magnitude, &bits, sizeof(magnitude));
    magnitude += 0.5f;
    memcpy(&bits, &magnitude, sizeof(bits));
    return {static_cast<uint16_t>(sign | (bits - 0x3f000000))};
  }
  bits += 0xfff + (bits >> 13 & 1);
  return {static_cast<uint16_t>(sign | ((bits - 0x38000000) >> 13))};
#endif
}

}  // namespace peal
