// SPDX-License-Identifier: Apache-2.0
//
// The heap with PEs as threads: agreement, refusals on all PEs, reuse.
#include "host/memory/symmetric_heap.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "bootstrap/bootstraps.h"
#include "tests/support/error_of.h"

namespace peal {
namespace {

constexpr size_t kBytes = 1 << 20;

void on_each_pe(int pes, const std::function<void(Bootstrap&, SymmetricHeap&)>& body) {
  bootstrap::run_threads(pes, [&body](Bootstrap& group) {
    SymmetricHeap heap(make_host_backing(kBytes, "peal-test"), group);
    body(group, heap);
  });
}

std::string text_of(const void* pointer) { return fmt::format("{}", fmt::ptr(pointer)); }

class Pes : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(SymmetricHeap, Pes, ::testing::Values(1, 2, 5));

TEST_P(Pes, GetTheSameOffsets) {
  std::mutex mutex;
  std::set<std::vector<uint64_t>> seen;
  on_each_pe(GetParam(), [&](Bootstrap&, SymmetricHeap& heap) {
    std::vector<uint64_t> offsets;
    for (const size_t bytes : {1, 1000, 128, 77, 4096}) {
      offsets.push_back(heap.offset_of(heap.malloc(bytes)));
    }
    offsets.push_back(heap.offset_of(heap.align(65536, 10)));
    heap.free(heap.base() + offsets[1]);
    offsets.push_back(heap.offset_of(heap.calloc(10, 50)));
    const std::lock_guard lock(mutex);
    seen.insert(offsets);
  });
  EXPECT_EQ(seen.size(), 1u);
}

TEST_P(Pes, GetAlignedBlocks) {
  on_each_pe(GetParam(), [](Bootstrap&, SymmetricHeap& heap) {
    for (const size_t bytes : {1, 129, 5}) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(heap.malloc(bytes)) % SymmetricHeap::kAlignment, 0u);
    }
    for (size_t alignment = 1; alignment <= 262144; alignment *= 2) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(heap.align(alignment, 3)) % alignment, 0u);
    }
  });
}

TEST_P(Pes, GetZerosFromCallocEvenInUsedMemory) {
  on_each_pe(GetParam(), [](Bootstrap& group, SymmetricHeap& heap) {
    void* const dirty = heap.malloc(4096);
    std::memset(dirty, 0xff, 4096);
    heap.free(dirty);
    auto* const clean = static_cast<std::byte*>(heap.calloc(8, 512));
    EXPECT_EQ(clean, dirty);
    for (size_t i = 0; i < 4096; ++i) ASSERT_EQ(clean[i], std::byte{0}) << group.rank();
  });
}

TEST_P(Pes, GetNothingForZeroBytes) {
  on_each_pe(GetParam(), [](Bootstrap&, SymmetricHeap& heap) {
    EXPECT_EQ(heap.malloc(0), nullptr);
    EXPECT_EQ(heap.calloc(0, 8), nullptr);
    EXPECT_EQ(heap.calloc(8, 0), nullptr);
    EXPECT_EQ(heap.align(64, 0), nullptr);
    heap.free(nullptr);
    EXPECT_EQ(heap.allocated(), 0u);
  });
}

TEST_P(Pes, ReuseFreedMemoryForEver) {
  on_each_pe(GetParam(), [](Bootstrap&, SymmetricHeap& heap) {
    for (int i = 0; i < 20; ++i) {
      void* const a = heap.malloc(kBytes / 2);
      void* const b = heap.malloc(kBytes / 4);
      heap.free(a);
      heap.free(b);
    }
    EXPECT_EQ(heap.largest_free(), kBytes);
  });
}

TEST_P(Pes, AreAllToldWhenTheHeapIsExhausted) {
  on_each_pe(GetParam(), [](Bootstrap&, SymmetricHeap& heap) {
    heap.malloc(kBytes / 2);
    expect_in(refusal(ErrorCode::kOutOfMemory, [&] { heap.malloc(kBytes / 2 + 1); }),
              {"1048576", "524289", "524288 are free", "largest", "PEAL_HEAP_SIZE"});
    refusal(ErrorCode::kOutOfMemory, [&] { heap.calloc(kBytes, kBytes); });
    refusal(ErrorCode::kOutOfMemory, [&] { heap.calloc(~size_t{0}, 2); });
    refusal(ErrorCode::kOutOfMemory, [&] { heap.malloc(~size_t{0}); });
    EXPECT_NE(heap.malloc(kBytes / 2), nullptr);
  });
}

