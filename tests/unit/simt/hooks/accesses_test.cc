// SPDX-License-Identifier: Apache-2.0
//
// Plain and volatile accesses of kernels, told to an observer. Hazard: a hook that tells the wrong
// address, size or kind, or a place that is not the user's line, makes a report of a race worse
// than none.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <string>

#include "simt/lanes/lane.h"
#include "simt/lanes/symbol.h"
#include "tests/unit/simt/hooks/kernels.h"
#include "tests/unit/simt/hooks/recorder.h"

namespace peal::simt {
namespace {

std::string place(const PlainAccess& access) {
  return place_of_code(reinterpret_cast<uintptr_t>(access.pc));
}

std::string in_line(int line) { return " (kernels.cc:" + std::to_string(line) + ")"; }

/// One access of `bytes` at `address`, of the function that begins with `function`.
void expect_one(const std::vector<PlainAccess>& told, const void* address, size_t bytes, bool write,
                bool atomic, const std::string& where) {
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].address, address);
  EXPECT_EQ(told[0].bytes, bytes);
  EXPECT_EQ(told[0].write, write);
  EXPECT_EQ(told[0].atomic, atomic);
  EXPECT_EQ(told[0].order, 0);
  EXPECT_EQ(place(told[0]).substr(0, where.find('<')), where.substr(0, where.find('<')));
  EXPECT_TRUE(place(told[0]).ends_with(where.substr(where.find(' ')))) << place(told[0]);
}

template <class T>
class Sizes : public testing::Test {};
using All = testing::Types<uint8_t, uint16_t, uint32_t, uint64_t, unsigned __int128>;
TYPED_TEST_SUITE(Sizes, All);

TYPED_TEST(Sizes, ReadsAndWritesAreToldWithTheirLines) {
  TypeParam word = 3;
  TypeParam value = 0;
  int line = 0;
  Recorder recorder(&word, sizeof word);
  auto told = recorder.accesses_of([&] { line = observed::load(&word, &value); });
  EXPECT_TRUE(value == 3);
  expect_one(told, &word, sizeof word, false, false, "load<" + in_line(line));
  told = recorder.accesses_of([&] { line = observed::store(&word, TypeParam{5}); });
  EXPECT_TRUE(word == 5);
  expect_one(told, &word, sizeof word, true, false, "store<" + in_line(line));
}

TYPED_TEST(Sizes, VolatileAccessesAreRelaxedAtomics) {
  TypeParam word = 3;
  TypeParam value = 0;
  int line = 0;
  Recorder recorder(&word, sizeof word);
  auto told = recorder.accesses_of([&] { line = observed::load_volatile(&word, &value); });
  EXPECT_TRUE(value == 3);
  expect_one(told, &word, sizeof word, false, true, "load_volatile<" + in_line(line));
  told = recorder.accesses_of([&] { line = observed::store_volatile(&word, TypeParam{5}); });
  EXPECT_TRUE(word == 5);
  expect_one(told, &word, sizeof word, true, true, "store_volatile<" + in_line(line));
}

TEST(Accesses, UnalignedOnesAreTold) {
  observed::Packed packed{};
  int line = 0;
  Recorder recorder(&packed, sizeof packed);
  const auto told = recorder.accesses_of([&] { line = observed::store_unaligned(&packed, 9); });
  EXPECT_EQ(packed.word, 9u);
  expect_one(told, reinterpret_cast<const char*>(&packed) + 1, 8, true, false,
             "store_unaligned" + in_line(line));
}

TEST(Accesses, StructsAreRanges) {
  observed::Wide from{{1, 2, 3, 4, 5}};
  observed::Wide to{};
  int line = 0;
  {
    Recorder reads(&from, sizeof from);
    const auto told = reads.accesses_of([&] { line = observed::copy_struct(&to, &from); });
    expect_one(told, &from, sizeof from, false, false, "copy_struct" + in_line(line));
  }
  Recorder writes(&to, sizeof to);
  const auto told = writes.accesses_of([&] { observed::copy_struct(&to, &from); });
  expect_one(told, &to, sizeof to, true, false, "copy_struct" + in_line(line));
  EXPECT_EQ(to.words[4], 5u);
}

TEST(Accesses, PointersToVirtualTablesAreWritten) {
  alignas(observed::Virtual) char where[sizeof(observed::Virtual)];
  int line = 0;
  Recorder recorder(where, sizeof where);
  const auto told = recorder.accesses_of([&] { line = observed::make_virtual(where); });
  ASSERT_FALSE(told.empty());
  for (const PlainAccess& access : told) {
    EXPECT_EQ(access.address, where);
    EXPECT_EQ(access.bytes, sizeof(void*));
    EXPECT_TRUE(access.write);
  }
}

