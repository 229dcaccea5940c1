// SPDX-License-Identifier: Apache-2.0
//
// The command line that the three programs share. Every error names the option, what was given and
// what would be accepted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace peal::perf {

/// kMemcpy is no operation of peal: one thread copies into the peer's memory, for comparison.
enum class Op { kPut, kGet, kP, kG, kAtomicAdd, kPutSignal, kMemcpy };
enum class ScopeKind { kThread, kWarp, kBlock };
enum class Pairing { kPairs, kHalves };
/// What a run spoils before it verifies, so that tests see the verification fail.
enum class Spoil { kNothing, kData, kSignal };

std::string_view to_string(Op op);
std::string_view to_string(ScopeKind scope);

/// One run of a program.
struct Options {
  Op op = Op::kPut;
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
  bool json = false;

  /// How many scopes work at once: all threads, all warps or all blocks of the grid.
  uint32_t agents() const;
};

/// What distinguishes a program on the command line.
struct Program {
  std::string name;     // of the file
  std::string what;     // one sentence
  std::string sizes;    // default of --sizes
  std::vector<Op> ops;  // what --op accepts, the default first
  Options defaults;
  bool one_agent = false;  // no --blocks; --threads for block scope only
};

/// Options, or a text to print and the exit code to end with: 0 after --help, 2 after a mistake.
struct CommandLine {
  Options options;
  std::string text;
  int exit_code = 0;

  bool ends() const { return !text.empty(); }
};

CommandLine parse(const Program& program, int argc, const char* const* argv);

/// "8", "8,64", "8:1M" (powers of two), "1K,64K:1M". Throws peal::Error that says what is accepted.
std::vector<uint64_t> parse_sizes(const std::string& text);

}  // namespace peal::perf
