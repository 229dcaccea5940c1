// SPDX-License-Identifier: Apache-2.0
//
// The command line of the benchmarks: what it accepts, and what it says of the rest.
#include "perf/common/options.h"

#include <gtest/gtest.h>

#include <vector>

#include "host/base/error.h"

namespace peal::perf {
namespace {

using Sizes = std::vector<uint64_t>;

Program program() {
  return {.name = "bench",
          .what = "Measures.",
          .sizes = "8",
          .ops = {{"put", Op::kPut, CallWay::kStream},
                  {"get", Op::kGet, CallWay::kStream},
                  {"p", Op::kP, CallWay::kStream},
                  {"atomic_add", Op::kAdd, CallWay::kStream},
                  {"put_signal", Op::kPutSignal, CallWay::kStream}},
          .defaults = {.blocks = 2, .threads = 48}};
}

CommandLine parsed(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "bench");
  return parse(program(), static_cast<int>(arguments.size()), arguments.data());
}

// What a mistake is answered with; empty when it was accepted.
std::string answer(std::vector<const char*> arguments) {
  const CommandLine line = parsed(std::move(arguments));
  EXPECT_EQ(line.exit_code, line.ends() ? 2 : 0);
  return line.text;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(BenchmarkOptions, TakesTheProgramsDefaults) {
  const CommandLine line = parsed({});
  ASSERT_FALSE(line.ends()) << line.text;
  EXPECT_EQ(line.options.what.op, Op::kPut);
  EXPECT_EQ(line.options.blocks, 2u);
  EXPECT_EQ(line.options.threads, 48u);
  EXPECT_EQ(line.options.sizes, Sizes{8});
  EXPECT_EQ(line.options.repeats, 1u);
  EXPECT_FALSE(line.options.both_ways);
  EXPECT_EQ(line.options.form, Form::kTable);
}

TEST(BenchmarkOptions, TakesWhatIsGiven) {
  const CommandLine line = parsed({"--op", "get", "--scope=warp", "--qps", "2", "--depth", "256",
                                   "--sizes", "1K,3", "--iters", "7", "--warmup", "0", "--pattern",
                                   "halves", "--json", "--repeats", "5", "--bidirectional"});
  ASSERT_FALSE(line.ends()) << line.text;
  EXPECT_EQ(line.options.what.op, Op::kGet);
  EXPECT_EQ(line.options.scope, ScopeKind::kWarp);
  EXPECT_EQ(line.options.queues, 2u);
  EXPECT_EQ(line.options.depth, 256u);
  EXPECT_EQ(line.options.sizes, (Sizes{1024, 3}));
  EXPECT_EQ(line.options.iterations, 7u);
  EXPECT_EQ(line.options.warmup, 0u);
  EXPECT_EQ(line.options.pairing, Pairing::kHalves);
  EXPECT_EQ(line.options.form, Form::kJson);
  EXPECT_EQ(line.options.repeats, 5u);
  EXPECT_TRUE(line.options.both_ways);
}

TEST(BenchmarkOptions, CountsAgentsByScope) {
  BenchmarkOptions o{.blocks = 3, .threads = 48};
  EXPECT_EQ(o.of(8, 1).agents(), 144u);
  o.scope = ScopeKind::kWarp;
  EXPECT_EQ(o.of(8, 1).agents(), 6u);
  o.scope = ScopeKind::kBlock;
  EXPECT_EQ(o.of(8, 1).agents(), 3u);
}

TEST(BenchmarkOptions, GiveALatencyOneAgent) {
  Program latency = program();
  latency.metric = Metric::kLatency;
  const auto threads = [&](const char* scope) {
    const char* arguments[] = {"bench", "--op", "put", "--scope", scope};
    return parse(latency, 5, arguments).options.threads;
  };
  EXPECT_EQ(threads("thread"), 1u);
  EXPECT_EQ(threads("warp"), 32u);
  EXPECT_EQ(threads("block"), 48u);
  const char* arguments[] = {"bench", "--blocks", "2"};
  EXPECT_TRUE(contains(parse(latency, 3, arguments).text, "--blocks"));
  const char* both_ways[] = {"bench", "--bidirectional"};
  EXPECT_TRUE(contains(parse(latency, 2, both_ways).text, "--bidirectional"));
}

TEST(BenchmarkOptions, GiveACollectiveCallItsCallers) {
  Program collectives = program();
  collectives.metric = Metric::kCollective;
  collectives.ops = {{"all_reduce", Op::kAllReduce, CallWay::kTogether},
                     {"barrier", Op::kBarrier, CallWay::kTogether}};
  const auto parsed_by = [&](std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "bench");
    return parse(collectives, static_cast<int>(arguments.size()), arguments.data());
  };
  EXPECT_EQ(parsed_by({}).options.scope, ScopeKind::kBlock);
  EXPECT_EQ(parsed_by({}).options.threads, 48u);
  const BenchmarkOptions stream = parsed_by({"--scope", "stream"}).options;
  EXPECT_EQ(stream.scope, ScopeKind::kStream);
  EXPECT_EQ(stream.threads, 0u) << "no kernel of the program's";
  EXPECT_EQ(parsed_by({"--op", "barrier", "--sizes", "8,16"}).options.sizes, Sizes{0});
  EXPECT_TRUE(contains(parsed_by({"--sizes", "6"}).text, "use multiples of 4"));
  EXPECT_TRUE(contains(parsed_by({"--scope", "warp"}).text, "one of block, stream, host"));
  EXPECT_TRUE(contains(parsed_by({"--window", "4"}).text, "--window"));
}

TEST(BenchmarkOptions, HelpNamesEveryOptionAndDefaultAndEndsWell) {
  const CommandLine line = parsed({"--help"});
  EXPECT_EQ(line.exit_code, 0);
  for (const char* text : {"--op NAME=put", "--scope NAME=thread", "--blocks", "--qps", "--depth",
                           "--sizes", "--iters", "--warmup", "--window", "--pattern", "--json",
                           "--csv", "--repeats", "--bidirectional"}) {
    EXPECT_TRUE(contains(line.text, text)) << text << " in\n" << line.text;
  }
  EXPECT_FALSE(contains(line.text, "--spoil"));
}

TEST(BenchmarkOptions, RefuseAnUnknownNameWithTheKnownOnes) {
  EXPECT_EQ(answer({"--op", "send"}),
            "bench: --op: 'send' is unknown; one of put, get, p, atomic_add, put_signal; see bench "
            "--help\n");
  EXPECT_TRUE(contains(answer({"--op", "g"}), "'g' is unknown")) << "this program has no g";
  EXPECT_TRUE(contains(answer({"--frequency", "3"}), "--frequency"));
}

TEST(BenchmarkOptions, RefuseNumbersOutOfRange) {
  for (const char* option :
       {"--blocks", "--threads", "--qps", "--depth", "--iters", "--window", "--repeats"}) {
    EXPECT_TRUE(contains(answer({option, "0"}), option)) << option;
    EXPECT_TRUE(contains(answer({option, "many"}), option)) << option;
  }
  EXPECT_TRUE(contains(answer({"--threads", "1025"}), "in range 1 to 1024"));
  EXPECT_TRUE(contains(answer({"--depth", "300"}), "such as 512"));
}

// As settings do: on or off in any of the ways that people write it.
TEST(BenchmarkOptions, TakeSwitchesInWords) {
  const auto form = [](std::vector<const char*> arguments) {
    const CommandLine line = parsed(std::move(arguments));
    EXPECT_FALSE(line.ends()) << line.text;
    return line.options.form;
  };
  EXPECT_EQ(form({"--csv"}), Form::kCsv);
  for (const char* on : {"--csv=on", "--csv=1", "--csv=yes", "--csv=true"}) {
    EXPECT_EQ(form({on}), Form::kCsv) << on;
  }
  for (const char* off : {"--csv=off", "--csv=0", "--csv=no", "--csv=false"}) {
    EXPECT_EQ(form({off}), Form::kTable) << off;
  }
  EXPECT_EQ(form({"--json", "--csv=off"}), Form::kJson);
  EXPECT_TRUE(contains(answer({"--csv=maybe"}), "--csv"));
  EXPECT_TRUE(contains(answer({"--bidirectional=many"}), "--bidirectional"));
}

TEST(BenchmarkOptions, RefuseWhatDoesNotGoTogether) {
  EXPECT_TRUE(contains(answer({"--json", "--csv"}), "leave out --json"));
  EXPECT_TRUE(contains(answer({"--op", "p", "--scope", "warp"}), "use --scope thread"));
  EXPECT_TRUE(contains(answer({"--op", "p", "--sizes", "3"}), "use 1, 2, 4 or 8"));
  EXPECT_TRUE(contains(answer({"--op", "p", "--sizes", "16"}), "use 1, 2, 4 or 8"));
  EXPECT_TRUE(contains(answer({"--op", "atomic_add", "--sizes", "2"}), "4 or 8 bytes"));
  EXPECT_TRUE(contains(answer({"--op", "put", "--spoil", "signal"}), "put has no signal"));
  EXPECT_EQ(answer({"--op", "atomic_add", "--sizes", "4,8"}), "");
}

TEST(Sizes, AreListsAndRangesOfPowersOfTwo) {
  EXPECT_EQ(parse_sizes("8"), Sizes{8});
  EXPECT_EQ(parse_sizes("8,100"), (Sizes{8, 100}));
  EXPECT_EQ(parse_sizes("8:64"), (Sizes{8, 16, 32, 64}));
  EXPECT_EQ(parse_sizes("8:63"), (Sizes{8, 16, 32}));
  EXPECT_EQ(parse_sizes("4:4,1K:4k,1M,1g"),
            (Sizes{4, 1024, 2048, 4096, 1 << 20, uint64_t{1} << 30}));
}

TEST(Sizes, RefuseEverythingElse) {
  for (const char* text : {"", "0", "x", "8,", ",8", "8:", ":8", "8:16:32", "16:8", "-8", "8.5",
                           "8KB", "2G", "99999999999999999999", " 8", "0x8"}) {
    EXPECT_THROW(parse_sizes(text), Error) << "'" << text << "'";
  }
}

Selection selected(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "peal_side");
  return parse_selection(static_cast<int>(arguments.size()), arguments.data());
}

