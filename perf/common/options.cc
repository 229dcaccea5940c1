// SPDX-License-Identifier: Apache-2.0
//
// CLI11 finds the options; what they may mean together is decided here.
#include "perf/common/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <charconv>
#include <ranges>

#include "host/base/error.h"

namespace peal::perf {
namespace {

constexpr uint64_t kMaxSize = uint64_t{1} << 30;

using Names = std::vector<std::string>;

// An option with one of a few names as its value: "--op: 'x' is unknown; one of put, get, ...". The
// name's place in the list is what it stands for.
template <class E>
CLI::Option* add_choice(CLI::App& app, const std::string& option, E& value, const Names& names,
                        const std::string& text) {
  const std::string accepted = fmt::format("{}", fmt::join(names, ", "));
  const auto take = [&value, names, accepted, option](const std::string& given) {
    const auto found = std::ranges::find(names, given);
    if (found == names.end()) {
      throw CLI::ValidationError(option, "'" + given + "' is unknown; one of " + accepted);
    }
    value = static_cast<E>(found - names.begin());
  };
  return app.add_option_function<std::string>(option, take, text + " (" + accepted + ")")
      ->type_name("NAME")
      ->default_str(names[static_cast<size_t>(value)]);
}

uint64_t parse_size(const std::string& text) {
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  uint64_t unit = 1;
  if (stop + 1 == end) {
    if (*stop == 'K' || *stop == 'k') unit = uint64_t{1} << 10;
    if (*stop == 'M' || *stop == 'm') unit = uint64_t{1} << 20;
    if (*stop == 'G' || *stop == 'g') unit = uint64_t{1} << 30;
  }
  const bool whole = stop == end || unit != 1;
  if (error != std::errc() || !whole || value == 0 || value > kMaxSize / unit) {
    fail(ErrorCode::kInvalidArgument,
         "'{}' is not a size from 1 to 1G; give bytes such as 8, a list such as 8,64,1K or a range "
         "of powers of two such as 8:1M",
         text);
  }
  return value * unit;
}

// What one option at a time cannot know.
void check_together(const BenchmarkOptions& o) {
  const std::string_view op = o.what.name;
  const bool word = o.what.op == Op::kP || o.what.op == Op::kG;
  const bool adds = o.of(8, 1).adds();
  if ((word || adds) && o.scope != ScopeKind::kThread) {
    fail(ErrorCode::kInvalidArgument,
         "--scope {}: {} is an operation of one thread; use --scope thread", to_string(o.scope),
         op);
  }
  for (const uint64_t bytes : o.sizes) {
    if (word && (bytes > 8 || !std::has_single_bit(bytes))) {
      fail(ErrorCode::kInvalidArgument, "--sizes {}: {} moves one value; use 1, 2, 4 or 8", bytes,
           op);
    }
    if (adds && bytes != 4 && bytes != 8) {
      fail(ErrorCode::kInvalidArgument, "--sizes {}: {} works on words of 4 or 8 bytes", bytes, op);
    }
  }
  if (o.spoil == Spoil::kSignal && o.what.op != Op::kPutSignal && !adds) {
    fail(ErrorCode::kInvalidArgument, "--spoil signal: {} has no signal; use --spoil data", op);
  }
  if (o.depth != 0 && !std::has_single_bit(o.depth)) {
    fail(ErrorCode::kInvalidArgument, "--depth {}: a queue's depth is a power of two, such as {}",
         o.depth, std::bit_ceil(o.depth));
  }
}

// What is looked at once the whole command line is known.
struct Given {
  size_t op = 0;
  size_t caller = 0;
  std::string sizes;
  bool json = false;
  bool csv = false;
};

CLI::Option* add_number(CLI::App& app, const char* name, auto& value, uint64_t least, uint64_t most,
                        const char* text) {
  return app.add_option(name, value, text)->check(CLI::Range(least, most));
}

void add_output_options(CLI::App& app, BenchmarkOptions& o, Given& given) {
  add_number(app, "--repeats", o.repeats, 1, 1000,
             "How often each size is measured; the median counts, and the spread is told")
      ->capture_default_str();
  app.add_flag("--json", given.json, "One JSON object a row instead of the table");
  app.add_flag("--csv", given.csv, "Comma-separated values instead of the table, names ahead");
  // Hidden: for the tests of the verification.
  add_choice(app, "--spoil", o.spoil, {"nothing", "data", "signal"},
             "Damage what arrived before it is verified")
      ->group("");
}

void add_sizes(CLI::App& app, BenchmarkOptions& o, Given& given, const char* text) {
  constexpr uint64_t kMostIterations = 1'000'000'000;
  app.add_option("--sizes", given.sizes, text)->capture_default_str();
  add_number(
      app, "--iters", o.iterations, 1, kMostIterations,
      "Operations of each thread, warp or block, or of the host (else: fewer for larger messages)");
  add_number(app, "--warmup", o.warmup, 0, kMostIterations, "As --iters, before the clock starts")
      ->capture_default_str();
}

// Adds the options of a program that measures collective calls.
void add_collective_options(CLI::App& app, BenchmarkOptions& o, Given& given) {
  add_choice(app, "--scope", given.caller, {"block", "stream", "host"},
             "Who makes each call: a block of a kernel, the host on a stream, or the host at once");
  add_number(app, "--threads", o.threads, 1, 1024, "Threads of the block")->capture_default_str();
  add_sizes(app, o, given,
            "Bytes of a PE's source, of all_to_all those for one PE: 8 or 8,64 or 8:1M (powers of "
            "two); barrier has none");
}

// Adds the options of the programs whose PEs work in pairs.
void add_pair_options(CLI::App& app, const Program& program, BenchmarkOptions& o, Given& given) {
  const bool one_agent = program.metric == Metric::kLatency;
  const auto number = [&](const char* name, auto& value, uint64_t least, uint64_t most,
                          const char* text) {
    return add_number(app, name, value, least, most, text);
  };
  add_choice(app, "--scope", o.scope, {"thread", "warp", "block"}, "Who makes each call");
  if (!one_agent) {
    number("--blocks", o.blocks, 1, 65535, "Blocks of the grid")->capture_default_str();
  }
  number("--threads", o.threads, 1, 1024,
         one_agent ? "Threads of the block, for --scope block" : "Threads of a block")
      ->capture_default_str();
  number("--qps", o.queues, 1, 1024,
         "Queues per peer, in a context of the run's own (else: PEAL_QUEUES, default context)");
  number("--depth", o.depth, 128, 16384,
         "Entries of each queue, a power of two (else: PEAL_QUEUE_DEPTH)");
  add_sizes(app, o, given, "Bytes of a message: 8 or 8,64 or 8:1M (powers of two)");
  number("--window", o.window, 1, 1'000'000,
         "Operations of each thread, warp or block between two waits for completion");
  add_choice(app, "--pattern", o.pairing, {"pairs", "halves"},
             "Who sends to whom: PE 2k to 2k+1, or the first half of the PEs to the second");
  if (!one_agent) {
    app.add_flag(
        "--bidirectional", o.both_ways,
        "Both PEs of a pair make calls at the same time; rates are those of both together");
  }
}

void add_options(CLI::App& app, const Program& program, BenchmarkOptions& o, Given& given) {
  Names ops;
  for (const Measure& what : program.ops) ops.emplace_back(what.name);
  add_choice(app, "--op", given.op, ops, "Operation to measure");
  if (program.metric == Metric::kCollective) {
    add_collective_options(app, o, given);
  } else {
    add_pair_options(app, program, o, given);
  }
  add_output_options(app, o, given);
}

// Fills in the options that follow from others.
void derive_options(const Program& program, BenchmarkOptions& o, const Given& given) {
  if (program.metric == Metric::kLatency && o.scope == ScopeKind::kThread) o.threads = 1;
  if (program.metric == Metric::kLatency && o.scope == ScopeKind::kWarp) o.threads = 32;
  if (program.metric != Metric::kCollective) return;
  o.scope = static_cast<ScopeKind>(static_cast<size_t>(ScopeKind::kBlock) + given.caller);
  if (o.scope != ScopeKind::kBlock) o.blocks = o.threads = 0;
  if (o.what.op == Op::kBarrier) o.sizes = {0};
  for (const uint64_t bytes : o.sizes) {
    if (bytes % sizeof(float) == 0) continue;
    fail(ErrorCode::kInvalidArgument, "--sizes {}: {} works on floats; use multiples of 4", bytes,
         o.what.name);
  }
}

}  // namespace

std::vector<uint64_t> parse_sizes(const std::string& text) {
  std::vector<uint64_t> sizes;
  if (text.empty()) parse_size(text);  // refuses: it has no pieces
  for (const auto piece : std::views::split(text, ',')) {
    const std::string part(piece.begin(), piece.end());
    const size_t colon = part.find(':');
    const uint64_t first = parse_size(part.substr(0, colon));
    const uint64_t last = colon == part.npos ? first : parse_size(part.substr(colon + 1));
    if (last < first) {
      fail(ErrorCode::kInvalidArgument,
           "'{}' is not a range of sizes; give FIRST:LAST, such as 8:1M", part);
    }
    for (uint64_t bytes = first; bytes <= last; bytes *= 2) sizes.push_back(bytes);
  }
  return sizes;
}

CommandLine parse(const Program& program, int argc, const char* const* argv) {
  CommandLine line{.options = program.defaults, .text = {}, .exit_code = 0};
  BenchmarkOptions& o = line.options;
  Given given{.sizes = program.sizes};
  CLI::App app(program.what, program.name);
  app.footer(
      "Run it with mpirun -np N; with one PE it sends to itself. Settings of peal itself are "
      "PEAL_*\nvariables: PEAL_INFO=1 shows them.");
  add_options(app, program, o, given);
  try {
    app.parse(argc, argv);
    o.what = program.ops[given.op];
    if (given.json && given.csv)
      throw CLI::ValidationError("--csv", "rows are one or the other; leave out --json");
    if (given.json || given.csv) o.form = given.json ? Form::kJson : Form::kCsv;
    try {
      o.sizes = parse_sizes(given.sizes);
    } catch (const Error& error) {
      throw CLI::ValidationError("--sizes", error.what());
    }
    check_together(o);
    derive_options(program, o, given);
  } catch (const CLI::CallForHelp&) {
    line.text = app.help();
  } catch (const std::exception& error) {  // of CLI11 or of the checks above
    line.text = program.name + ": " + error.what() + "; see " + program.name + " --help\n";
    line.exit_code = 2;
  }
  return line;
}

Selection parse_selection(int argc, const char* const* argv) {
  Selection s;
  CLI::App app("One side of the comparison; compare.py starts it.");
  std::vector<std::string> names;
  for (const Measure& what : kCompared) names.emplace_back(what.name);
  app.add_option("--ops", s.ops, "Only these")->delimiter(',')->check(CLI::IsMember(names));
  app.add_option("--scope", s.scope)->check(CLI::IsMember({"thread", "warp", "block"}));
  const CLI::Range positive(uint64_t{1}, uint64_t{1} << 40);
  app.add_option("--max-bytes", s.max_bytes)->check(CLI::Range(uint64_t{1}, s.max_bytes));
  app.add_option("--max-blocks", s.max_blocks)->check(CLI::Range(1u, 32u));
  app.add_option("--iterations", s.iterations, "Of every case")->check(positive);
  app.add_option("--repeats", s.repeats)->check(CLI::Range(1u, 1000u));
  app.add_option("--span", s.span, "Bytes that a stream goes round in")->check(positive);
  bool quick = false;
  app.add_flag("--quick", quick, "Fewer sizes, three repetitions");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    throw std::runtime_error(app.help());
  }
  if (quick) {
    s.step = 16;
    if (app.count("--repeats") == 0) s.repeats = 3;
  }
  return s;
}

}  // namespace peal::perf
