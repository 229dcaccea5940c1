// SPDX-License-Identifier: Apache-2.0
//
// cuRAND's generators of kernels: XORWOW (G. Marsaglia, "Xorshift RNGs", 2003) and Philox4x32-10
// (J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011). Whole and uniform
// numbers are those that a GPU draws; of normal ones the last places may differ.
#pragma once

#include <cmath>
#include <cstdint>

#include "simt/runtime/vectors.h"

namespace peal::simt::cuda {

/// The second number of a pair, kept for the next call of the same kind.
template <class Real>
struct KeptNormal {
  enum class Kind { kNone, kNormal, kLogNormal };
  Kind kind;
  Real value;
};

}  // namespace peal::simt::cuda

struct curandStateXORWOW {
  unsigned d;
  unsigned v[5];
  peal::simt::cuda::KeptNormal<float> kept;
  peal::simt::cuda::KeptNormal<double> kept_double;
};

struct curandStatePhilox4_32_10 {
  uint4 ctr;
  uint4 output;  // of the counter
  uint2 key;
  unsigned used;  // of the output's four
  peal::simt::cuda::KeptNormal<float> kept;
  peal::simt::cuda::KeptNormal<double> kept_double;
};

using curandStateXORWOW_t = curandStateXORWOW;
using curandStatePhilox4_32_10_t = curandStatePhilox4_32_10;
using curandState_t = curandStateXORWOW;
using curandState = curandStateXORWOW;

namespace peal::simt::cuda {

/// n steps, n * 2^67 steps of XORWOW's five words.
void skip_xorwow(unsigned* words, uint64_t n);
void skip_xorwow_sequences(unsigned* words, uint64_t n);

constexpr uint4 philox4x32_10(uint4 counter, uint2 key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t even = uint64_t{0xD2511F53} * counter.x, odd = uint64_t{0xCD9E8D57} * counter.z;
    counter = {static_cast<unsigned>(odd >> 32) ^ counter.y ^ key.x, static_cast<unsigned>(odd),
               static_cast<unsigned>(even >> 32) ^ counter.w ^ key.y, static_cast<unsigned>(even)};
    key = {key.x + 0x9E3779B9, key.y + 0xBB67AE85};
  }
  return counter;
}

constexpr void add_to_counter(curandStatePhilox4_32_10* state, uint64_t n) {
  const uint64_t low = (uint64_t{state->ctr.y} << 32 | state->ctr.x) + n;
  const uint64_t high = (uint64_t{state->ctr.w} << 32 | state->ctr.z) + (low < n ? 1 : 0);
  state->ctr = {static_cast<unsigned>(low), static_cast<unsigned>(low >> 32),
                static_cast<unsigned>(high), static_cast<unsigned>(high >> 32)};
}

template <class State>
concept RandomState =
    std::is_same_v<State, curandStateXORWOW> || std::is_same_v<State, curandStatePhilox4_32_10>;

// To (0, 1].
inline float uniform(unsigned x) { return static_cast<float>(x) * 0x1p-32F + 0x1p-33F; }
inline double uniform(unsigned low, unsigned high) {
  return static_cast<double>(uint64_t{low} ^ uint64_t{high} << 21) * 0x1p-53 + 0x1p-54;
}
/// Two normal numbers of two uniform ones, by Box and Muller.
template <class Pair, class Real>
Pair normals(Real radius, Real angle) {
  const Real length = std::sqrt(-2 * std::log(radius));
  return {std::sin(angle) * length, std::cos(angle) * length};
}
inline float2 normals(unsigned x, unsigned y) {
  constexpr float kTurn = 6.2831853071795864769F;
  return normals<float2>(uniform(x), uniform(y) * kTurn);
}
inline double2 normals(uint4 x) {
  constexpr double kTurn = 6.2831853071795864769;
  return normals<double2>(uniform(x.x, x.y), uniform(x.z, x.w) * kTurn);
}

}  // namespace peal::simt::cuda

// ---- whole numbers

inline unsigned curand(curandStateXORWOW* state) {
  const unsigned t = state->v[0] ^ state->v[0] >> 2, last = state->v[4];
  for (int i = 0; i < 4; ++i) state->v[i] = state->v[i + 1];
  state->v[4] = last ^ last << 4 ^ (t ^ t << 1);
  state->d += 362437;
  return state->v[4] + state->d;
}

inline unsigned curand(curandStatePhilox4_32_10* state) {
  const unsigned all[] = {state->output.x, state->output.y, state->output.z, state->output.w};
  const unsigned result = all[state->used];
  if (++state->used == 4) {
    state->used = 0;
    peal::simt::cuda::add_to_counter(state, 1);
    state->output = peal::simt::cuda::philox4x32_10(state->ctr, state->key);
  }
  return result;
}

inline uint4 curand4(curandStatePhilox4_32_10* state) {
  const unsigned x = curand(state), y = curand(state), z = curand(state);
  return {x, y, z, curand(state)};
}

inline void skipahead(unsigned long long n, curandStateXORWOW* state) {
  peal::simt::cuda::skip_xorwow(state->v, n);
  state->d += static_cast<unsigned>(n) * 362437;
}
inline void skipahead_sequence(unsigned long long n, curandStateXORWOW* state) {
  peal::simt::cuda::skip_xorwow_sequences(state->v, n);
}
inline void skipahead(unsigned long long n, curandStatePhilox4_32_10* state) {
  const unsigned used = state->used + static_cast<unsigned>(n & 3);
  peal::simt::cuda::add_to_counter(state, n / 4 + used / 4);
  state->used = used % 4;
  state->output = peal::simt::cuda::philox4x32_10(state->ctr, state->key);
}
inline void skipahead_sequence(unsigned long long n, curandStatePhilox4_32_10* state) {
  const uint64_t high = (uint64_t{state->ctr.w} << 32 | state->ctr.z) + n;
  state->ctr.z = static_cast<unsigned>(high);
  state->ctr.w = static_cast<unsigned>(high >> 32);
  state->output = peal::simt::cuda::philox4x32_10(state->ctr, state->key);
}