TEST_P(Pes, RefuseAlignmentsThatAreNone) {
  on_each_pe(GetParam(), [](Bootstrap&, SymmetricHeap& heap) {
    for (const size_t alignment : {size_t{0}, size_t{3}, size_t{96}, size_t{4} << 20}) {
      expect_in(refusal(ErrorCode::kInvalidArgument, [&] { heap.align(alignment, 64); }),
                {std::to_string(alignment), "power of two"});
    }
  });
}

TEST_P(Pes, RefuseToFreeForeignPointers) {
  on_each_pe(GetParam(), [](Bootstrap&, SymmetricHeap& heap) {
    int local = 0;
    expect_in(refusal(ErrorCode::kInvalidArgument, [&] { heap.free(&local); }),
              {text_of(&local), text_of(heap.base()), "not in the symmetric heap"});
    refusal(ErrorCode::kInvalidArgument, [&] { heap.free(heap.base() + kBytes); });
    refusal(ErrorCode::kInvalidArgument, [&] { heap.free(heap.base() - 1); });
  });
}

TEST_P(Pes, RefuseToFreeTheMiddleOfABlock) {
  on_each_pe(GetParam(), [](Bootstrap&, SymmetricHeap& heap) {
    auto* const block = static_cast<std::byte*>(heap.malloc(1024));
    expect_in(refusal(ErrorCode::kInvalidArgument, [&] { heap.free(block + 128); }),
              {text_of(block + 128), "in the middle of the block of 1024 bytes", text_of(block)});
    heap.free(block);
  });
}

TEST_P(Pes, RefuseToFreeTwice) {
  on_each_pe(GetParam(), [](Bootstrap&, SymmetricHeap& heap) {
    void* const block = heap.malloc(64);
    heap.free(block);
    expect_in(refusal(ErrorCode::kInvalidArgument, [&] { heap.free(block); }),
              {text_of(block), "freed already"});
  });
}

TEST_P(Pes, KeepTheRuntimesOwnRegionApart) {
  on_each_pe(GetParam(), [](Bootstrap&, SymmetricHeap& heap) {
    std::byte* const region = heap.reserve_internal(1000);
    EXPECT_EQ(region, heap.base());
    std::byte* const second = heap.reserve_internal(8);
    EXPECT_EQ(second, heap.base() + 1024);
    auto* const block = static_cast<std::byte*>(heap.malloc(64));
    EXPECT_GE(block, second + 8);
    for (std::byte* pointer : {region, second}) {
      expect_in(refusal(ErrorCode::kInvalidArgument, [&] { heap.free(pointer); }), {"runtime"});
    }
    expect_in(refusal(ErrorCode::kInvalidArgument, [&] { heap.reserve_internal(8); }),
              {"in use already"});
  });
}

TEST(SymmetricHeap, SaysWhatEachPeAskedWhenSizesDiffer) {
  on_each_pe(2, [](Bootstrap& group, SymmetricHeap& heap) {
    expect_in(
        refusal(ErrorCode::kInvalidArgument, [&] { heap.malloc(group.rank() == 0 ? 64 : 128); }),
        {"PE 0 asked for 64 bytes", "PE 1 for 128 bytes", "nothing was done"});
    EXPECT_EQ(heap.allocated(), 0u);
    EXPECT_NE(heap.malloc(64), nullptr);  // the heap is as before
  });
}

TEST(SymmetricHeap, PutsPesThatAskedTheSameTogether) {
  on_each_pe(5, [](Bootstrap& group, SymmetricHeap& heap) {
    expect_in(
        refusal(ErrorCode::kInvalidArgument, [&] { heap.malloc(group.rank() == 3 ? 1 : 64); }),
        {"PEs 0-2 asked for 64 bytes by malloc, PE 3 for 1 bytes by malloc, PE 4 for 64 bytes"});
  });
}

TEST(SymmetricHeap, ComparesKindAndAlignmentToo) {
  on_each_pe(2, [](Bootstrap& group, SymmetricHeap& heap) {
    const bool first = group.rank() == 0;
    expect_in(
        refusal(ErrorCode::kInvalidArgument, [&] { first ? heap.malloc(64) : heap.calloc(1, 64); }),
        {"by malloc", "by calloc"});
    expect_in(refusal(ErrorCode::kInvalidArgument, [&] { heap.align(first ? 256 : 512, 64); }),
              {"aligned to 256", "aligned to 512"});
    expect_in(refusal(ErrorCode::kInvalidArgument, [&] { heap.align(first ? 256 : 3, 64); }),
              {"aligned to 3"});
    expect_in(refusal(ErrorCode::kInvalidArgument, [&] { heap.malloc(first ? 0 : 64); }),
              {"PE 0 asked for 0 bytes"});
  });
}

