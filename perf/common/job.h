// SPDX-License-Identifier: Apache-2.0
//
// One PE of a measurement: its partner, its memory, and a case's launches with all that surrounds
// them. All PEs make all steps together:
//
//   prepare -> barrier -> launch (-> barrier -> launch ..) -> barrier -> verify -> gather
//
// A Side is a PE of some runtime: pe, n_pes, transport, nic, allocate, copy_in, copy_out, barrier,
// launch, launch_together (of kernels that wait for other PEs), check (throws what went wrong),
// api.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "perf/common/kernels.h"
#include "perf/common/options.h"
#include "perf/common/report.h"

namespace peal::perf {

/// What a case's words hold after so many launches, the calls made by the PE with that seed.
inline ExpectedWords expected_words(const Case& c, uint64_t words, uint64_t launches,
                                    uint64_t seed) {
  const uint64_t calls = c.iterations * launches;
  if (!c.adds()) return {.count = words, .first = calls, .step = 0, .bytes = 8};
  ExpectedWords e{.count = words,
                  .first = sum_of_addends(seed, calls, c.agents()),
                  .step = kAddend * calls,
                  .bytes = c.bytes};
  if (c.what.op == Op::kAddSame) {
    const uint64_t all = c.iterations * c.agents();  // different in the first launch, then alike
    e.first = sum_of_addends(seed, all, 1);
    for (uint64_t l = 1; l < launches; ++l) e.first += all * addend(seed, l * all);
  }
  return e;
}

/// Memory for the largest of several cases.
struct Needs {
  uint64_t extent = 0;
  uint64_t words = 1;
  uint64_t samples = 1;
  uint32_t blocks = 1;

  void cover(const Case& c, const Layout& layout, uint64_t launches, int pes) {
    extent = std::max(extent, layout.extent(c, launches));
    words = std::max(words, c.words(pes));
    blocks = std::max(blocks, c.blocks);
    if (!c.streams()) samples = std::max(samples, c.iterations);
  }
};

template <class Side>
class Job {
 public:
  /// Collective, like everything here that is not const.
  Job(Side& side, Pairing pairing, const Needs& needs) : side_(side) {
    plan_.pe = side.pe();
    plan_.n_pes = side.n_pes();
    find_partner(pairing);
    plan_.dst = side_.template allocate<std::byte>(needs.extent);
    plan_.src = side_.template allocate<std::byte>(needs.extent);
    plan_.words = side_.template allocate<uint64_t>(needs.words);
    plan_.errors = side_.template allocate<uint64_t>(2);
    plan_.samples = side_.template allocate<uint64_t>(needs.samples);
    times_ = side_.template allocate<BlockTime>(needs.blocks);
    mine_ = side_.template allocate<Record>(1);
    table_ = side_.template allocate<Record>(static_cast<size_t>(plan_.n_pes));
  }

  /// Has a partner, and begins.
  bool leads() const { return plan_.leads; }
  /// Makes calls of its own in the case; a partner that answers makes none.
  bool makes_calls(const Case& c) const { return leads() || (c.both_ways && plan_.peer >= 0); }
  bool to_itself() const { return plan_.peer == plan_.pe; }
  bool first() const { return plan_.pe == 0; }

  /// Fills and poisons memory for `launches` launches of the case.
  void prepare(const Case& c, const Layout& layout, uint64_t launches) {
    ++preparation_;
    case_ = c;
    static_cast<Layout&>(plan_) = layout;
    launches_ = launches;
    plan_.bytes = c.bytes;
    plan_.iterations = c.iterations;
    plan_.first = 0;
    plan_.seed = pattern_seed(preparation_, plan_.pe);
    plan_.peers_seed = pattern_seed(preparation_, plan_.peer);
    side_.launch(kAllHands, perf::prepare, plan_, layout.extent(c, launches), c.words(plan_.n_pes));
  }

  /// One launch of the Api's kernel for the case, where the case wants this PE to take part. The
  /// kernel's seconds; 0 elsewhere.
  template <class Api>
  double launch(CaseKernel<Api> kernel, const Api& api) {
    const Grid grid{case_.blocks, case_.threads};
    side_.barrier();
    ready_ = std::chrono::steady_clock::now();
    if (case_.bounces() || case_.what.way == CallWay::kTogether) {
      side_.launch_together(grid, kernel, api, plan_, times_);
    } else if (makes_calls(case_)) {
      side_.launch(grid, kernel, api, plan_, times_);
    }
    try {
      side_.check();
    } catch (const std::exception& error) {
      throw std::runtime_error(std::string(case_.what.name) + " of " + std::to_string(case_.bytes) +
                               " bytes: " + error.what());
    }
    plan_.first += case_.iterations;
    return makes_calls(case_) ? seconds() : 0;
  }

