// SPDX-License-Identifier: Apache-2.0
//
// What is compared: one table for every side, so that bytes, blocks, threads and iterations are the
// same by construction. Also the command line and the output that the sides share.
//
//   cases(options) -> run by each side -> one JSON object a row -> compare.py
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

namespace peal::versus {

enum class Op {
  kPut,        // bandwidth: the agents share the message, many times over, then quiet
  kGet,        // the same, fetching
  kPutQuiet,   // one thread: put, quiet
  kPQuiet,     // one thread: p, quiet
  kIncQuiet,   // one thread: atomic increment, quiet
  kFetchAdd,   // one thread: fetching add
  kPutSignal,  // one thread each on two PEs: round trip of 8 bytes and a signal
  kPingPong,   // the same of a single word, which only plain stores offer: the floor
  kAdd,        // all threads add, each to a word of its own, then quiet
  kAddSame,    // all threads add to one word, then quiet
  kBarrier,    // barrier_all by one thread, warp or block of every PE
};

inline constexpr const char* kOpNames[] = {"put",       "get",       "put_quiet",  "p_quiet",
                                           "inc_quiet", "fetch_add", "put_signal", "ping_pong",
                                           "add",       "add_same",  "barrier_all"};

enum class ScopeKind { kThread, kWarp, kBlock };
inline constexpr const char* kScopeNames[] = {"thread", "warp", "block"};

inline const char* to_string(Op op) { return kOpNames[static_cast<size_t>(op)]; }
inline const char* to_string(ScopeKind scope) { return kScopeNames[static_cast<size_t>(scope)]; }

/// One row of the table.
struct Case {
  Op op;
  ScopeKind scope;
  uint32_t blocks;
  uint32_t threads;
  uint64_t bytes;       // of a message
  uint64_t iterations;  // in one launch, of every agent

  /// Bytes a second mean something.
  bool streams() const { return op == Op::kPut || op == Op::kGet; }
  /// Operations a second do.
  bool counts() const { return op == Op::kAdd || op == Op::kAddSame; }
  /// Goes to and fro between PE 0 and PE 1.
  bool bounces() const { return op == Op::kPutSignal || op == Op::kPingPong; }
};

inline constexpr uint64_t kMaxBytes = 64 << 20;
/// A stream's messages lie this far apart at least, so that no two share a cache line.
inline constexpr uint64_t kApart = 256;
/// And so many at least take turns, however long they are.
inline constexpr uint64_t kMinTurns = 4;
/// Messages of the latency cases go round among so many slots, this far apart.
inline constexpr uint64_t kSlots = 256;
inline constexpr uint64_t kSlotBytes = 64;

/// What the command line may change.
struct Options {
  std::vector<std::string> ops;  // empty: all
  std::string scope;             // empty: all
  uint64_t max_bytes = kMaxBytes;
  uint32_t max_blocks = 32;
  uint64_t iterations = 0;  // 0: by size
  uint32_t repeats = 9;
  uint64_t step = 2;                    // from one size of the bandwidth cases to the next
  uint64_t span = uint64_t{256} << 20;  // memory that a stream goes round in

  bool wants(Op op) const {
    return ops.empty() || std::ranges::find(ops, to_string(op)) != ops.end();
  }
};

inline constexpr const char* kUsage =
    "[--quick] [--ops NAME,...] [--scope NAME] [--max-bytes N] [--max-blocks N] [--iterations N] "
    "[--repeats N] "
    "[--span N]";

/// Throws std::invalid_argument with the usage.
inline Options parse(int argc, char** argv) {
  Options options;
  const auto number = [&](int i) {
    char* end = nullptr;
    const unsigned long long value = i < argc ? std::strtoull(argv[i], &end, 10) : 0;
    if (value == 0 || *end != 0) throw std::invalid_argument(kUsage);
    return value;
  };
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--quick") {
      options.step = 16;
      options.repeats = 3;
    } else if (name == "--ops" && i + 1 < argc) {
      std::string rest = std::string(argv[++i]) + ",";
      for (size_t comma; (comma = rest.find(',')) != std::string::npos; rest.erase(0, comma + 1)) {
        options.ops.push_back(rest.substr(0, comma));
        if (std::ranges::find(kOpNames, options.ops.back()) == std::end(kOpNames)) {
          throw std::invalid_argument("no operation '" + options.ops.back() + "'; " + kUsage);
        }
      }
    } else if (name == "--scope" && i + 1 < argc) {
      options.scope = argv[++i];
      if (std::ranges::find(kScopeNames, options.scope) == std::end(kScopeNames)) {
        throw std::invalid_argument("no scope '" + options.scope + "'; " + kUsage);
      }
    } else if (name == "--max-bytes") {
      options.max_bytes = std::min<uint64_t>(number(++i), kMaxBytes);
    } else if (name == "--max-blocks") {
      options.max_blocks = static_cast<uint32_t>(number(++i));
    } else if (name == "--iterations") {
      options.iterations = number(++i);
    } else if (name == "--span") {
      options.span = number(++i);
    } else if (name == "--repeats") {
      options.repeats = static_cast<uint32_t>(number(++i));
    } else {
      throw std::invalid_argument("'" + name + "': " + kUsage);
    }
  }
  return options;
}