TEST(SymmetricHeap, ComparesWhatIsFreed) {
  on_each_pe(2, [](Bootstrap& group, SymmetricHeap& heap) {
    const bool first = group.rank() == 0;
    void* const a = heap.malloc(64);
    void* const b = heap.malloc(64);
    int local = 0;
    expect_in(refusal(ErrorCode::kInvalidArgument, [&] { heap.free(first ? a : b); }),
              {"PE 0 asked for free of the block at offset 0", "PE 1 for free of the block"});
    expect_in(refusal(ErrorCode::kInvalidArgument, [&] { heap.free(first ? nullptr : b); }),
              {"free of nullptr"});
    expect_in(refusal(ErrorCode::kInvalidArgument, [&] { heap.free(first ? &local : a); }),
              {"outside the heap"});
    expect_in(refusal(ErrorCode::kInvalidArgument,
                      [&] { first ? heap.free(a) : static_cast<void>(heap.malloc(8)); }),
              {"free of the block", "8 bytes by malloc"});
    heap.free(a);
    heap.free(b);
    EXPECT_EQ(heap.allocated(), 0u);
  });
}

TEST(SymmetricHeap, ComparesTheRuntimesRegion) {
  on_each_pe(2, [](Bootstrap& group, SymmetricHeap& heap) {
    heap.reserve_internal(group.rank() == 0 ? 128 : 256);
    expect_in(refusal(ErrorCode::kInvalidArgument, [&] { heap.malloc(8); }),
              {"128 are the runtime's", "256 are the runtime's"});
  });
}

TEST(SymmetricHeap, SaysNothingOfTheRuntimesRegionWhereItIsAlike) {
  on_each_pe(2, [](Bootstrap& group, SymmetricHeap& heap) {
    heap.reserve_internal(128);
    const std::string text =
        refusal(ErrorCode::kInvalidArgument, [&] { heap.malloc(group.rank() == 0 ? 8 : 16); });
    expect_in(text, {"PE 0 asked for 8 bytes by malloc, PE 1 for 16 bytes by malloc;"});
  });
}

TEST(SymmetricHeap, IsRefusedWhenPesHaveDifferentSizes) {
  bootstrap::run_threads(2, [](Bootstrap& group) {
    Backing memory = make_host_backing(group.rank() == 0 ? 65536 : 131072, "peal-test");
    expect_in(
        refusal(ErrorCode::kConfiguration, [&] { SymmetricHeap heap(std::move(memory), group); }),
        {"PE 0 asked for 64K, PE 1 for 128K", "PEAL_HEAP_SIZE"});
  });
}

TEST(SymmetricHeap, IsRefusedOnMisalignedMemory) {
  static constexpr Backing::Operations kNone{.release = [](const Backing::Block&) noexcept {}};
  const auto group = bootstrap::make_single();
  alignas(16) std::byte storage[256];
  expect_in(
      refusal(ErrorCode::kInvalidArgument,
              [&] {
                SymmetricHeap heap(Backing({storage + 8, 128, -1, true, nullptr}, kNone), *group);
              }),
      {"aligned"});
}

TEST(SymmetricHeap, HasNoRoomForARuntimeLargerThanItself) {
  const auto group = bootstrap::make_single();
  SymmetricHeap heap(make_host_backing(4096, "peal-test"), *group);
  expect_in(refusal(ErrorCode::kOutOfMemory, [&] { heap.reserve_internal(8192); }),
            {"8192", "PEAL_HEAP_SIZE"});
}

TEST(SymmetricHeap, KnowsItsAddresses) {
  const auto group = bootstrap::make_single();
  SymmetricHeap heap(make_host_backing(4096, "peal-test"), *group);
  EXPECT_TRUE(heap.contains(heap.base()));
  EXPECT_TRUE(heap.contains(heap.base() + 4095));
  EXPECT_FALSE(heap.contains(heap.base() + 4096));
  EXPECT_FALSE(heap.contains(nullptr));
  EXPECT_EQ(heap.offset_of(heap.base() + 100), 100u);
  refusal(ErrorCode::kInvalidArgument, [&] { heap.offset_of(heap.base() + 4096); });
}

}  // namespace
}  // namespace peal
