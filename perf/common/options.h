// SPDX-License-Identifier: Apache-2.0
//
// The command lines: that which the three programs share, and the comparison's. Every error names
// the option, what was given and what would be accepted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "perf/common/cases.h"

namespace peal::perf {

enum class Pairing { kPairs, kHalves };
/// How rows are written: for people, one JSON object each, or as a line of comma-separated values.
enum class Form { kTable, kJson, kCsv };
/// What a run spoils before it verifies, so that tests see the verification fail.
enum class Spoil { kNothing, kData, kSignal };

/// One run of a program.
struct BenchmarkOptions {
  Measure what{};
  ScopeKind scope = ScopeKind::kThread;
  Pairing pairing = Pairing::kPairs;
  Spoil spoil = Spoil::kNothing;
  uint32_t blocks = 1;
  uint32_t threads = 32;          // of a block
  uint32_t queues = 0;            // per peer, of a context of the run's own; 0 = default context
  uint32_t depth = 0;             // of each queue; 0 = as configured
  std::vector<uint64_t> sizes{};  // bytes of a message
  uint64_t iterations = 0;        // of each agent (thread, warp or block); 0 = by size
  uint64_t warmup = 64;           // iterations before the clock starts
  uint64_t window = 0;            // operations of an agent before it waits for all; 0 = by size
  uint32_t repeats = 1;           // of all that, whose median counts
  bool both_ways = false;         // both PEs of a pair make calls, at the same time
  Form form = Form::kTable;

  Case of(uint64_t bytes, uint64_t count) const {
    return {what, scope, blocks, threads, bytes, count, both_ways};
  }
};

/// What one size is given by default, in all: enough to measure, little enough to wait for.
struct Effort {
  uint64_t operations;  // of threads; warps and blocks post one where threads post many
  uint64_t bytes;
};

enum class Metric { kMessageRate, kBandwidth, kLatency, kCollective };

/// What distinguishes a program on the command line.
struct Program {
  std::string name;          // of the file
  std::string what;          // one sentence
  std::string sizes;         // default of --sizes
  std::vector<Measure> ops;  // what --op accepts, the default first
  BenchmarkOptions defaults;
  /// kLatency: no --blocks; --threads for block scope only. kCollective: neither pairs nor queues;
  /// block scope or the host's.
  Metric metric = Metric::kMessageRate;
  Effort effort{.operations = 1 << 20, .bytes = 128 << 20};
};

/// Options, or a text to print and the exit code to end with: 0 after --help, 2 after a mistake.
struct CommandLine {
  BenchmarkOptions options;
  std::string text;
  int exit_code = 0;

  bool ends() const { return !text.empty(); }
};

CommandLine parse(const Program& program, int argc, const char* const* argv);

/// Which cases of the comparison's table run, and how.
struct Selection {
  std::vector<std::string> ops{};  // empty: all
  std::string scope{};             // empty: all
  uint64_t max_bytes = 64 << 20;
  uint32_t max_blocks = 32;
  uint64_t iterations = 0;  // 0: by size
  uint32_t repeats = 9;
  uint64_t span = 256 << 20;  // memory that a stream goes round in
  uint64_t step = 2;          // from one size of the bandwidth cases to the next
};

/// Throws std::runtime_error that says what is accepted.
Selection parse_selection(int argc, const char* const* argv);

/// "8", "8,64", "8:1M" (powers of two), "1K,64K:1M". Throws peal::Error that says what is accepted.
std::vector<uint64_t> parse_sizes(const std::string& text);

}  // namespace peal::perf