namespace detail {

/// Enough to time, little enough to wait for.
inline uint64_t stream_iterations(uint64_t bytes) {
  return std::clamp<uint64_t>((uint64_t{256} << 20) / bytes, 4, 200);
}

inline void add_streams(const Options& o, std::vector<Case>& table) {
  struct Shape {
    ScopeKind scope;
    uint32_t blocks;
    uint32_t threads;
  };
  for (const Op op : {Op::kPut, Op::kGet}) {
    for (const Shape& shape :
         {Shape{ScopeKind::kBlock, 1, 1024}, Shape{ScopeKind::kBlock, 32, 1024},
          Shape{ScopeKind::kWarp, 1, 32}, Shape{ScopeKind::kWarp, 32, 1024}}) {
      // Warps have no bar: every fourth power of two tells enough.
      const uint64_t step =
          shape.scope == ScopeKind::kWarp ? std::max<uint64_t>(o.step, 16) : o.step;
      for (uint64_t bytes = 4; bytes <= o.max_bytes; bytes *= step) {
        table.push_back(
            {op, shape.scope, shape.blocks, shape.threads, bytes, stream_iterations(bytes)});
      }
    }
  }
}

}  // namespace detail

/// The table, as far as `options` wants it.
inline std::vector<Case> cases(const Options& options) {
  using enum ScopeKind;
  std::vector<Case> table;
  detail::add_streams(options, table);
  for (uint64_t bytes = 4; bytes <= 64; bytes *= 2) {
    table.push_back({Op::kPutQuiet, kThread, 1, 1, bytes, 1000});
  }
  for (const uint64_t bytes : {4, 8}) table.push_back({Op::kPQuiet, kThread, 1, 1, bytes, 1000});
  table.push_back({Op::kIncQuiet, kThread, 1, 1, 8, 1000});
  table.push_back({Op::kFetchAdd, kThread, 1, 1, 8, 1000});
  table.push_back({Op::kPutSignal, kThread, 1, 1, 8, 1000});
  table.push_back({Op::kPingPong, kThread, 1, 1, 8, 1000});
  table.push_back({Op::kAdd, kThread, 32, 1024, 8, 64});
  table.push_back({Op::kAddSame, kThread, 32, 1024, 8, 16});
  table.push_back({Op::kBarrier, kThread, 1, 1, 0, 1000});
  table.push_back({Op::kBarrier, kWarp, 1, 32, 0, 1000});
  table.push_back({Op::kBarrier, kBlock, 1, 1024, 0, 1000});

  std::erase_if(table, [&](const Case& c) {
    const bool other = !options.scope.empty() && options.scope != to_string(c.scope);
    return other || !options.wants(c.op) || c.blocks > options.max_blocks ||
           c.bytes > options.max_bytes;
  });
  if (options.iterations != 0) {
    for (Case& c : table) c.iterations = options.iterations;
  }
  return table;
}

/// What was measured of one case by one variant of a side.
struct Row {
  const char* side;
  const char* variant;
  std::string transport;
  std::string nic;
  int pes;
  std::vector<double> usec;  // of one iteration, one value a repetition
  uint64_t errors;           // wrong bytes, words, answers and failed calls, all PEs

  void print(const Case& c) {
    std::ranges::sort(usec);
    const double median = usec[usec.size() / 2];
    const auto per_second = [&](double amount) { return median > 0 ? amount / median : 0; };
    std::printf(
        "{\"side\": \"%s\", \"variant\": \"%s\", \"op\": \"%s\", \"scope\": \"%s\", "
        "\"bytes\": %llu, \"blocks\": %u, \"threads\": %u, \"pes\": %d, \"iters\": %llu, "
        "\"repeats\": %zu, \"usec\": %.5f, \"usec_min\": %.5f, \"usec_max\": %.5f",
        side, variant, to_string(c.op), to_string(c.scope),
        static_cast<unsigned long long>(c.bytes), c.blocks, c.threads, pes,
        static_cast<unsigned long long>(c.iterations), usec.size(), median, usec.front(),
        usec.back());
    if (c.streams()) {
      std::printf(", \"gbps\": %.4f", per_second(static_cast<double>(c.bytes) * 1e-3));
    }
    if (c.counts()) {
      std::printf(", \"mops\": %.3f", per_second(static_cast<double>(c.blocks) * c.threads));
    }
    std::printf(", \"errors\": %llu, \"transport\": \"%s\", \"nic\": \"%s\"}\n",
                static_cast<unsigned long long>(errors), transport.c_str(), nic.c_str());
    std::fflush(stdout);
  }
};

}  // namespace peal::versus
