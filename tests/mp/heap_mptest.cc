// SPDX-License-Identifier: Apache-2.0
//
// The symmetric heap through the Runtime: the same place on every PE, proved by transfers; and
// every misuse, after which the heap must go on working.
#include <random>
#include <set>
#include <vector>

#include "tests/support/error_of.h"
#include "tests/support/job.h"

namespace peal::api_test {
namespace {

struct Piece {
  std::byte* data;
  size_t bytes;
};

/// Writes the sender's mark to both ends of each piece of the next PE.
PEAL_KERNEL mark_ends(Verdict* verdict, Context ctx, const Piece* pieces, size_t count) {
  const int next = (my_pe(ctx) + 1) % n_pes(ctx);
  for (size_t i = thread_in_block(); i < count; i += threads_in_block()) {
    const auto mark = static_cast<unsigned char>(i * 16 + static_cast<size_t>(my_pe(ctx)) + 1);
    expect_ok(verdict, p(ctx, reinterpret_cast<unsigned char*>(pieces[i].data), mark, next));
    expect_ok(
        verdict,
        p(ctx, reinterpret_cast<unsigned char*>(pieces[i].data + pieces[i].bytes - 1), mark, next));
  }
  expect_ok(verdict, barrier_all(ctx, block));
}

void expect_symmetric(Runtime& pe, const std::vector<Piece>& pieces) {
  run_clean(pe, {.blocks = 1, .threads = 64}, mark_ends, pe.context(), pieces.data(),
            pieces.size());
  const int before = (pe.my_pe() + pe.n_pes() - 1) % pe.n_pes();
  for (size_t i = 0; i < pieces.size(); ++i) {
    const auto mark = static_cast<std::byte>(i * 16 + static_cast<size_t>(before) + 1);
    EXPECT_EQ(pieces[i].data[0], mark) << "piece " << i;
    EXPECT_EQ(pieces[i].data[pieces[i].bytes - 1], mark) << "piece " << i;
  }
  pe.barrier();
}

/// The heap still answers, and alike on all PEs.
void expect_usable(Runtime& pe) {
  auto* const data = static_cast<std::byte*>(pe.malloc(1000));
  expect_symmetric(pe, {{data, 1000}});
  pe.free(data);
}

TEST(Heap, BlocksLieAtTheSamePlaceOnEveryPe) {
  on_every_pe([](Runtime& pe) {
    std::vector<Piece> pieces;
    for (const size_t bytes : {1u, 127u, 128u, 129u, 4096u, 100'000u, 3u, 1u << 20}) {
      pieces.push_back({static_cast<std::byte*>(pe.malloc(bytes)), bytes});
      pieces.push_back({static_cast<std::byte*>(pe.calloc(bytes, 2)), 2 * bytes});
      pieces.push_back({static_cast<std::byte*>(pe.align(4096, bytes)), bytes});
    }
    for (const Piece& piece : pieces) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(piece.data) % 128, 0u);
    }
    expect_symmetric(pe, pieces);
    for (const Piece& piece : pieces) pe.free(piece.data);
  });
}

TEST(Heap, StaysSymmetricThroughARandomLife) {
  on_every_pe([](Runtime& pe) {
    std::mt19937 random(20);  // the same on all PEs
    std::vector<Piece> pieces;
    for (int step = 0; step < 300; ++step) {
      if (pieces.size() > 40 || (!pieces.empty() && random() % 3 == 0)) {
        const size_t victim = random() % pieces.size();
        pe.free(pieces[victim].data);
        pieces.erase(pieces.begin() + static_cast<ptrdiff_t>(victim));
      } else {
        const size_t bytes = 1 + random() % (1u << (random() % 16));
        pieces.push_back({static_cast<std::byte*>(pe.malloc(bytes)), bytes});
      }
      if (step % 100 == 99) expect_symmetric(pe, pieces);
    }
    for (const Piece& piece : pieces) pe.free(piece.data);
  });
}

TEST(Heap, FreedMemoryIsReusedAndCallocZeroesIt) {
  on_every_pe([](Runtime& pe) {
    std::set<void*> places;
    for (int round = 0; round < 50; ++round) {
      auto* const data = static_cast<std::byte*>(pe.calloc(1, 3 << 20));
      EXPECT_EQ(first_other(data, 3 << 20, std::byte{0}), size_t{3} << 20);
      places.insert(data);
      if (round % 10 == 0) fill(data, 3 << 20, 1);
      pe.free(data);
    }
    EXPECT_EQ(places.size(), 1u);
  });
}

TEST(Heap, NothingIsNullAndFreeingItIsFine) {
  on_every_pe([](Runtime& pe) {
    EXPECT_EQ(pe.malloc(0), nullptr);
    EXPECT_EQ(pe.calloc(0, 8), nullptr);
    EXPECT_EQ(pe.calloc(8, 0), nullptr);
    EXPECT_EQ(pe.align(4096, 0), nullptr);
    pe.free(nullptr);
    expect_usable(pe);
  });
}

TEST(Heap, UnequalSizesAreAnErrorOnAllPes) {
  on_every_pe([](Runtime& pe) {
    if (pe.n_pes() == 1) GTEST_SKIP() << "one PE agrees with itself";
    const size_t bytes = pe.my_pe() == 1 ? 64 : 128;
    const std::string what = "PE 1 for 64 bytes by malloc";
    expect_error(error_of([&] { pe.malloc(bytes); }), ErrorCode::kInvalidArgument, {what});
    expect_usable(pe);
  });
}

TEST(Heap, DifferentCallsAreAnErrorOnAllPes) {
  on_every_pe([](Runtime& pe) {
    if (pe.n_pes() == 1) GTEST_SKIP() << "one PE agrees with itself";
    auto* const data = pe.malloc(256);
    const auto call = [&] { pe.my_pe() == 0 ? pe.free(data) : void(pe.malloc(256)); };
    expect_error(error_of(call), ErrorCode::kInvalidArgument, {"PE 0 asked for free of the block"});
    pe.free(data);
    expect_usable(pe);
  });
}

TEST(Heap, DifferentAlignmentsAreAnErrorOnAllPes) {
  on_every_pe([](Runtime& pe) {
    if (pe.n_pes() == 1) GTEST_SKIP() << "one PE agrees with itself";
    const size_t alignment = pe.my_pe() == 0 ? 256 : 512;
    expect_error(error_of([&] { pe.align(alignment, 64); }), ErrorCode::kInvalidArgument,
                 {"PE 0 asked for 64 bytes aligned to 256"});
    expect_usable(pe);
  });
}

TEST(Heap, ExhaustionNamesWhatIsLeftAndTheRemedy) {
  on_every_pe([](Runtime& pe) {
    const size_t limit = pe.config().heap_limit;
    expect_error(error_of([&] { pe.malloc(limit); }), ErrorCode::kOutOfMemory,
                 {"PEAL_HEAP_SIZE", "PEAL_HEAP_LIMIT"});
    expect_error(error_of([&] { pe.malloc(~size_t{0}); }), ErrorCode::kOutOfMemory,
                 {"largest free"});
    expect_error(error_of([&] { pe.calloc(size_t{1} << 40, size_t{1} << 40); }),
                 ErrorCode::kOutOfMemory, {"largest free"});
    std::vector<void*> blocks;
    const Error error = error_of([&] {
      for (;;) blocks.push_back(pe.malloc(1 << 20));
    });
    expect_error(error, ErrorCode::kOutOfMemory, {"largest free", "does not grow beyond"});
    EXPECT_GT(blocks.size(), limit * 7 / 8 >> 20);
    for (void* block : blocks) pe.free(block);
    void* const most = pe.malloc(pe.config().heap_size - (1 << 20));  // the pieces are one again
    EXPECT_NE(most, nullptr);
    pe.free(most);
    expect_usable(pe);
  });
}

TEST(Heap, GrowsWhereABlockDoesNotFitAndShrinksWithIt) {
  on_every_pe([](Runtime& pe) {
    const size_t bytes = pe.config().heap_size;
    const auto grown = [&](size_t size) {
      return Piece{static_cast<std::byte*>(pe.calloc(1, size)), size};
    };
    for (int round = 0; round < 3; ++round) {
      const std::vector<Piece> pieces{grown(bytes), grown(1000), grown(bytes + (5u << 20) + 3),
                                      grown(bytes / 2)};
      expect_symmetric(pe, pieces);
      EXPECT_EQ(first_other(pieces[2].data + 1, bytes, std::byte{0}), bytes);
      pe.free(pieces[0].data);
      expect_symmetric(pe, {pieces[1], pieces[2]});
      for (size_t i = 1; i < pieces.size(); ++i) pe.free(pieces[i].data);
    }
    expect_usable(pe);
  });
}

// All kinds of transfer, where the heap is not the first segment.
PEAL_KERNEL exchange_words(Verdict* verdict, Context ctx, uint64_t* words) {
  const int next = (my_pe(ctx) + 1) % n_pes(ctx);
  const auto mine = static_cast<uint64_t>(my_pe(ctx)) + 1;
  if (thread_in_block() == 0) {
    words[0] = mine;
    expect_ok(verdict, put(ctx, words + 8, words, 1, next));
    expect_ok(verdict, atomic_add(ctx, words + 16, mine, next));
    expect_ok(verdict, signal(ctx, Signal::set(words + 24, mine, next)));
    expect_ok(verdict, quiet(ctx));
  }
  expect_ok(verdict, barrier_all(ctx, block));
  if (thread_in_block() == 0) {
    const Fetched<uint64_t> got = g(ctx, words + 8, next);
    expect_ok(verdict, got.status);
    expect_eq(verdict, got.value, mine);
  }
  expect_ok(verdict, barrier_all(ctx, block));
}

TEST(Heap, AllTransfersReachWhatItGrewBy) {
  on_every_pe([](Runtime& pe) {
    void* const all = pe.malloc(pe.config().heap_size - (1 << 20));
    auto* const words = static_cast<uint64_t*>(pe.calloc(1 << 18, 8));
    const uint64_t before = static_cast<uint64_t>((pe.my_pe() + pe.n_pes() - 1) % pe.n_pes()) + 1;
    run_clean(pe, {.blocks = 1, .threads = 32}, exchange_words, pe.context(), words);
    for (const size_t word : {8, 16, 24}) EXPECT_EQ(words[word], before) << word;
    pe.barrier();
    pe.free(words);
    pe.free(all);
  });
}

TEST(Heap, HasMemoryOfTheHostToo) {
  on_every_pe([](Runtime& pe) {
    auto* const data = static_cast<std::byte*>(pe.calloc(1, 5000, HeapKind::kHost));
    expect_symmetric(pe, {{data, 5000}});
    pe.free(data);
    auto* const aligned = static_cast<std::byte*>(pe.align(4096, 100, HeapKind::kHost));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(aligned) % 4096, 0u);
    pe.free(aligned);
    expect_usable(pe);
  });
}

