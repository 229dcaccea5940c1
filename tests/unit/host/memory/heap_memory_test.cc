// SPDX-License-Identifier: Apache-2.0
//
// Heaps that go on from what others were (Runtime::rejoin), with PEs as threads. PE 0 has its
// memory of before, PE 1 is new.
#include "host/memory/heap_memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "bootstrap/bootstraps.h"
#include "host/memory/symmetric_heap.h"
#include "tests/support/error_of.h"

namespace peal {
namespace {

constexpr size_t kBytes = 1 << 20;

HeapGrowth growth(uint32_t& windows) {
  return {.step = kBytes,
          .limit = 8 * kBytes,
          .make = [](size_t bytes, HeapKind) { return make_host_backing(bytes, "peal-test"); },
          .publish = [&windows](const Backing&) { return windows++; },
          .hide = [](uint32_t) {}};
}

/// What a new process begins with, as it hears of it.
HeapMemory as_new(const HeapMemory& kept) {
  HeapMemory heap = HeapMemory::from_words(kept.words());
  for (size_t i = 0; i < heap.segments.size(); ++i) {
    heap.memory[i] =
        std::make_shared<Backing>(make_host_backing(heap.segments[i].bytes, "peal-test"));
  }
  return heap;
}

/// A heap of before: internal memory, three blocks of which the second was freed, and one beyond.
HeapMemory heap_of_before() {
  HeapMemory kept;
  bootstrap::run_threads(1, [&](Bootstrap& group) {
    uint32_t windows = 3;
    SymmetricHeap heap(make_host_backing(kBytes, "peal-test"), group);
    heap.grow_by(growth(windows));
    std::memset(heap.reserve_internal(1000), 0x77, 1000);
    std::memset(heap.malloc(100), 1, 100);
    void* const hole = heap.malloc(200);
    std::memset(heap.malloc(3 * kBytes), 3, 3 * kBytes);
    std::memset(heap.malloc(300), 4, 300);
    heap.free(hole);
    kept = heap.memory();
  });
  return kept;
}

std::vector<size_t> sizes_of(const std::vector<HeapBlock>& blocks) {
  std::vector<size_t> sizes;
  for (const HeapBlock& block : blocks) sizes.push_back(block.bytes);
  return sizes;
}

TEST(HeapMemory, GoesOnWithItsBlocks) {
  const HeapMemory kept = heap_of_before();
  bootstrap::run_threads(2, [&](Bootstrap& group) {
    const bool lived = group.rank() == 0;
    uint32_t windows = 20;
    SymmetricHeap heap(lived ? kept : as_new(kept), group);
    heap.grow_by(growth(windows));
    const std::vector<HeapBlock> blocks = heap.blocks();
    ASSERT_EQ(sizes_of(blocks), (std::vector<size_t>{100, 3 * kBytes, 300}));
    for (const size_t i : {0, 1, 2}) {
      const auto* const bytes = static_cast<const char*>(blocks[i].address);
      const char expected = lived ? static_cast<char>(i == 0 ? 1 : i + 2) : '\0';
      EXPECT_EQ(std::string(bytes, blocks[i].bytes), std::string(blocks[i].bytes, expected));
    }
    EXPECT_EQ(windows, 21u);
    EXPECT_TRUE(heap.owns(20));
    // The runtime's own is where it was, and zero.
    std::byte* const internal = heap.reserve_internal(1000);
    EXPECT_EQ(internal, heap.base());
    EXPECT_EQ(std::string(reinterpret_cast<char*>(internal), 1000), std::string(1000, '\0'));
    // The two deal out alike from now on; the hole is used first.
    void* const more = heap.malloc(150);
    EXPECT_EQ(heap.offset_of(more), 1024u + 128);
    EXPECT_EQ(sizes_of(heap.blocks()), (std::vector<size_t>{100, 3 * kBytes, 300, 150}));
    heap.free(blocks[1].address);
    EXPECT_FALSE(heap.owns(20));
    EXPECT_EQ(sizes_of(heap.blocks()), (std::vector<size_t>{100, 300, 150}));
  });
}

TEST(HeapMemory, IsGoneWithTheLastWhoHasIt) {
  HeapMemory kept = heap_of_before();
  const std::weak_ptr<Backing> beyond = kept.memory.at(1);
  bootstrap::run_threads(1, [&](Bootstrap& group) {
    uint32_t windows = 1;
    SymmetricHeap heap(std::exchange(kept, {}), group);
    heap.grow_by(growth(windows));
    EXPECT_FALSE(beyond.expired());
    heap.free(heap.blocks().at(1).address);
    EXPECT_TRUE(beyond.expired());
  });
}

// A start that fails leaves the memory to the next try.
TEST(HeapMemory, MayBeTriedAgain) {
  const HeapMemory kept = heap_of_before();
  for (int round = 0; round < 2; ++round) {
    bootstrap::run_threads(1, [&](Bootstrap& group) {
      SymmetricHeap heap(kept, group);
      EXPECT_EQ(*static_cast<char*>(heap.blocks().at(0).address), 1);
    });
  }
}

TEST(HeapMemory, HasRoomForTheRuntimeAsBefore) {
  const HeapMemory kept = heap_of_before();
  bootstrap::run_threads(1, [&](Bootstrap& group) {
    SymmetricHeap heap(kept, group);
    heap.reserve_internal(1000);
    for (const size_t bytes : {size_t{1000}, 2 * kBytes}) {
      const std::string why =
          refusal(ErrorCode::kConfiguration, [&] { heap.reserve_internal(bytes); });
      EXPECT_NE(why.find("rejoin without keeping the heaps"), std::string::npos) << why;
    }
  });
}

}  // namespace
}  // namespace peal
