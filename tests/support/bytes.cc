// SPDX-License-Identifier: Apache-2.0
//
// The loops of bytes.h.
#include "tests/support/bytes.h"

namespace peal::api_test {

void fill(void* data, size_t bytes, uint64_t seed) {
  auto* const out = static_cast<std::byte*>(data);
  for (size_t i = 0; i < bytes; ++i) out[i] = pattern(seed, i);
}

size_t first_difference(const void* data, size_t bytes, uint64_t seed, uint64_t from) {
  const auto* const in = static_cast<const std::byte*>(data);
  size_t i = 0;
  while (i < bytes && in[i] == pattern(seed, from + i)) ++i;
  return i;
}

size_t first_other(const void* data, size_t bytes, std::byte value) {
  const auto* const in = static_cast<const std::byte*>(data);
  size_t i = 0;
  while (i < bytes && in[i] == value) ++i;
  return i;
}

void fill_words(uint64_t* data, size_t words, uint64_t seed) {
  for (size_t i = 0; i < words; ++i) data[i] = pattern_word(seed, i);
}

size_t first_wrong_word(const uint64_t* data, size_t words, uint64_t seed) {
  size_t i = 0;
  while (i < words && data[i] == pattern_word(seed, i)) ++i;
  return i;
}

}  // namespace peal::api_test
