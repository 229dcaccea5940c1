// SPDX-License-Identifier: Apache-2.0
#include "host/memory/heap_memory.h"

namespace peal {
namespace {

constexpr size_t kHead = 3;   // words: segments, blocks, grown
constexpr size_t kEntry = 3;  // of a segment, and of a block

}  // namespace

std::vector<uint64_t> HeapMemory::words() const {
  std::vector<uint64_t> words = {segments.size(), blocks.size(), grown};
  for (const Segment& one : segments) {
    words.insert(words.end(), {one.number, static_cast<uint64_t>(one.kind), one.bytes});
  }
  for (const Block& one : blocks) words.insert(words.end(), {one.segment, one.offset, one.bytes});
  return words;
}

HeapMemory HeapMemory::from_words(std::span<const uint64_t> words) {
  HeapMemory heap;
  heap.grown = words[2];
  const size_t segments = words[0];
  for (size_t i = 0; i < segments + words[1]; ++i) {
    const std::span<const uint64_t> entry = words.subspan(kHead + i * kEntry, kEntry);
    if (i < segments) {
      heap.segments.push_back({entry[0], static_cast<HeapKind>(entry[1]), entry[2]});
    } else {
      heap.blocks.push_back({entry[0], entry[1], entry[2]});
    }
  }
  heap.memory.resize(segments);
  return heap;
}

}  // namespace peal
