// SPDX-License-Identifier: Apache-2.0
//
// XORWOW's five words without its counter are linear over GF(2): a step is a matrix of 160 x 160
// bits, 2^k steps are its square of squares. They are computed once, in 10 ms or so.
#include "simt/runtime/random.h"

#include <array>
#include <vector>

#include "base/immortal.h"

namespace peal::simt::cuda {
namespace {

constexpr int kWords = 5, kBits = 32 * kWords;
constexpr int kSequence = 67;  // 2^67 steps lie between sequences

using Words = std::array<uint32_t, kWords>;
using Matrix = std::array<Words, kBits>;  // what becomes of each bit

Words product(const Matrix& matrix, const Words& words) {
  Words result{};
  for (int bit = 0; bit < kBits; ++bit) {
    if ((words[static_cast<size_t>(bit / 32)] >> (bit % 32) & 1) == 0) continue;
    for (size_t i = 0; i < kWords; ++i) result[i] ^= matrix[static_cast<size_t>(bit)][i];
  }
  return result;
}

/// [k]: 2^k steps.
using Powers = std::vector<Matrix>;

Powers compute_powers() {
  Powers powers(kSequence + 64);
  for (size_t bit = 0; bit < kBits; ++bit) {
    curandStateXORWOW state{};
    state.v[bit / 32] = 1U << (bit % 32);
    curand(&state);
    std::copy(state.v, state.v + kWords, powers[0][bit].begin());
  }
  for (size_t k = 1; k < powers.size(); ++k) {
    for (size_t bit = 0; bit < kBits; ++bit) {
      powers[k][bit] = product(powers[k - 1], powers[k - 1][bit]);
    }
  }
  return powers;
}

void skip(unsigned* words, uint64_t n, size_t power) {
  if (n == 0) return;
  // Kernels draw until the process ends.
  static Immortal<Powers> powers(compute_powers());
  Words all;
  std::copy(words, words + kWords, all.begin());
  for (; n != 0; n >>= 1, ++power) {
    if ((n & 1) != 0) all = product((*powers)[power], all);
  }
  std::copy(all.begin(), all.end(), words);
}

}  // namespace

void skip_xorwow(unsigned* words, uint64_t n) { skip(words, n, 0); }
void skip_xorwow_sequences(unsigned* words, uint64_t n) { skip(words, n, kSequence); }

}  // namespace peal::simt::cuda
