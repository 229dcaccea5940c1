// SPDX-License-Identifier: Apache-2.0
//
// One side's run through the table of what is compared: bytes, blocks, threads and iterations are
// the same for every side by construction. A Side is a Job's, has a name, and calls visit(variant,
// api) for each of its ways of making the calls, of which compare.py takes the best.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "perf/common/job.h"

namespace peal::perf {

/// The table, as far as it is selected.
inline std::vector<Case> cases(const Selection& s) {
  using enum ScopeKind;
  std::vector<Case> table;
  const auto add = [&](const char* name, ScopeKind scope, uint32_t blocks, uint32_t threads,
                       uint64_t bytes, uint64_t iterations) {
    const auto wanted = std::ranges::find(s.ops, name) != s.ops.end() || s.ops.empty();
    const bool scoped = s.scope.empty() || s.scope == to_string(scope);
    if (!wanted || !scoped || blocks > s.max_blocks || bytes > s.max_bytes) return;
    const auto* what = std::ranges::find(kCompared, std::string(name), &Measure::name);
    table.push_back(
        {*what, scope, blocks, threads, bytes, s.iterations != 0 ? s.iterations : iterations});
  };
  for (const char* op : {"put", "get"}) {
    for (const auto& [scope, blocks, threads] : {std::tuple{kBlock, 1u, 1024u},
                                                 {kBlock, 32u, 1024u},
                                                 {kWarp, 1u, 32u},
                                                 {kWarp, 32u, 1024u}}) {
      // Warps have no bar: every fourth power of two tells enough.
      const uint64_t step = scope == kWarp ? std::max<uint64_t>(s.step, 16) : s.step;
      for (uint64_t bytes = 4; bytes <= s.max_bytes; bytes *= step) {
        // Enough to time, little enough to wait for.
        add(op, scope, blocks, threads, bytes,
            std::clamp<uint64_t>((uint64_t{256} << 20) / bytes, 4, 200));
      }
    }
  }
  for (uint64_t bytes = 4; bytes <= 64; bytes *= 2) add("put_quiet", kThread, 1, 1, bytes, 1000);
  for (const uint64_t bytes : {4, 8}) add("p_quiet", kThread, 1, 1, bytes, 1000);
  for (const char* op : {"inc_quiet", "fetch_add", "put_signal", "ping_pong"}) {
    add(op, kThread, 1, 1, 8, 1000);
  }
  add("add", kThread, 32, 1024, 8, 64);
  add("add_same", kThread, 32, 1024, 8, 16);
  add("barrier_all", kThread, 1, 1, 0, 1000);
  add("barrier_all", kWarp, 1, 32, 0, 1000);
  add("barrier_all", kBlock, 1, 1024, 0, 1000);
  return table;
}

/// Streams go round in the span, their messages so far apart that no two share a cache line, and so
/// many at least that they take turns however long they are.
inline Layout layout(const Case& c, const Selection& s) {
  constexpr uint64_t kApart = 256, kMinTurns = 4, kSlots = 256, kSlotBytes = 64;
  if (c.bounces()) return {.stride = 8, .span = 8 * c.iterations};
  if (!c.streams() || !c.moves_data()) return {.stride = kSlotBytes, .span = kSlots * kSlotBytes};
  const uint64_t stride = std::max(kApart, (c.bytes + kApart - 1) / kApart * kApart);
  return {.stride = stride, .span = stride * std::max(kMinTurns, s.span / stride), .shared = true};
}

// The kernels of the table.

struct Transfers : List<Streams<PutCall, Block>, Streams<PutCall, Warp>, Streams<GetCall, Block>,
                        Streams<GetCall, Warp>> {};
struct TimedCalls : List<Timed<Quieted<PutCall>>, Timed<Quieted<PCall<uint32_t>>>,
                         Timed<Quieted<PCall<uint64_t>>>, Timed<Quieted<AddCall<uint64_t>>>,
                         Timed<FetchAddCall<uint64_t>>> {};
struct Bounces : List<Timed<PutSignalCall<8>>> {};
struct OwnWords : List<Streams<AddCall<uint64_t>>> {};
struct SameWord : List<Streams<AddAlikeCall, Thread, AddCall<uint64_t, Op::kAddSame>>> {};
struct AllBarriers : List<Barriers<Thread>, Barriers<Warp>, Barriers<Block>> {};
struct OneThread : List<TimedCalls, Bounces> {};
struct Everything : List<Transfers, OneThread, OwnWords, SameWord, AllBarriers> {};

template <class Side>
class Comparison {
 public:
  /// Collective, like everything here.
  Comparison(Side& side, const Selection& selection)
      : side_(side), selection_(selection), job_(side, Pairing::kPairs, needs()) {
    setting_.program = Side::kName;
    setting_.pes = side.n_pes();
    setting_.transport = side.transport();
    setting_.nic = side.nic();
  }

  /// Runs and prints all cases. The exit code: 1 if anything was wrong.
  int run() {
    if (job_.first()) print_clock(setting_, job_.clock_step_ns());
    for (const Case& c : cases(selection_)) {
      side_.for_each_api(c,
                         [&](const char* variant, const auto& api) { measure(c, variant, api); });
    }
    side_.barrier();
    return clean_ ? 0 : 1;
  }

 private:
  uint64_t launches() const { return selection_.repeats + 1; }

  Needs needs() const {
    Needs needs;
    for (const Case& c : cases(selection_)) {
      if (side_.n_pes() > 2 && c.what.way != CallWay::kTogether) {
        throw std::runtime_error(std::string(c.what.name) + " is between two PEs, these are " +
                                 std::to_string(side_.n_pes()) +
                                 "; mpirun -np 2, or --ops barrier_all");
      }
      needs.cover(c, layout(c, selection_), launches(), side_.n_pes());
    }
    return needs;
  }

  template <class Api>
  void measure(const Case& c, const char* variant, const Api& api) {
    using Kernels = typename Api::Kernels;
    const CaseKernel<Api> look = Kernels::template kernel<Api>(c, Mode::kLook);
    if (look == nullptr) return;
    job_.prepare(c, layout(c, selection_), launches());
    job_.launch(look, api);  // warms up
    const CaseKernel<Api> kernel = Kernels::template kernel<Api>(c, Mode::kWhole);
    std::vector<double> usec;
    for (uint32_t r = 0; r < selection_.repeats; ++r) {
      const double seconds = job_.launch(kernel, api);
      usec.push_back(seconds * 1e6 / static_cast<double>(c.iterations));
    }
    Record mine;
    job_.verify(mine);
    const std::vector<Record> all = job_.gather(mine);
    const uint64_t errors = print_failures(c, all);
    clean_ = clean_ && mine.errors == 0 && errors == 0;
    if (job_.first()) print_compared(setting_, variant, c, std::move(usec), errors);
  }

  Side& side_;
  Selection selection_;
  Setting setting_;
  Job<Side> job_;
  bool clean_ = true;
};

/// A side's main but for its exceptions.
template <class Side>
int run_side(int argc, char** argv) {
  const Selection selection = parse_selection(argc, argv);
  Side side;
  return Comparison<Side>(side, selection).run();
}

}  // namespace peal::perf