/// The subsequences of one seed lie 2^67 numbers apart, for Philox 2^66.
inline void curand_init(unsigned long long seed, unsigned long long subsequence,
                        unsigned long long offset, curandStateXORWOW* state) {
  const unsigned low = 1099087573 * (static_cast<unsigned>(seed) ^ 0xaad26b49);
  const unsigned high = 2591861531 * (static_cast<unsigned>(seed >> 32) ^ 0xf7dcefdd);
  *state = {6615241 + low + high,
            {123456789 + low, 362436069 ^ low, 521288629 + high, 88675123 ^ high, 5783321 + low},
            {},
            {}};
  skipahead_sequence(subsequence, state);
  skipahead(offset, state);
}
inline void curand_init(unsigned long long seed, unsigned long long subsequence,
                        unsigned long long offset, curandStatePhilox4_32_10* state) {
  *state = {};
  state->key = {static_cast<unsigned>(seed), static_cast<unsigned>(seed >> 32)};
  skipahead_sequence(subsequence, state);
  skipahead(offset, state);
}

// ---- uniform numbers

template <peal::simt::cuda::RandomState State>
float curand_uniform(State* state) {
  return peal::simt::cuda::uniform(curand(state));
}
inline double curand_uniform_double(curandStateXORWOW* state) {
  const unsigned low = curand(state);
  return peal::simt::cuda::uniform(low, curand(state));
}
/// Uses 32 bits only, as cuRAND does.
inline double curand_uniform_double(curandStatePhilox4_32_10* state) {
  return curand(state) * 0x1p-32 + 0x1p-32;
}
inline float4 curand_uniform4(curandStatePhilox4_32_10* state) {
  using peal::simt::cuda::uniform;
  const uint4 all = curand4(state);
  return {uniform(all.x), uniform(all.y), uniform(all.z), uniform(all.w)};
}
inline double2 curand_uniform2_double(curandStatePhilox4_32_10* state) {
  using peal::simt::cuda::uniform;
  const uint4 all = curand4(state);
  return {uniform(all.x, all.y), uniform(all.z, all.w)};
}
inline double4 curand_uniform4_double(curandStatePhilox4_32_10* state) {
  const double2 first = curand_uniform2_double(state), second = curand_uniform2_double(state);
  return {first.x, first.y, second.x, second.y};
}

// ---- normal numbers

template <peal::simt::cuda::RandomState State>
float2 curand_normal2(State* state) {
  const unsigned x = curand(state);
  return peal::simt::cuda::normals(x, curand(state));
}
template <peal::simt::cuda::RandomState State>
double2 curand_normal2_double(State* state) {
  const unsigned x = curand(state), y = curand(state), z = curand(state);
  return peal::simt::cuda::normals(uint4{x, y, z, curand(state)});
}
inline float4 curand_normal4(curandStatePhilox4_32_10* state) {
  const uint4 all = curand4(state);
  const float2 first = peal::simt::cuda::normals(all.x, all.y);
  const float2 second = peal::simt::cuda::normals(all.z, all.w);
  return {first.x, first.y, second.x, second.y};
}

namespace peal::simt::cuda {

/// The kept number where it is of this kind, else the first of two new ones.
template <class Real, class Draw>
Real first_or_kept(KeptNormal<Real>* kept, typename KeptNormal<Real>::Kind kind, Draw draw) {
  if (kept->kind == kind) {
    kept->kind = KeptNormal<Real>::Kind::kNone;
    return kept->value;
  }
  const auto both = draw();
  *kept = {kind, both.y};
  return both.x;
}

}  // namespace peal::simt::cuda

template <peal::simt::cuda::RandomState State>
float curand_normal(State* state) {
  using Kept = peal::simt::cuda::KeptNormal<float>;
  return peal::simt::cuda::first_or_kept(&state->kept, Kept::Kind::kNormal,
                                         [=] { return curand_normal2(state); });
}
template <peal::simt::cuda::RandomState State>
double curand_normal_double(State* state) {
  using Kept = peal::simt::cuda::KeptNormal<double>;
  return peal::simt::cuda::first_or_kept(&state->kept_double, Kept::Kind::kNormal,
                                         [=] { return curand_normal2_double(state); });
}
template <peal::simt::cuda::RandomState State>
float2 curand_log_normal2(State* state, float mean, float deviation) {
  const float2 both = curand_normal2(state);
  return {std::exp(mean + deviation * both.x), std::exp(mean + deviation * both.y)};
}
template <peal::simt::cuda::RandomState State>
double2 curand_log_normal2_double(State* state, double mean, double deviation) {
  const double2 both = curand_normal2_double(state);
  return {std::exp(mean + deviation * both.x), std::exp(mean + deviation * both.y)};
}
template <peal::simt::cuda::RandomState State>
float curand_log_normal(State* state, float mean, float deviation) {
  using Kept = peal::simt::cuda::KeptNormal<float>;
  return peal::simt::cuda::first_or_kept(&state->kept, Kept::Kind::kLogNormal, [=] {
    return curand_log_normal2(state, mean, deviation);
  });
}
template <peal::simt::cuda::RandomState State>
double curand_log_normal_double(State* state, double mean, double deviation) {
  using Kept = peal::simt::cuda::KeptNormal<double>;
  return peal::simt::cuda::first_or_kept(&state->kept_double, Kept::Kind::kLogNormal, [=] {
    return curand_log_normal2_double(state, mean, deviation);
  });
}
