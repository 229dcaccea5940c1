// SPDX-License-Identifier: Apache-2.0
//
// A program from its command line to its exit code: one case a size, in rounds whose every message
// has a slot of its own, so that each of them is verified.
//
//   one pair        seconds are the kernel's, from its first block's begin to its last one's end
//   several pairs,  all PEs ready -> all done, launches included: those that take turns on too few
//   or both ways    cores must not each count only its own turn
#pragma once

#include <algorithm>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "perf/common/job.h"
#include "perf/common/peal_side.h"

namespace peal::perf {

/// One size's rounds.
class Rounds {
 public:
  Rounds(const BenchmarkOptions& o, const Effort& effort, uint64_t bytes)
      : options_(o), bytes_(bytes), agents_(o.of(bytes, 1).agents()) {
    const int fewer = o.scope == ScopeKind::kThread || o.what.way != CallWay::kStream ? 0 : 4;
    const uint64_t operations = std::min(effort.operations >> fewer, effort.bytes / bytes);
    iterations_ = o.iterations != 0 ? o.iterations : std::max<uint64_t>(1, operations / agents_);
    constexpr uint64_t kSlotBudget = 8 << 20;   // bytes of slots, where that is enough
    constexpr uint64_t kRoundBudget = 1 << 18;  // operations, so that progress shows
    const uint64_t fitting = std::min(kSlotBudget / stride(), kRoundBudget) / agents_;
    window_ = o.window != 0 ? o.window : std::max<uint64_t>(1, fitting);
    window_ = std::min(window_, std::max(iterations_, o.warmup));
  }

  Case of(uint64_t count) const { return options_.of(bytes_, count); }
  Case largest() const { return of(window_); }
  Case all() const { return of(iterations_); }
  Layout layout(uint64_t count) const { return {.stride = stride(), .span = stride() * count}; }

  /// Calls visit(case, warm) for every round, the warm-up's first.
  template <class Visit>
  void for_each(Report& report, const Visit& visit) const {
    const uint64_t all = options_.warmup + iterations_;
    for (uint64_t done = 0, count = 0; done < all; done += count) {
      const bool warm = done < options_.warmup;
      count = std::min(window_, (warm ? options_.warmup : all) - done);
      visit(of(count), warm);
      report.progress(bytes_, done + count, all);
    }
  }

 private:
  uint64_t stride() const { return (bytes_ + 7) / 8 * 8; }

  const BenchmarkOptions& options_;
  uint64_t bytes_;
  uint64_t agents_;
  uint64_t iterations_;
  uint64_t window_;
};

/// The times of one size, on the PE that leads.
inline void summarize(std::vector<double> usec, Record& record) {
  if (usec.empty()) return;
  std::ranges::sort(usec);
  record.usec_min = usec.front();
  record.usec_median = usec[usec.size() / 2];
  record.usec_p99 = usec[(usec.size() - 1) * 99 / 100];
  record.usec_p99_9 = usec[(usec.size() - 1) * 999 / 1000];
}

/// Only PE 0 prints: the others leave its GPU alone.
inline Setting setting_of(PealSide& side, const std::string& program, int pairs) {
  Setting setting{.program = program,
                  .pes = side.n_pes(),
                  .pairs = pairs,
                  .queues = side.context().queues_per_peer,
                  .transport = side.transport(),
                  .nic = side.nic()};
  if (side.pe() != 0) return setting;
  setting.provenance = provenance_of_run(PEAL_CUDA, side.runtime().config().device);
  return setting;
}

template <class Kernels>
class ProgramRun {
 public:
  ProgramRun(const Program& program, const BenchmarkOptions& options)
      : program_(program),
        options_(options),
        side_({.queues_per_peer = options.queues, .depth = options.depth}),
        job_(side_, options.pairing, needs()) {
    if (options.what.op == Op::kCopy && side_.transport() != "p2p") {
      throw std::runtime_error(
          "--op memcpy: the peer's memory is mapped with PEAL_TRANSPORT=p2p only");
    }
    if (options.both_ways && side_.n_pes() == 1) {
      throw std::runtime_error("--bidirectional: there is one PE; mpirun -np 2");
    }
  }

