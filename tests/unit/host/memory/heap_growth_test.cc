// SPDX-License-Identifier: Apache-2.0
//
// A heap that grows, with PEs as threads: agreement on segments, limits, growth that fails on one
// PE, and the end of a segment.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "bootstrap/bootstraps.h"
#include "host/memory/symmetric_heap.h"
#include "tests/support/error_of.h"

namespace peal {
namespace {

constexpr size_t kBytes = 1 << 20;

/// What one PE's heap has asked for.
struct Asked {
  std::vector<size_t> made;
  std::set<uint32_t> shown;
  uint32_t next = 7;
  bool refuses = false;
};

HeapGrowth growth(Asked& asked, uint64_t limit) {
  return {.step = kBytes,
          .limit = limit,
          .make =
              [&asked](size_t bytes, HeapKind) {
                if (asked.refuses) fail(ErrorCode::kOutOfMemory, "no {} bytes here", bytes);
                asked.made.push_back(bytes);
                return make_host_backing(bytes, "peal-test");
              },
          .publish =
              [&asked](const Backing&) {
                asked.shown.insert(asked.next);
                return asked.next++;
              },
          .hide = [&asked](uint32_t window) { EXPECT_EQ(asked.shown.erase(window), 1u); }};
}

void on_each_pe(int pes, uint64_t limit,
                const std::function<void(Bootstrap&, SymmetricHeap&, Asked&)>& body) {
  bootstrap::run_threads(pes, [&](Bootstrap& group) {
    SymmetricHeap heap(make_host_backing(kBytes, "peal-test"), group);
    Asked asked;
    asked.next += static_cast<uint32_t>(group.rank());  // numbers of windows differ by PE
    heap.grow_by(growth(asked, limit));
    body(group, heap, asked);
  });
}

class Pes : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(HeapGrowth, Pes, ::testing::Values(1, 3));

TEST_P(Pes, TakeASegmentMoreForWhatDoesNotFit) {
  on_each_pe(GetParam(), 8 * kBytes, [](Bootstrap&, SymmetricHeap& heap, Asked& asked) {
    auto* const small = static_cast<std::byte*>(heap.malloc(kBytes / 2));
    auto* const other = static_cast<std::byte*>(heap.malloc(kBytes / 2 + 1));  // a step
    auto* const large = static_cast<std::byte*>(heap.malloc(2 * kBytes));      // more than a step
    EXPECT_EQ(asked.made, (std::vector<size_t>{kBytes, 2 * kBytes}));
    EXPECT_EQ(heap.segments(), 3u);
    for (std::byte* const block : {small, other, large}) EXPECT_TRUE(heap.contains(block));
    std::memset(large, 1, 2 * kBytes);
    auto* const third = static_cast<std::byte*>(heap.malloc(kBytes / 4));  // there is room
    EXPECT_EQ(heap.segments(), 3u);
    for (std::byte* const block : {small, other, large, third}) heap.free(block);
    EXPECT_EQ(heap.segments(), 1u);
    EXPECT_TRUE(asked.shown.empty());
    EXPECT_FALSE(heap.contains(large));
    EXPECT_EQ(heap.allocated(), 0u);
  });
}

TEST_P(Pes, ZeroWhatCallocAnswersInASegment) {
  on_each_pe(GetParam(), 8 * kBytes, [](Bootstrap&, SymmetricHeap& heap, Asked&) {
    void* const keeps = heap.malloc(2 * kBytes - 65536);
    auto* const dirty = static_cast<std::byte*>(heap.malloc(65536));
    std::memset(dirty, 1, 65536);
    heap.free(dirty);
    auto* const clean = static_cast<std::byte*>(heap.calloc(1024, 64));
    for (size_t i = 0; i < 65536; ++i) ASSERT_EQ(clean[i], std::byte{0});
    heap.free(clean);
    heap.free(keeps);
  });
}

TEST_P(Pes, AlignInASegment) {
  on_each_pe(GetParam(), 8 * kBytes, [](Bootstrap&, SymmetricHeap& heap, Asked&) {
    void* const first = heap.malloc(kBytes);
    for (size_t alignment = 128; alignment <= 524288; alignment *= 2) {
      void* const block = heap.align(alignment, kBytes / 2);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % alignment, 0u);
      EXPECT_EQ(heap.segments(), 2u);
      heap.free(block);
    }
    heap.free(first);
  });
}

TEST_P(Pes, StopAtTheLimit) {
  on_each_pe(GetParam(), 2 * kBytes + kBytes / 2, [](Bootstrap&, SymmetricHeap& heap, Asked&) {
    void* const first = heap.malloc(kBytes);
    void* const second = heap.malloc(kBytes);
    expect_error(error_of([&] { heap.malloc(kBytes / 2 + 1); }), ErrorCode::kOutOfMemory,
                 {"symmetric heap of 2097152 bytes has no 524289 bytes", "0 are free in 0",
                  "does not grow beyond 2560K", "PEAL_HEAP_LIMIT"});
    void* const last = heap.malloc(kBytes / 2);  // a segment of less than a step
    EXPECT_EQ(heap.segments(), 3u);
    heap.free(first);
    expect_error(error_of([&] { heap.malloc(kBytes + 1); }), ErrorCode::kOutOfMemory,
                 {"1048576 are free in 1 piece, the largest free block has 1048576"});
    heap.free(second);
    heap.free(last);
  });
}

TEST_P(Pes, SayThatTheyCannotGrowWhenOneCannot) {
  on_each_pe(GetParam(), 8 * kBytes, [](Bootstrap& group, SymmetricHeap& heap, Asked& asked) {
    asked.refuses = group.rank() == group.size() - 1;
    const Error error = error_of([&] { heap.malloc(2 * kBytes); });
    expect_error(error, ErrorCode::kOutOfMemory,
                 {"has no 2097152 bytes", "could not grow by 2097152 bytes",
                  "no 2097152 bytes here", "1048576 are free"});
    EXPECT_EQ(heap.segments(), 1u);
    asked.refuses = false;
    void* const block = heap.malloc(2 * kBytes);
    EXPECT_NE(block, nullptr);
    heap.free(block);
  });
}

TEST_P(Pes, TellOfPlacesInASegment) {
  on_each_pe(GetParam(), 8 * kBytes, [](Bootstrap&, SymmetricHeap& heap, Asked&) {
    auto* const block = static_cast<std::byte*>(heap.malloc(2 * kBytes - 128));
    EXPECT_EQ(heap.place_of(block + 8),
              "byte 8 of the 2097024 bytes at offset 0x0 of heap segment 1");
    EXPECT_EQ(heap.place_of(block + 2 * kBytes - 128),
              "offset 0x1fff80 of heap segment 1, which is not allocated");
    expect_error(error_of([&] { heap.free(block + 128); }), ErrorCode::kInvalidArgument,
                 {"in the middle of the block of 2097024 bytes"});
    expect_error(error_of([&] { heap.offset_of(block); }), ErrorCode::kInvalidArgument,
                 {"is not in the symmetric heap"});
    heap.free(block);
    expect_error(error_of([&] { heap.free(block); }), ErrorCode::kInvalidArgument,
                 {"not in the symmetric heap"});
  });
}

TEST(HeapGrowth, ComparesSegmentsThatAreFreed) {
  on_each_pe(2, 8 * kBytes, [](Bootstrap& group, SymmetricHeap& heap, Asked&) {
    void* const one = heap.malloc(2 * kBytes);
    void* const two = heap.malloc(2 * kBytes);
    expect_error(error_of([&] { heap.free(group.rank() == 0 ? one : two); }),
                 ErrorCode::kInvalidArgument,
                 {"PE 0 asked for free of the block at offset 0 of segment 1",
                  "PE 1 for free of the block at offset 0 of segment 2"});
    heap.free(one);
    void* const three = heap.malloc(2 * kBytes);  // its number is not that of one before
    EXPECT_EQ(heap.place_of(three), "byte 0 of the 2097152 bytes at offset 0x0 of heap segment 3");
    heap.free(two);
    heap.free(three);
  });
}

TEST(HeapGrowth, ComparesKindsOfMemory) {
  static constexpr Backing::Operations kOfAGpu{
      .release = [](const Backing::Block&) noexcept {},
      .zero = [](const Backing::Block&, std::byte* at,
                 size_t bytes) { std::memset(at, 0, bytes); }};
  bootstrap::run_threads(2, [](Bootstrap& group) {
    const Backing pages = make_host_backing(kBytes, "peal-test");
    Backing memory({pages.address(), kBytes, -1, false, nullptr}, kOfAGpu);
    SymmetricHeap heap(std::move(memory), group);
    Asked asked;
    std::vector<HeapKind> kinds;
    HeapGrowth growing = growth(asked, 2 * kBytes);
    growing.make = [&, make = growing.make](size_t bytes, HeapKind kind) {
      kinds.push_back(kind);
      return make(bytes, kind);
    };
    expect_error(error_of([&] { heap.malloc(64, HeapKind::kHost); }), ErrorCode::kOutOfMemory,
                 {"symmetric heap of 0 bytes of host memory has no 64 bytes", "does not grow"});
    heap.grow_by(growing);
    expect_error(
        error_of([&] { heap.malloc(64, group.rank() == 0 ? HeapKind::kHost : HeapKind::kDevice); }),
        ErrorCode::kInvalidArgument,
        {"PE 0 asked for 64 bytes by malloc of host memory", "PE 1 for 64 bytes by malloc"});
    void* const host = heap.malloc(64, HeapKind::kHost);
    EXPECT_EQ(kinds, std::vector<HeapKind>{HeapKind::kHost});
    EXPECT_EQ(heap.malloc(64), heap.base());
    // A limit of its own: 2 MiB of the host are fine beside the first MiB of the device.
    void* const more = heap.malloc(kBytes, HeapKind::kHost);
    expect_error(error_of([&] { heap.malloc(kBytes, HeapKind::kHost); }), ErrorCode::kOutOfMemory,
                 {"does not grow beyond 2M"});
    heap.free(host);
    heap.free(more);
    EXPECT_EQ(heap.segments(), 1u);
  });
}

}  // namespace
}  // namespace peal
