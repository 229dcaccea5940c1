// SPDX-License-Identifier: Apache-2.0
//
// Words and small copies of a GPU's memory by the CPU itself: on a driver and a GDRCopy that are
// fakes (tests/support/fake_gdrapi.h).
#include "host/memory/host_view.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "host/memory/backing_cuda.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/fake_gdrapi.h"

namespace peal {
namespace {

class HostViewTest : public testing::Test {
 protected:
  HostViewTest() : cuda_(load_fake_cuda()), gdr_(load_fake_gdrapi()) {
    cuda_.refuse.clear();
    cuda_.memory = size_t{1} << 30;
    gdr_.driver = true;
    gdr_.refuse_pin = gdr_.refuse_map = gdr_.refuse_info = 0;
    gdr_.kind = gdrcopy::kWriteCombining;
    gdr_.elsewhere = false;
    gdr_.early = 0;
    gdr_.pins = 0;
  }
  ~HostViewTest() override {
    EXPECT_EQ(gdr_.live, 0) << "not released";
    EXPECT_EQ(gdr_.mistakes, 0);
    EXPECT_EQ(cuda_.live, 0) << "not released";
    EXPECT_EQ(cuda_.mistakes, 0);
    cuda_.mistakes = gdr_.mistakes = 0;
  }
  std::shared_ptr<Gpu> open(const std::string& asked = fake_gdrapi_path()) const {
    return Gpu::open(0, 0, asked);
  }
  /// Copies of streams that `body` made.
  template <class Body>
  int copies(const Body& body) const {
    const int before = cuda_.copies;
    body();
    return cuda_.copies - before;
  }