TEST(Accesses, CopiesAreToldOnBothSides) {
  for (const size_t bytes : {size_t{4}, size_t{24}, size_t{100}}) {
    std::array<char, 100> from;
    std::array<char, 100> to{};
    from.fill('a');
    int line = 0;
    const auto copy = [&] { line = observed::copy(to.data(), from.data(), bytes); };
    const auto move = [&] { line = observed::move(to.data(), from.data(), bytes); };
    {
      Recorder reads(from.data(), from.size());
      auto told = reads.accesses_of(copy);
      expect_one(told, from.data(), bytes, false, false, "copy" + in_line(line));
      told = reads.accesses_of(move);
      expect_one(told, from.data(), bytes, false, false, "move" + in_line(line));
    }
    Recorder writes(to.data(), to.size());
    auto told = writes.accesses_of(copy);
    expect_one(told, to.data(), bytes, true, false, "copy" + in_line(line));
    EXPECT_EQ(to[bytes - 1], 'a');
    to.fill(0);
    told = writes.accesses_of(move);
    expect_one(told, to.data(), bytes, true, false, "move" + in_line(line));
    EXPECT_EQ(to[bytes - 1], 'a');
    told = writes.accesses_of([&] { line = observed::set(to.data(), 'b', bytes); });
    expect_one(told, to.data(), bytes, true, false, "set" + in_line(line));
    EXPECT_EQ(to[bytes - 1], 'b');
  }
}

// The compiler knows the size here, and would rather copy by itself.
TEST(Accesses, CopiesOfAConstantSizeAreTold) {
  std::array<char, 24> from;
  std::array<char, 24> to{};
  from.fill('a');
  int line = 0;
  Recorder writes(to.data(), to.size());
  const auto told = writes.accesses_of([&] { line = observed::copy_24(to.data(), from.data()); });
  expect_one(told, to.data(), to.size(), true, false, "copy_24" + in_line(line));
  EXPECT_EQ(to, from);
}

TEST(Accesses, CopiesOfNothingAreNotTold) {
  char byte = 0;
  Recorder recorder(&byte, 1);
  EXPECT_TRUE(recorder
                  .accesses_of([&] {
                    observed::copy(&byte, &byte, 0);
                    observed::move(&byte, &byte, 0);
                    observed::set(&byte, 1, 0);
                  })
                  .empty());
  EXPECT_EQ(byte, 0);
}

TEST(Accesses, AWriteIsToldBeforeItIsMade) {
  uint32_t word = 1;
  Recorder recorder(&word, sizeof word);
  recorder.accesses_of([&] { observed::store(&word, 2u); });
  EXPECT_EQ(recorder.seen(), std::vector<uint64_t>{1});
}

TEST(Accesses, OfHostThreadsAreNotTold) {
  uint32_t word = 0;
  Recorder recorder(&word, sizeof word);
  const auto told = recorder.accesses_of([] {});
  observed::store(&word, 1u);
  EXPECT_TRUE(recorder.accesses_of([] {}).empty());
  EXPECT_EQ(word, 1u);
}

std::atomic<int> times_told = 0;

TEST(Accesses, WithoutAnObserverNothingIsTold) {
  uint32_t word = 0;
  times_told = 0;
  observe_accesses([](const PlainAccess&) { ++times_told; });
  observe_accesses(nullptr);
  run({.blocks = {1, 1, 1}, .threads = {1, 1, 1}}, [&] { observed::store(&word, 1u); });
  EXPECT_EQ(word, 1u);
  EXPECT_EQ(times_told, 0);
}

uint32_t of_the_observer = 0;

// The linker may take an inline function of the observer from a translation unit of kernels.
TEST(Accesses, OfTheObserverAreNotTold) {
  uint32_t word = 0;
  times_told = 0;
  observe_accesses([](const PlainAccess&) {
    ++times_told;
    observed::store(&of_the_observer, 1u);
  });
  run({.blocks = {1, 1, 1}, .threads = {1, 1, 1}}, [&] { observed::store(&word, 1u); });
  observe_accesses(nullptr);
  EXPECT_EQ(of_the_observer, 1u);
  EXPECT_EQ(times_told, 1);
}

// An observer of a simulation lets other lanes run.
TEST(Accesses, OfOtherLanesAreToldWhileAnObserverYields) {
  uint32_t words[4] = {};
  times_told = 0;
  observe_accesses([](const PlainAccess&) {
    ++times_told;
    yield();
  });
  run({.blocks = {1, 1, 1}, .threads = {4, 1, 1}},
      [&] { observed::store(&words[threadIdx.x], 1u); });
  observe_accesses(nullptr);
  EXPECT_EQ(times_told, 4);
}

}  // namespace
}  // namespace peal::simt
