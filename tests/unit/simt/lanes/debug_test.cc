// SPDX-License-Identifier: Apache-2.0
//
// What a debugger finds in the list of grids, read as simt/gdb does: by names and offsets.
#include "simt/lanes/debug.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "simt/lanes/lane.h"
#include "simt/lanes/launch.h"
#include "simt/lanes/sanitizer.h"
#include "simt/simulation/simulation.h"
#include "tests/unit/simt/support.h"

namespace peal::simt {
namespace {

/// The addresses of what is listed.
std::vector<const std::byte*> listed() {
  std::vector<const std::byte*> objects;
  const void* item = peal_debug_grids.first;
  while (item != nullptr) {
    const void* words[2];  // object, next
    std::memcpy(words, item, sizeof words);
    objects.push_back(static_cast<const std::byte*>(words[0]));
    item = words[1];
  }
  return objects;
}

const DebugType& type(const std::string& name) {
  const DebugType* at = peal_debug_grids.types;
  while (at->name != nullptr && at->name != name) ++at;
  return *at;
}

uint64_t field(const char* of, const std::byte* object, const std::string& name) {
  const DebugField* at = type(of).fields;
  while (at->name != nullptr && at->name != name) ++at;
  EXPECT_NE(at->name, nullptr) << name;
  uint64_t value = 0;
  std::memcpy(&value, object + at->offset, std::min<size_t>(at->bytes, sizeof value));
  return value;
}

const std::byte* pointer(const char* of, const std::byte* object, const std::string& name) {
  return reinterpret_cast<const std::byte*>(field(of, object, name));
}

TEST(Debug, AGridIsListedWhileItRuns) {
  EXPECT_TRUE(listed().empty());
  std::vector<size_t> seen(4);
  launch({2, 2}, [&] { seen[blockIdx.x * 2 + threadIdx.x] = listed().size(); }).wait();
  EXPECT_EQ(seen, std::vector<size_t>(4, 1));
  EXPECT_TRUE(listed().empty());
}

// At lane 0, which waits for its warp.
void look(uint64_t& call, uint64_t& mask) {
  const OfAnother reader;  // as a debugger's, its reads are in order with nothing
  const std::byte* const grid = listed().at(0);
  EXPECT_EQ(field("Grid", grid, "worker_count"), 1u);
  const std::byte* const block = pointer("Residents", pointer("Grid", grid, "residents"), "first");
  EXPECT_EQ(field("Block", block, "number"), 0u);
  EXPECT_EQ(field("Block", block, "next"), 0u);
  const std::byte* const lane = pointer("Block", block, "lanes");
  call = field("Lane", lane, "call");
  mask = field("Lane", lane, "mask");
  EXPECT_EQ(field("Lane", lane, "started"), 1u);
  EXPECT_EQ(field("Lane", lane, "ended"), 0u);
  const std::byte* const fiber = pointer("Lane", lane, "fiber");
  const uint64_t saved = field("Fiber", fiber, "saved");
  const uint64_t stack = field("Fiber", fiber, "stack");
  EXPECT_GT(saved, stack);
  EXPECT_LT(saved, stack + field("Fiber", fiber, "stack_bytes"));
  EXPECT_EQ(field("Lane", lane + type("Lane").bytes, "ended"), 0u);
}

TEST(Debug, ALaneTellsWhatItWaitsIn) {
  uint64_t call = 0;
  uint64_t mask = 0;
  launch({1, 2}, [&] {
    if (threadIdx.x == 0) {
      sync_warp(3);
      return;
    }
    for (int i = 0; i < 10; ++i) yield();  // lane 0 is there by now
    look(call, mask);
    sync_warp(3);
  }).wait();
  const DebugField* name = type("Call").fields;
  while (name->name != nullptr && name->offset != call) ++name;
  EXPECT_STREQ(name->name, "__syncwarp");
  EXPECT_EQ(mask, 3u);
}

TEST(Debug, BlocksAreListedFromTheirBeginningToTheirEnd) {
  Limits one = limits();
  one.workers = 1;
  const LimitsFor scope(one);
  std::vector<uint64_t> first(3, 99);
  std::vector<uint64_t> next(3, 99);
  std::vector<uint64_t> begun(3, 99);
  launch({3, 1}, [&] {
    const OfAnother reader;
    const std::byte* const grid = listed().at(0);
    std::memcpy(&begun[blockIdx.x], pointer("Grid", grid, "begun"), sizeof(uint64_t));
    const std::byte* const block =
        pointer("Residents", pointer("Grid", grid, "residents"), "first");
    first[blockIdx.x] = field("Block", block, "number");
    next[blockIdx.x] = field("Block", block, "next");
  }).wait();
  EXPECT_EQ(first, (std::vector<uint64_t>{0, 1, 2}));
  EXPECT_EQ(next, (std::vector<uint64_t>{0, 0, 0}));
  EXPECT_EQ(begun, (std::vector<uint64_t>{1, 2, 3}));
}

TEST(Debug, GridsOfASimulationAreListedToo) {
  size_t seen = 0;
  {
    Simulation simulation(7);
    simulation.launch({.name = "a", .device = 0}, {1, 1}, [&] { seen = listed().size(); });
    simulation.serve({.name = "b", .device = 1}, [] {
      for (;;) yield();
    });
    simulation.run();
  }
  EXPECT_EQ(seen, 2u);
  EXPECT_TRUE(listed().empty());
}

}  // namespace
}  // namespace peal::simt
