// SPDX-License-Identifier: Apache-2.0
//
// Patterns of bytes: what a message of a seed has at each place, and where memory has something
// else. Tests are compiled without the optimizer and look at megabytes byte by byte: the loops are
// in bytes.cc, which is optimized, and answer a place, so that one assertion stands for all bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace peal::api_test {

/// Byte `i` of message `seed`.
inline std::byte pattern(uint64_t seed, uint64_t i) {
  return static_cast<std::byte>((((i + 1) * 0x9e3779b97f4a7c15u) ^ (seed * 0xd1b54a32d192ed03u)) >>
                                56);
}
void fill(void* data, size_t bytes, uint64_t seed);

/// The first byte that is not message `seed`'s, or `bytes`. The message's byte `from` comes first.
size_t first_difference(const void* data, size_t bytes, uint64_t seed, uint64_t from = 0);

/// The first byte that is not `value`, or `bytes`.
size_t first_other(const void* data, size_t bytes, std::byte value);

/// Word `i` of message `seed` where that is one of words: different in each.
inline uint64_t pattern_word(uint64_t seed, uint64_t i) { return (i + seed) * 0x9e3779b97f4a7c15u; }
void fill_words(uint64_t* data, size_t words, uint64_t seed);

/// The first word that is not message `seed`'s, or `words`.
size_t first_wrong_word(const uint64_t* data, size_t words, uint64_t seed);

}  // namespace peal::api_test
