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
          .ops = {Op::kPut, Op::kGet, Op::kP, Op::kAtomicAdd, Op::kPutSignal},
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

TEST(Options, TakesTheProgramsDefaults) {
  const CommandLine line = parsed({});
  ASSERT_FALSE(line.ends()) << line.text;
  EXPECT_EQ(line.options.op, Op::kPut);
  EXPECT_EQ(line.options.blocks, 2u);
  EXPECT_EQ(line.options.threads, 48u);
  EXPECT_EQ(line.options.sizes, Sizes{8});
  EXPECT_FALSE(line.options.json);
}

TEST(Options, TakesWhatIsGiven) {
  const CommandLine line =
      parsed({"--op", "get", "--scope=warp", "--qps", "2", "--depth", "256", "--sizes", "1K,3",
              "--iters", "7", "--warmup", "0", "--pattern", "halves", "--json"});
  ASSERT_FALSE(line.ends()) << line.text;
  EXPECT_EQ(line.options.op, Op::kGet);
  EXPECT_EQ(line.options.scope, ScopeKind::kWarp);
  EXPECT_EQ(line.options.queues, 2u);
  EXPECT_EQ(line.options.depth, 256u);
  EXPECT_EQ(line.options.sizes, (Sizes{1024, 3}));
  EXPECT_EQ(line.options.iterations, 7u);
  EXPECT_EQ(line.options.warmup, 0u);
  EXPECT_EQ(line.options.pairing, Pairing::kHalves);
  EXPECT_TRUE(line.options.json);
}

TEST(Options, CountsAgentsByScope) {
  Options o{.blocks = 3, .threads = 48};
  EXPECT_EQ(o.agents(), 144u);
  o.scope = ScopeKind::kWarp;
  EXPECT_EQ(o.agents(), 6u);
  o.scope = ScopeKind::kBlock;
  EXPECT_EQ(o.agents(), 3u);
}

TEST(Options, HelpNamesEveryOptionAndDefaultAndEndsWell) {
  const CommandLine line = parsed({"--help"});
  EXPECT_EQ(line.exit_code, 0);
  for (const char* text : {"--op NAME=put", "--scope NAME=thread", "--blocks", "--qps", "--depth",
                           "--sizes", "--iters", "--warmup", "--window", "--pattern", "--json"}) {
    EXPECT_TRUE(contains(line.text, text)) << text << " in\n" << line.text;
  }
  EXPECT_FALSE(contains(line.text, "--spoil"));
}

TEST(Options, RefuseAnUnknownNameWithTheKnownOnes) {
  EXPECT_EQ(answer({"--op", "send"}),
            "bench: --op: 'send' is unknown; one of put, get, p, atomic_add, put_signal; see bench "
            "--help\n");
  EXPECT_TRUE(contains(answer({"--op", "g"}), "'g' is unknown")) << "this program has no g";
  EXPECT_TRUE(contains(answer({"--frequency", "3"}), "--frequency"));
}

TEST(Options, RefuseNumbersOutOfRange) {
  for (const char* option : {"--blocks", "--threads", "--qps", "--depth", "--iters", "--window"}) {
    EXPECT_TRUE(contains(answer({option, "0"}), option)) << option;
    EXPECT_TRUE(contains(answer({option, "many"}), option)) << option;
  }
  EXPECT_TRUE(contains(answer({"--threads", "1025"}), "in range 1 to 1024"));
  EXPECT_TRUE(contains(answer({"--depth", "300"}), "such as 512"));
}

TEST(Options, RefuseWhatDoesNotGoTogether) {
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

}  // namespace
}  // namespace peal::perf
