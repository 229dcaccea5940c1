// SPDX-License-Identifier: Apache-2.0
//
// CUDA's vector types, with CUDA's alignments: of two and four elements that of the whole, at most
// 16 bytes. uint3 is what threadIdx is (types.h).
#pragma once

#include "simt/runtime/types.h"

// NAME, TYPE, alignment of two, alignment of four
#define PEAL_SIMT_VECTOR_TYPES(X)              \
  X(char, signed char, 2, 4)                   \
  X(uchar, unsigned char, 2, 4)                \
  X(short, short, 4, 8)                        \
  X(ushort, unsigned short, 4, 8)              \
  X(int, int, 8, 16)                           \
  X(uint, unsigned int, 8, 16)                 \
  X(long, long int, 16, 16)                    \
  X(ulong, unsigned long int, 16, 16)          \
  X(longlong, long long int, 16, 16)           \
  X(ulonglong, unsigned long long int, 16, 16) \
  X(float, float, 8, 16)                       \
  X(double, double, 16, 16)

#define PEAL_SIMT_VECTORS(NAME, TYPE, ALIGN_2, ALIGN_4)               \
  struct NAME##1 {                                                    \
    TYPE x;                                                           \
  };                                                                  \
  struct alignas(ALIGN_2) NAME##2 {                                   \
    TYPE x, y;                                                        \
  };                                                                  \
  struct alignas(ALIGN_4) NAME##4 {                                   \
    TYPE x, y, z, w;                                                  \
  };                                                                  \
  constexpr NAME##1 make_##NAME##1(TYPE x) { return {x}; }            \
  constexpr NAME##2 make_##NAME##2(TYPE x, TYPE y) { return {x, y}; } \
  constexpr NAME##4 make_##NAME##4(TYPE x, TYPE y, TYPE z, TYPE w) { return {x, y, z, w}; }

#define PEAL_SIMT_VECTOR_3(NAME, TYPE, ALIGN_2, ALIGN_4) \
  struct NAME##3 {                                       \
    TYPE x, y, z;                                        \
  };                                                     \
  constexpr NAME##3 make_##NAME##3(TYPE x, TYPE y, TYPE z) { return {x, y, z}; }

PEAL_SIMT_VECTOR_TYPES(PEAL_SIMT_VECTORS)

PEAL_SIMT_VECTOR_3(char, signed char, 2, 4)
PEAL_SIMT_VECTOR_3(uchar, unsigned char, 2, 4)
PEAL_SIMT_VECTOR_3(short, short, 4, 8)
PEAL_SIMT_VECTOR_3(ushort, unsigned short, 4, 8)
PEAL_SIMT_VECTOR_3(int, int, 8, 16)
PEAL_SIMT_VECTOR_3(long, long int, 16, 16)
PEAL_SIMT_VECTOR_3(ulong, unsigned long int, 16, 16)
PEAL_SIMT_VECTOR_3(longlong, long long int, 16, 16)
PEAL_SIMT_VECTOR_3(ulonglong, unsigned long long int, 16, 16)
PEAL_SIMT_VECTOR_3(float, float, 8, 16)
PEAL_SIMT_VECTOR_3(double, double, 16, 16)

// CUDA 13's names for those whose alignment was once in question.
#define PEAL_SIMT_VECTOR_ALIGNED(NAME, TYPE, ALIGN)                                      \
  struct alignas(ALIGN) NAME##_##ALIGN##a {                                              \
    TYPE x, y, z, w;                                                                     \
  };                                                                                     \
  constexpr NAME##_##ALIGN##a make_##NAME##_##ALIGN##a(TYPE x, TYPE y, TYPE z, TYPE w) { \
    return {x, y, z, w};                                                                 \
  }
#define PEAL_SIMT_VECTOR_BOTH(NAME, TYPE)  \
  PEAL_SIMT_VECTOR_ALIGNED(NAME, TYPE, 16) \
  PEAL_SIMT_VECTOR_ALIGNED(NAME, TYPE, 32)
PEAL_SIMT_VECTOR_BOTH(long4, long int)
PEAL_SIMT_VECTOR_BOTH(ulong4, unsigned long int)
PEAL_SIMT_VECTOR_BOTH(longlong4, long long int)
PEAL_SIMT_VECTOR_BOTH(ulonglong4, unsigned long long int)
PEAL_SIMT_VECTOR_BOTH(double4, double)
#undef PEAL_SIMT_VECTOR_BOTH
#undef PEAL_SIMT_VECTOR_ALIGNED

constexpr uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }

#undef PEAL_SIMT_VECTOR_3
#undef PEAL_SIMT_VECTORS
#undef PEAL_SIMT_VECTOR_TYPES
