// SPDX-License-Identifier: Apache-2.0
//
// The flight recorder. Hazard: a job ends with "timeout", and nobody can say what its kernels had
// done until then.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "tests/support/error_of.h"
#include "tests/support/job.h"

namespace peal::api_test {
namespace {

/// Two PEs in this process that keep `entries` calls of each context.
void on_two(int entries, const std::function<void(Runtime&)>& body) {
  Config config = small_config();
  config.record = entries;
  bootstrap::run_threads(2, [&](Bootstrap& group) {
    Runtime pe = start(group, config);
    body(pe);
    pe.barrier();
  });
}

void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  size_t from = 0;
  for (const std::string& part : parts) {
    const size_t at = text.find(part, from);
    ASSERT_NE(at, std::string::npos) << part << " in this order in\n" << text;
    from = at + part.size();
  }
}

/// The last wait, which is in vain, is by `hasty`.
PEAL_KERNEL put_then_wait_in_vain(Context ctx, Context hasty, uint64_t* data, uint64_t* flag) {
  const int next = (ctx.pe + 1) % ctx.n_pes;
  if (thread_in_block() == 0) {
    static_cast<void>(put_signal(ctx, &data[8], data, 8, Signal::set(flag, 7, next)));
    static_cast<void>(signal_wait_until(ctx, flag, Compare::kGe, 7));
    static_cast<void>(quiet(ctx));
  }
  static_cast<void>(wait_until(hasty, block, &flag[1], Compare::kEq, 1));
}

TEST(Recorder, PrintsTheLastCallsWithAFailure) {
  on_two(64, [](Runtime& pe) {
    Symmetric<uint64_t> data(pe, 16);
    Symmetric<uint64_t> flag(pe, 16);
    Context hasty = pe.context();
    hasty.timeout_ns = 20'000'000;
    launch({.blocks = 1, .threads = 4}, put_then_wait_in_vain, pe.context(), hasty, data.data(),
           flag.data())
        .wait();
    const std::string dump = pe.dump();
    expect_parts(
        dump,
        {"context 0: its last 4 of 4 calls\n", "before: put_signal, 64 bytes at byte 64 of the 128",
         fmt::format("PE {}, signal set 7 at byte 0 of the 128 bytes at heap", 1 - pe.my_pe()),
         "kernel put_then_wait_in_vain (recorder_test.cc:", "block 0, thread 0", "; ok after",
         "signal_wait_until, 8 bytes at byte 0", "saw 7; ", "; ok after", "quiet", "; ok after",
         "wait_until, 8 bytes at byte 8", "for its block; timeout after"});
    EXPECT_EQ(pe.failure().status, Status::kTimeout);
    pe.barrier();
    EXPECT_THROW(pe.check(), Error);
    pe.barrier();
  });
}

/// The whole file.
std::string text_of(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++found;
  return found;
}

PEAL_KERNEL ring_step(Context ctx, uint64_t* data, uint64_t* flag) {
  const int next = (ctx.pe + 1) % ctx.n_pes;
  static_cast<void>(put_signal(ctx, &data[8], data, 8, Signal::set(flag, 7, next)));
  static_cast<void>(signal_wait_until(ctx, flag, Compare::kGe, 7));
  static_cast<void>(barrier_all(ctx));
}

TEST(Recorder, WritesATraceOfEachPe) {
  const std::string folder = testing::TempDir();
  Config config = small_config();
  config.record = 64;
  config.record_file = folder + "/recorder_%r.json";
  bootstrap::run_threads(2, [&](Bootstrap& group) {
    Runtime pe = start(group, config);
    Symmetric<uint64_t> data(pe, 16);
    Symmetric<uint64_t> flag(pe, 16);
    launch({}, ring_step, pe.context(), data.data(), flag.data()).wait();
    pe.check();
    pe.barrier();
    const std::vector<Counters> counters = pe.counters();
    ASSERT_EQ(counters.size(), 1u);
    EXPECT_EQ(counters[0].context, 0u);
    EXPECT_TRUE(counters[0].ran);
    EXPECT_EQ(counters[0].calls(), 3u);
    EXPECT_EQ(counters[0].bytes_put(), 64u);
    EXPECT_EQ(counters[0].bytes_got(), 0u);
    EXPECT_EQ(counters[0].waits(), 2u);
    EXPECT_GT(counters[0].wait_ns(), 0u);
    EXPECT_EQ(counters[0].timeouts() + counters[0].failed(), 0u);
    EXPECT_EQ(counters[0].of(Call::kBarrierAll).calls, 1u);
    if (!without_nic(pe)) {
      EXPECT_GT(counters[0].posted_blocks, 0u);
      EXPECT_EQ(counters[0].posted_blocks, counters[0].rung_blocks);
    }
    pe.barrier();
  });
  for (int pe = 0; pe < 2; ++pe) {
    const std::string text = text_of(fmt::format("{}/recorder_{}.json", folder, pe));
    expect_parts(text,
                 {fmt::format("\"pe\":{},\"pes\":2,", pe), "\"clock\":\"CLOCK_MONOTONIC of ",
                  "\"process_name\"", fmt::format("\"name\":\"PE {}\"", pe), "\"thread_name\"",
                  "kernel ring_step, block 0, thread 0", "\"ph\":\"X\",\"name\":\"put_signal\"",
                  fmt::format("\"pe\":{},\"at\":\"heap+0x", 1 - pe), "\"value\":7",
                  "\"status\":\"ok\"", "\"name\":\"signal_wait_until\"", "\"saw\":7",
                  "\"name\":\"barrier_all\"", "\"number\":1"});
    EXPECT_EQ(count_of(text, "\"ph\":\"X\""), 3u) << text;
    EXPECT_EQ(count_of(text, "{"), count_of(text, "}"));
  }
}

PEAL_KERNEL many_calls(Context ctx, Team team, uint64_t* data) {
  const int next = (ctx.pe + 1) % ctx.n_pes;
  static_cast<void>(all_reduce(ctx, thread, team, &data[4], data, 2, op::sum));
  static_cast<void>(broadcast(ctx, thread, team, &data[4], data, 1, 0));
  static_cast<void>(sync(ctx, thread, team));
  static_cast<void>(put_nbi(ctx, &data[8], data, 1, next));
  static_cast<void>(atomic_fetch_add(ctx, &data[9], 1, next));
  static_cast<void>(barrier(ctx, thread, team));
}

/// Hazard: all of them were "collective call", but the barrier, a "team barrier".
TEST(Recorder, NamesCallsAsTheProgramDoes) {
  on_two(64, [](Runtime& pe) {
    Symmetric<uint64_t> data(pe, 16);
    launch({}, many_calls, pe.context(), pe.world(), data.data()).wait();
    pe.check();
    expect_parts(
        pe.dump(),
        {"its last 6 of 6 calls\n", "before: all_reduce, 16 bytes at byte 32 of", ", team ",
         "before: broadcast, 8 bytes", "before: sync, team ", "before: put_nbi, 8 bytes",
         "before: atomic_fetch_add, 8 bytes", "before: barrier, team ",
         "  put                        1 calls", "  atomic_fetch_add           1 calls",
         "  sync                       1 calls", "  barrier                    1 calls",
         "  broadcast                  1 calls", "  all_reduce                 1 calls"});
    pe.barrier();
  });
}

TEST(Recorder, KeepsTheNewestCallsAndCountsAll) {
  on_two(16, [](Runtime& pe) {
    Symmetric<uint64_t> data(pe, 16);
    Symmetric<uint64_t> flag(pe, 16);
    for (int i = 0; i < 10; ++i) {
      launch({}, ring_step, pe.context(), data.data(), flag.data()).wait();
    }
    expect_parts(pe.dump(), {"context 0: its last 16 of 30 calls\n", "barrier_all, number 10",
                             "context 0: 30 calls, 640 bytes put, 0 got",
                             "barrier_all               10 calls"});
    pe.barrier();
  });
}

TEST(Recorder, SaysNothingWhileItIsOff) {
  on_two(0, [](Runtime& pe) {
    Symmetric<uint64_t> data(pe, 16);
    Symmetric<uint64_t> flag(pe, 16);
    launch({}, ring_step, pe.context(), data.data(), flag.data()).wait();
    EXPECT_TRUE(pe.counters().empty());
    EXPECT_EQ(pe.dump().find("calls"), std::string::npos);
    pe.barrier();
  });
}

TEST(Recorder, SaysThatNoKernelHasWritten) {
  on_two(16, [](Runtime& pe) {
    expect_parts(pe.dump(), {"context 0: no kernel has written into the flight recorder"});
    EXPECT_FALSE(pe.counters().at(0).ran);
    pe.barrier();
  });
}

/// Two puts at once, and one that waits: three posts.
PEAL_KERNEL three_puts(Context ctx, uint64_t* data) {
  const int next = (ctx.pe + 1) % ctx.n_pes;
  static_cast<void>(put_nbi(ctx, &data[8], data, 8, next));
  static_cast<void>(put_nbi(ctx, &data[9], data, 8, next));
  static_cast<void>(quiet(ctx));
  static_cast<void>(put(ctx, &data[10], data, 8, next));
}

/// Hazard: a put takes long, and nobody can say whether it waits for room, for the NIC, or rings.
TEST(Recorder, AddsUpTheStagesOfPosts) {
  on_two(16, [](Runtime& pe) {
    Symmetric<uint64_t> data(pe, 16);
    launch({}, three_puts, pe.context(), data.data()).wait();
    const Counters counters = pe.counters().at(0);
    for (const PostStage stage : {PostStage::kReserve, PostStage::kWrite, PostStage::kHandOver}) {
      EXPECT_EQ(counters.of(stage).passes, 3u);
      EXPECT_GT(counters.of(stage).time_ns, 0u);
    }
    EXPECT_EQ(counters.of(PostStage::kRing).passes, 3u);
    EXPECT_LT(counters.of(PostStage::kRing).time_ns, counters.of(PostStage::kHandOver).time_ns);
    EXPECT_GE(counters.of(PostStage::kComplete).passes, 1u);  // none where all was complete
    expect_parts(pe.dump(),
                 {"context 0: 4 calls", "  post: reserve              3 times ",
                  "  post: write                3 times ", "  post: hand over            3 times ",
                  "  post: doorbell             3 times ", "  post: completion "});
    pe.barrier();
  });
}

/// What two PEs are refused with.
std::string refusal_of_file(int entries, const std::string& file) {
  Config config = small_config();
  config.record = entries;
  config.record_file = file;
  try {
    bootstrap::run_threads(2, [&](Bootstrap& group) { Runtime pe = start(group, config); });
  } catch (const Error& error) {
    return error.what();
  }
  return "it was accepted";
}

TEST(Recorder, RefusesFilesThatCannotBe) {
  expect_parts(
      refusal_of_file(16, "/nowhere/%r.json"),
      {"PEAL_RECORD_FILE: /nowhere/", "No such file or directory; name a file in a folder"});
  expect_parts(refusal_of_file(16, testing::TempDir() + "/%%r.json"),
               {"is one file for all 2 PEs: put %r, the PE, into its name"});
  expect_parts(refusal_of_file(0, testing::TempDir() + "/%r.json"),
               {"but the flight recorder is off: set PEAL_RECORD"});
}

}  // namespace
}  // namespace peal::api_test