  /// Nanoseconds of each call of the last launch, of a kernel that keeps them.
  std::vector<uint64_t> samples() {
    std::vector<uint64_t> ns(case_.iterations);
    side_.copy_out(ns.data(), plan_.samples, ns.size() * sizeof(uint64_t));
    return ns;
  }

  /// From when all PEs were ready for the last launch to when all were done with it, once verified.
  double wall_seconds() const { return wall_.count(); }

  /// Adds to `record` how many calls' results lie at this PE, and what is wrong with them.
  void verify(Record& record, Spoil spoil = Spoil::kNothing) {
    side_.barrier();
    wall_ = std::chrono::steady_clock::now() - ready_;
    const Case& c = case_;
    const bool target = plan_.peer >= 0 && (!leads() || to_itself() || c.both_ways);
    const bool receives = c.fetches() ? makes_calls(c) : target || (c.bounces() && leads());
    if (receives && c.what.way != CallWay::kTogether) {
      if (spoil != Spoil::kNothing) flip(c.moves_data() && spoil == Spoil::kData);
      if (c.moves_data()) {
        const Expected e{.seed = plan_.peers_seed,
                         .bytes = c.bytes,
                         .stride = plan_.stride,
                         .slots = plan_.slots(c, launches_),
                         .extent = plan_.extent(c, launches_)};
        side_.launch(kAllHands, check, plan_.dst, e, plan_.errors);
      }
      const ExpectedWords e = expected_words(c, c.words(plan_.n_pes), launches_, plan_.peers_seed);
      side_.launch(kAllHands, check_words, plan_.words, e, plan_.errors);
      record.verified += c.agents() * c.iterations * launches_;
    }
    add_errors(record);
  }

  /// The records of all PEs, on PE 0.
  std::vector<Record> gather(const Record& mine) {
    side_.copy_in(mine_, &mine, sizeof mine);
    side_.barrier();
    std::vector<Record> all(static_cast<size_t>(first() ? plan_.n_pes : 0));
    if (first()) {
      const auto api = side_.api();
      constexpr uint64_t kNone[2] = {};
      side_.copy_in(plan_.errors, kNone, sizeof kNone);
      side_.launch({}, collect<std::remove_const_t<decltype(api)>, Record>, api, table_, mine_,
                   plan_);
      side_.check();
      side_.copy_out(all.data(), table_, all.size() * sizeof(Record));
      add_errors(all[0]);
    }
    side_.barrier();
    return all;
  }

  uint64_t clock_step_ns() {
    uint64_t step = 0;
    side_.launch({}, clock_step, plan_.samples);
    side_.copy_out(&step, plan_.samples, sizeof step);
    return step;
  }

 private:
  static constexpr Grid kAllHands{.blocks = PEAL_CUDA ? 64 : 2, .threads = PEAL_CUDA ? 256 : 16};

  void find_partner(Pairing pairing) {
    const int pe = plan_.pe;
    const int half = plan_.n_pes / 2;
    const int distance = half == 0 ? 0 : pairing == Pairing::kPairs ? 1 : half;
    const bool looks_on = half != 0 && pe >= 2 * half;  // the last one of an odd number
    plan_.leads = !looks_on && pe / std::max(distance, 1) % 2 == 0;
    plan_.peer = looks_on ? -1 : plan_.leads ? pe + distance : pe - distance;
  }

  void add_errors(Record& record) {
    uint64_t errors[2];
    side_.copy_out(errors, plan_.errors, sizeof errors);
    record.errors += errors[0];
    if (record.status == Status::kOk) record.status = static_cast<Status>(errors[1]);
  }

  /// From the first block's begin to the last one's end.
  double seconds() {
    std::vector<BlockTime> times(case_.blocks);
    side_.copy_out(times.data(), times_, times.size() * sizeof(BlockTime));
    uint64_t begin = ~uint64_t{0};
    uint64_t end = 0;
    for (const BlockTime& t : times) {
      begin = std::min(begin, t.begin_ns);
      end = std::max(end, t.end_ns);
    }
    return static_cast<double>(end - begin) * 1e-9;
  }

  /// One bit of what arrived, or of the words.
  void flip(bool data) {
    void* victim = data ? static_cast<void*>(plan_.dst) : plan_.words;
    std::byte value{};
    side_.copy_out(&value, victim, 1);
    value ^= std::byte{4};
    side_.copy_in(victim, &value, 1);
  }

  Side& side_;
  Plan plan_{};
  Case case_{};
  uint64_t launches_ = 0;
  uint64_t preparation_ = 0;
  std::chrono::steady_clock::time_point ready_{};
  std::chrono::duration<double> wall_{};
  BlockTime* times_;
  Record* mine_;
  Record* table_;
};

}  // namespace peal::perf