TEST(Selection, TakesWhatTheComparisonHandsToItsSides) {
  EXPECT_EQ(selected({}).repeats, 9u);
  const Selection s = selected({"--quick", "--ops", "put,barrier_all", "--scope", "block",
                                "--max-bytes", "4096", "--iterations", "8"});
  EXPECT_EQ(s.ops, (std::vector<std::string>{"put", "barrier_all"}));
  EXPECT_EQ(s.scope, "block");
  EXPECT_EQ(s.max_bytes, 4096u);
  EXPECT_EQ(s.iterations, 8u);
  EXPECT_EQ(s.repeats, 3u);
  EXPECT_EQ(s.step, 16u);
  EXPECT_EQ(selected({"--quick", "--repeats", "5"}).repeats, 5u);
}

TEST(Selection, RefusesEverythingElse) {
  for (const char* ops : {"send", "put,send", ""}) {
    EXPECT_THROW(selected({"--ops", ops}), std::runtime_error) << ops;
  }
  EXPECT_THROW(selected({"--scope", "grid"}), std::runtime_error);
  EXPECT_THROW(selected({"--max-blocks", "33"}), std::runtime_error);
  EXPECT_THROW(selected({"--repeats", "0"}), std::runtime_error);
  EXPECT_THROW(selected({"--sizes", "8"}), std::runtime_error);
}

}  // namespace
}  // namespace peal::perf