  FakeCuda& cuda_;
  FakeGdrapi& gdr_;
};

template <class Word = uint64_t>
Word* word_at(const Backing& memory, size_t offset) {
  return reinterpret_cast<Word*>(memory.address() + offset);
}

void expect_in(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST_F(HostViewTest, ReachesWordsWithoutAStream) {
  const auto gpu = open();
  EXPECT_EQ(gpu->describe_words(), "host words by GDRCopy 2.6, mapped write-combining");
  const Backing memory = make_cuda_backing(gpu, 4096, "test");
  EXPECT_FALSE(memory.host_accessible());
  EXPECT_TRUE(memory.reaches(memory.address(), 8));
  EXPECT_EQ(copies([&] {
              memory.store_word(word_at<uint32_t>(memory, 4), 77);
              memory.store_word(word_at(memory, 8), uint64_t{1} << 40);
              EXPECT_EQ(memory.load_word(word_at<uint32_t>(memory, 4)), 77u);
              EXPECT_EQ(memory.load_word(word_at(memory, 8)), uint64_t{1} << 40);
            }),
            0);
  // A stream sees them: it is the GPU's memory, not a copy.
  uint64_t seen = 0;
  gpu->copy(&seen, word_at(memory, 8), sizeof(seen));
  EXPECT_EQ(seen, uint64_t{1} << 40);
}

TEST_F(HostViewTest, CopiesSmallPiecesOfAnyAlignment) {
  const Backing memory = make_cuda_backing(open(), 4096, "test");
  for (const size_t bytes : {size_t{1}, size_t{2}, size_t{7}, size_t{100}, HostView::kMostOut}) {
    for (const size_t offset : {size_t{64}, size_t{65}, size_t{68}}) {
      std::vector<unsigned char> in(bytes);
      std::iota(in.begin(), in.end(), static_cast<unsigned char>(bytes + offset));
      std::vector<unsigned char> out(bytes + 1, 0xee);
      EXPECT_EQ(copies([&] {
                  memory.copy_in(memory.address() + offset, in.data(), bytes);
                  memory.copy_out(out.data(), memory.address() + offset, bytes);
                }),
                0);
      EXPECT_EQ(std::memcmp(in.data(), out.data(), bytes), 0) << bytes << " at " << offset;
      EXPECT_EQ(out[bytes], 0xee);
    }
  }
}

TEST_F(HostViewTest, LeavesLargeCopiesToTheStream) {
  const Backing memory = make_cuda_backing(open(), 1 << 20, "test");
  std::vector<std::byte> host(HostView::kMostIn + 1, std::byte{3});
  const auto in = [&](size_t bytes) { memory.copy_in(memory.address(), host.data(), bytes); };
  const auto out = [&](size_t bytes) { memory.copy_out(host.data(), memory.address(), bytes); };
  EXPECT_EQ(copies([&] { in(HostView::kMostIn); }), 0);
  EXPECT_EQ(copies([&] { in(HostView::kMostIn + 1); }), 1);
  EXPECT_EQ(copies([&] { out(HostView::kMostOut); }), 0);
  EXPECT_EQ(copies([&] { out(HostView::kMostOut + 1); }), 1);
  std::array<uint64_t, HostView::kMostWords + 1> words{};
  EXPECT_EQ(copies([&] { memory.load_words(words.data(), word_at(memory, 0), words.size()); }), 1);
  EXPECT_EQ(copies([&] { memory.store_words(word_at(memory, 0), words.data(), words.size()); }), 1);
}

TEST_F(HostViewTest, StoresAndLoadsSeveralWords) {
  const Backing memory = make_cuda_backing(open(), 4096, "test");
  const std::array<uint64_t, 3> written{1, 2, ~uint64_t{0}};
  std::array<uint64_t, 3> read{};
  EXPECT_EQ(copies([&] {
              memory.store_words(word_at(memory, 16), written.data(), written.size());
              memory.load_words(read.data(), word_at(memory, 16), read.size());
            }),
            0);
  EXPECT_EQ(read, written);
}

// A word that is not aligned would not be whole.
TEST_F(HostViewTest, LeavesUnalignedWordsToTheStream) {
  const Backing memory = make_cuda_backing(open(), 4096, "test");
  EXPECT_EQ(copies([&] { memory.store_word(word_at(memory, 4), 5); }), 1);
  EXPECT_EQ(copies([&] { EXPECT_EQ(memory.load_word(word_at(memory, 4)), 5u); }), 1);
  EXPECT_EQ(copies([&] { memory.load_word(word_at<uint32_t>(memory, 2)); }), 1);
}

// The caller's buffer may be a GPU's too, as with cudaMemcpy: no CPU may touch that.
TEST_F(HostViewTest, LeavesCopiesBetweenGpusToTheStream) {
  const auto gpu = open();
  const Backing memory = make_cuda_backing(gpu, 4096, "test");
  const Backing other = make_cuda_backing(gpu, 4096, "other");
  other.store_word(word_at(other, 0), 99);
  EXPECT_EQ(copies([&] { memory.copy_in(memory.address(), other.address(), 8); }), 1);
  EXPECT_EQ(memory.load_word(word_at(memory, 0)), 99u);
  // Elsewhere: memory that the view is not of.
  uint64_t value = 100;
  EXPECT_EQ(copies([&] { memory.copy_in(other.address(), &value, 8); }), 1);
  EXPECT_EQ(other.load_word(word_at(other, 0)), 100u);
}

TEST_F(HostViewTest, MapsAPieceWhenItIsFirstUsed) {
  const Backing memory = make_cuda_backing(open(), 2 * HostView::kPiece + (2 << 20), "test");
  const int before = gdr_.pins;
  EXPECT_EQ(cuda_.live, 3) << "nothing but context, stream and memory";
  memory.store_word(word_at(memory, 0), 1);
  memory.store_word(word_at(memory, HostView::kPiece - 8), 2);
  EXPECT_EQ(gdr_.pins, before + 1);
  memory.store_word(word_at(memory, 2 * HostView::kPiece), 3);  // the last, which is shorter
  EXPECT_EQ(gdr_.pins, before + 2);
  // Across the border of two, which a stream can.
  const std::array<char, 16> text{"across"};
  EXPECT_EQ(copies([&] {
              memory.copy_in(memory.address() + HostView::kPiece - 8, text.data(), text.size());
            }),
            1);
  EXPECT_FALSE(memory.reaches(memory.address() + HostView::kPiece - 8, 16));
  EXPECT_FALSE(memory.reaches(memory.address() + memory.bytes(), 1));
  EXPECT_FALSE(memory.reaches(memory.address() - 1, 1));
}

TEST_F(HostViewTest, EndsItsMappingsBeforeTheirMemory) {
  const auto gpu = open();
  const int live = gdr_.live;
  {
    Backing memory = make_cuda_backing(gpu, 4096, "test");
    memory.store_word(word_at(memory, 0), 1);
    EXPECT_EQ(gdr_.live, live + 2);
    Backing moved = std::move(memory);
    EXPECT_EQ(moved.load_word(word_at(moved, 0)), 1u);
    moved = make_cuda_backing(gpu, 4096, "test");
    EXPECT_EQ(gdr_.live, live);
  }
  EXPECT_EQ(gdr_.live, live);
}

TEST_F(HostViewTest, HasSynchronousCallsOnWhatItMaps) {
  const auto gpu = open();
  const int before = cuda_.synchronous;
  const Backing memory = make_cuda_backing(gpu, 4096, "test");
  EXPECT_EQ(cuda_.synchronous, before + 1);
  cuda_.refuse["cuPointerSetAttribute"] = 801;  // memory of cuMemCreate
  const Backing other = make_cuda_backing(gpu, 4096, "other");
  EXPECT_TRUE(other.reaches(other.address(), 8));
}

TEST_F(HostViewTest, IsUsedByManyThreadsAtOnce) {
  const Backing memory = make_cuda_backing(open(), 4096, "test");
  const int before = gdr_.pins;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      for (uint64_t turn = 1; turn <= 100; ++turn) {
        memory.store_word(word_at(memory, i * 8), turn);
        EXPECT_EQ(memory.load_word(word_at(memory, i * 8)), turn);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(gdr_.pins, before + 1);
}

// Whoever sees a flag sees what was copied before it.
TEST_F(HostViewTest, KeepsTheOrderOfItsCalls) {
  const Backing memory = make_cuda_backing(open(), 4096, "test");
  std::atomic<bool> end{false};
  std::thread reader([&] {
    while (!end) {
      const uint64_t flag = memory.load_word(word_at(memory, 0));
      uint64_t data = 0;
      memory.copy_out(&data, memory.address() + 512, sizeof(data));
      EXPECT_GE(data, flag);
      std::array<uint64_t, HostView::kMostWords> row{};
      memory.load_words(row.data(), word_at(memory, 1024), row.size());
      EXPECT_TRUE(std::ranges::is_sorted(row, std::greater{})) << "the last one: stored last, "
                                                                  "loaded first";
    }
  });
  for (uint64_t turn = 1; turn <= 20'000; ++turn) {
    memory.copy_in(memory.address() + 512, &turn, sizeof(turn));
    memory.store_word(word_at(memory, 0), turn);
    std::array<uint64_t, HostView::kMostWords> row{};
    row.fill(turn);
    memory.store_words(word_at(memory, 1024), row.data(), row.size());
  }
  end = true;
  reader.join();
}

TEST_F(HostViewTest, TellsHowItIsMapped) {
  gdr_.kind = gdrcopy::kCached;
  EXPECT_EQ(open()->describe_words(), "host words by GDRCopy 2.6, mapped coherent");
  gdr_.kind = gdrcopy::kDevice;
  EXPECT_EQ(open()->describe_words(), "host words by GDRCopy 2.6, mapped uncached");
}

using HostAccessTest = HostViewTest;

TEST_F(HostAccessTest, IsByStreamsWithoutTheLibrary) {
  const auto gpu = open("libabsent_gdrapi.so.2");
  expect_in(gpu->describe_words(),
            "host words by copies of a stream: dlopen(libabsent_gdrapi.so.2): ");
  const Backing memory = make_cuda_backing(gpu, 4096, "test");
  EXPECT_FALSE(memory.reaches(memory.address(), 8));
  EXPECT_EQ(copies([&] { memory.store_word(word_at(memory, 0), 1); }), 1);
  EXPECT_EQ(copies([&] { EXPECT_EQ(memory.load_word(word_at(memory, 0)), 1u); }), 1);
}

TEST_F(HostAccessTest, IsByStreamsWithAnOldLibrary) {
  expect_in(open("libc.so.6")->describe_words(),
            "libc.so.6 has no function gdr_open: GDRCopy 2.4 or newer is needed");
}

TEST_F(HostAccessTest, IsByStreamsWithoutTheDriver) {
  gdr_.driver = false;
  expect_in(open()->describe_words(), "is its driver loaded (/dev/gdrdrv)?");
}

TEST_F(HostAccessTest, IsByStreamsWhereItIsToBe) {
  EXPECT_EQ(open("off")->describe_words(), "host words by copies of a stream (PEAL_GDRCOPY=off)");
  EXPECT_EQ(gdr_.pins, 0);
}

TEST_F(HostAccessTest, IsByStreamsWhereNothingCanBePinnedOrMapped) {
  gdr_.refuse_pin = EPERM;
  EXPECT_EQ(open()->describe_words(),
            "host words by copies of a stream: gdr_pin_buffer(65536 bytes): Operation not "
            "permitted");
  gdr_.refuse_pin = 0;
  gdr_.refuse_map = ENOMEM;
  expect_in(open()->describe_words(), "gdr_map(65536 bytes): Cannot allocate memory");
  gdr_.refuse_map = 0;
  gdr_.refuse_info = EIO;
  expect_in(open()->describe_words(), "gdr_get_info_v2(65536 bytes): Input/output error");
  gdr_.refuse_info = 0;
  gdr_.kind = gdrcopy::kNone;
  expect_in(open()->describe_words(), "not mapped, for 65536 bytes at 0x");
  gdr_.kind = gdrcopy::kWriteCombining;
  gdr_.early = gdrcopy::kPage;  // a mapping that ends before the page does
  expect_in(open()->describe_words(), "gdr_get_info_v2: 65536 bytes at 0x");
}

// As where a GPU's memory is encrypted towards the bus.
TEST_F(HostAccessTest, IsByStreamsWhereTheMappingLeadsElsewhere) {
  gdr_.elsewhere = true;
  EXPECT_EQ(open()->describe_words(),
            "host words by copies of a stream: what GDRCopy maps is not the GPU's memory");
}

TEST_F(HostAccessTest, IsByStreamsWhereTheTrialHasNoMemory) {
  cuda_.refuse["cuMemAlloc"] = cuda::kOutOfMemory;
  expect_in(open()->describe_words(), "cuMemAlloc on GPU 0 (Fake H200): out of memory");
}

// The BAR may be full by the time a piece is wanted.
TEST_F(HostAccessTest, GoesOnByStreamsWhereAPieceIsRefused) {
  const auto gpu = open();
  const Backing well = make_cuda_backing(gpu, 4096, "well");
  well.store_word(word_at(well, 0), 1);
  gdr_.refuse_pin = ENOMEM;
  const Backing memory = make_cuda_backing(gpu, 4096, "test");
  EXPECT_EQ(copies([&] { memory.store_word(word_at(memory, 0), 7); }), 1);
  gdr_.refuse_pin = 0;
  EXPECT_EQ(copies([&] { EXPECT_EQ(memory.load_word(word_at(memory, 0)), 7u); }), 1)
      << "not tried again";
  EXPECT_EQ(copies([&] { EXPECT_EQ(well.load_word(word_at(well, 0)), 1u); }), 0);
  EXPECT_EQ(gpu->describe_words(),
            "host words by GDRCopy 2.6, mapped write-combining; some by a stream: "
            "gdr_pin_buffer(2097152 bytes): Cannot allocate memory");
}

// At the end of a process CUDA may be gone before GDRCopy is.
TEST_F(HostAccessTest, ReleasesPagesQuietlyAfterTheDriver) {
  auto gpu = open();
  std::optional<Backing> memory(make_cuda_backing(gpu, 4096, "test"));
  memory->store_word(word_at(*memory, 0), 1);
  cuda_.refuse["cuCtxPushCurrent"] = 4;
  memory.reset();
  EXPECT_EQ(gdr_.live, 1) << "the session";
  cuda_.refuse.clear();
  gpu.reset();
  EXPECT_EQ(cuda_.live, 1) << "memory that the driver took with it";
  cuda_.live = 0;
}

}  // namespace
}  // namespace peal