  /// The exit code.
  int run() {
    const Setting setting = setting_of(side_, program_.name, pairs());
    Report report(setting, options_, program_.metric, job_.first());
    bool clean = true;
    for (const uint64_t bytes : options_.sizes) {
      const Rounds rounds(options_, program_.effort, bytes);
      std::vector<std::vector<Record>> repeats;
      for (uint32_t i = 0; i < options_.repeats; ++i) {
        const Record mine = measure(rounds, report);
        clean = clean && mine.errors == 0;
        repeats.push_back(job_.gather(mine));
      }
      report.row(rounds.all(), repeats);
    }
    clean = report.finish() && clean;
    side_.barrier();  // the peers may still be working on this PE's queues: leave together
    return clean ? 0 : 1;
  }

 private:
  int pairs() const { return std::max(1, side_.n_pes() / 2); }

  Needs needs() const {
    Needs needs;
    for (const uint64_t bytes : options_.sizes) {
      const Case c = Rounds(options_, program_.effort, bytes).largest();
      needs.cover(c, Rounds(options_, program_.effort, bytes).layout(c.iterations), 1,
                  side_.n_pes());
    }
    return needs;
  }

  Record measure(const Rounds& rounds, Report& report) {
    using Api = PealApi<Reach::kGpu, Kernels>;
    const CaseKernel<Api> kernel = Kernels::template kernel<Api>(rounds.all(), Mode::kEach);
    if (kernel == nullptr) {
      throw std::runtime_error("--sizes " + std::to_string(rounds.all().bytes) +
                               ": the latency of " + options_.what.name +
                               " is measured on words of 4 or 8 bytes");
    }
    // There and back is two operations, unless this PE talks to itself.
    const double legs = rounds.all().bounces() && !job_.to_itself() ? 2 : 1;
    Record record;
    std::vector<double> usec;
    rounds.for_each(report, [&](const Case& c, bool warm) {
      job_.prepare(c, rounds.layout(c.iterations), 1);
      const double seconds = job_.launch(kernel, Api{side_.context()});
      job_.verify(record, options_.spoil);
      if (warm || !job_.makes_calls(c)) return;
      const bool alone = pairs() == 1 && !c.both_ways;
      record.seconds += alone || !c.streams() ? seconds : job_.wall_seconds();
      record.operations += c.agents() * c.iterations;
      if (c.streams()) return;
      for (const uint64_t ns : job_.samples()) {
        usec.push_back(static_cast<double>(ns) / 1e3 / legs);
      }
    });
    summarize(std::move(usec), record);
    return record;
  }

  const Program& program_;
  const BenchmarkOptions& options_;
  PealSide side_;
  Job<PealSide> job_;
};

/// Prints what ends a run before it begins (help, a mistake), once for all PEs; the exit code.
inline int print_once(const CommandLine& line) {
  const Config config = Config::from_environment(environ);
  // The others end after PE 0 has printed: a launcher ends all when the first one fails.
  std::optional<Runtime> job;
  const bool alone = bootstrap::choose_launch(config).kind == BootstrapKind::kSingle;
  if (!alone) job.emplace(start(config));
  if (!job || job->my_pe() == 0) {
    std::fputs(line.text.c_str(), line.exit_code == 0 ? stdout : stderr);
  }
  return line.exit_code;
}

/// All of a program's main: a Run is made of Program and BenchmarkOptions, and its run() answers
/// the exit code.
template <class Run>
int run_program_as(const Program& program, int argc, char** argv) {
  return run_main([&] {
    const CommandLine line = parse(program, argc, argv);
    return line.ends() ? print_once(line) : Run(program, line.options).run();
  });
}

/// That of a program whose PEs work in pairs.
template <class Kernels>
int run_program(const Program& program, int argc, char** argv) {
  return run_program_as<ProgramRun<Kernels>>(program, argc, argv);
}

}  // namespace peal::perf
