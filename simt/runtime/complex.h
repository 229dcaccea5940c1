// SPDX-License-Identifier: Apache-2.0
//
// CUDA's complex numbers: pairs of floats or of doubles, by functions with C's names.
#pragma once

#include <cmath>

#include "simt/runtime/vectors.h"

using cuFloatComplex = float2;
using cuDoubleComplex = double2;
using cuComplex = cuFloatComplex;

// X and Y: of two complex numbers; f: the suffix of floats.
#define PEAL_SIMT_COMPLEX(COMPLEX, REAL, MAKE, f)                                      \
  constexpr COMPLEX MAKE(REAL real, REAL imaginary) { return {real, imaginary}; }      \
  constexpr REAL cuCreal##f(COMPLEX x) { return x.x; }                                 \
  constexpr REAL cuCimag##f(COMPLEX x) { return x.y; }                                 \
  constexpr COMPLEX cuConj##f(COMPLEX x) { return {x.x, -x.y}; }                       \
  constexpr COMPLEX cuCadd##f(COMPLEX a, COMPLEX b) { return {a.x + b.x, a.y + b.y}; } \
  constexpr COMPLEX cuCsub##f(COMPLEX a, COMPLEX b) { return {a.x - b.x, a.y - b.y}; } \
  constexpr COMPLEX cuCmul##f(COMPLEX a, COMPLEX b) {                                  \
    return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x};                             \
  }                                                                                    \
  /* Divided by its larger part first, so that no square overflows. */                 \
  inline COMPLEX cuCdiv##f(COMPLEX a, COMPLEX b) {                                     \
    const REAL larger = std::fmax(std::fabs(b.x), std::fabs(b.y));                     \
    const COMPLEX u = {a.x / larger, a.y / larger}, v = {b.x / larger, b.y / larger};  \
    const REAL square = v.x * v.x + v.y * v.y;                                         \
    return {(u.x * v.x + u.y * v.y) / square, (u.y * v.x - u.x * v.y) / square};       \
  }                                                                                    \
  inline REAL cuCabs##f(COMPLEX x) { return std::hypot(x.x, x.y); }                    \
  /* a b + c */                                                                        \
  constexpr COMPLEX cuCfma##f(COMPLEX a, COMPLEX b, COMPLEX c) {                       \
    return cuCadd##f(cuCmul##f(a, b), c);                                              \
  }
PEAL_SIMT_COMPLEX(cuFloatComplex, float, make_cuFloatComplex, f)
PEAL_SIMT_COMPLEX(cuDoubleComplex, double, make_cuDoubleComplex, )
#undef PEAL_SIMT_COMPLEX

constexpr cuComplex make_cuComplex(float real, float imaginary) { return {real, imaginary}; }
constexpr cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex x) { return {x.x, x.y}; }
constexpr cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex x) {
  return {static_cast<float>(x.x), static_cast<float>(x.y)};
}