TEST(Heap, WhatItGrewByIsNoWindowToUnregister) {
  on_every_pe([](Runtime& pe) {
    void* const data = pe.malloc(pe.config().heap_size + 1);
    for (uint32_t number = 0; number < 4; ++number) {
      expect_error(error_of([&] { pe.unregister_window(WindowHandle{number}); }),
                   ErrorCode::kInvalidArgument, {"no window"});
    }
    expect_error(error_of([&] { pe.unregister_window(data); }), ErrorCode::kInvalidArgument,
                 {"no window"});
    pe.free(data);
  });
}

TEST(Heap, AlignmentsThatAreNoneAreRefused) {
  on_every_pe([](Runtime& pe) {
    for (const size_t alignment : {size_t{0}, size_t{3}, size_t{96}, size_t{1} << 40}) {
      expect_error(error_of([&] { pe.align(alignment, 64); }), ErrorCode::kInvalidArgument,
                   {fmt::format("alignment {} is not a power of two", alignment)});
    }
    expect_usable(pe);
  });
}

TEST(Heap, FreeRefusesWhatMallocDidNotAnswer) {
  on_every_pe([](Runtime& pe) {
    auto* const data = static_cast<std::byte*>(pe.malloc(1000));
    std::byte mine[8];
    const auto refused = [&](void* pointer, const std::string& why) {
      expect_error(error_of([&] { pe.free(pointer); }), ErrorCode::kInvalidArgument, {why});
    };
    refused(mine, "not in the symmetric heap");
    refused(data + 128, "in the middle of the block of");
    refused(data + 1, "in the middle of the block of");
    pe.free(data);
    refused(data, "freed already, or never allocated");
    expect_usable(pe);
  });
}

}  // namespace
}  // namespace peal::api_test
