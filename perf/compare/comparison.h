// SPDX-License-Identifier: Apache-2.0
//
// One side's run through the table of cases. All PEs make all steps together:
//
//   fill and poison -> barrier -> warm-up -> timed launches -> barrier -> check -> PE 0 prints
//
// A Side is a PE of some runtime: pe, n_pes, allocate, copy_out, barrier, launch, and its Apis.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "perf/compare/cases.h"
#include "perf/compare/kernels.h"

namespace peal::versus {

template <class Side>
class Comparison {
 public:
  /// Collective, like everything here.
  Comparison(Side& side, const Options& options) : side_(side), options_(options) {
    uint64_t extent = 0;
    for (const Case& c : cases(options_)) {
      extent = std::max({extent, expected(c).extent, words(c) * sizeof(uint64_t)});
    }
    src_ = side_.template allocate<std::byte>(extent);
    dst_ = side_.template allocate<std::byte>(extent);
    flag_ = side_.template allocate<uint64_t>(1);
    errors_ = side_.template allocate<uint64_t>(1);
    landing_ = side_.template allocate<uint64_t>(1);
    sum_ = side_.template allocate<uint64_t>(1);
    times_ = side_.template allocate<BlockTime>(kMaxBlocks);
  }

  /// Runs and prints all cases. The exit code: 1 if anything was wrong.
  int run() {
    print_clock();
    for (const Case& c : cases(options_)) {
      side_.for_each_api(c,
                         [&](const char* variant, const auto& api) { measure(c, variant, api); });
    }
    side_.barrier();
    return clean_ ? 0 : 1;
  }

 private:
  static constexpr uint64_t kGuard = 256;     // poison behind the message
  static constexpr uint32_t kMaxBlocks = 32;  // of a timed kernel
  static constexpr Grid kAllHands{.blocks = 64, .threads = 256};

  template <class Api>
  void measure(const Case& c, const char* variant, const Api& api) {
    prepare(c);
    Row row{.side = Side::kName,
            .variant = variant,
            .transport = side_.transport(),
            .nic = side_.nic(),
            .pes = side_.n_pes(),
            .usec = {},
            .errors = 0};
    // The first launch warms up, and looks at the data as it comes where that would cost time.
    for (uint32_t r = 0; r <= options_.repeats; ++r) {
      side_.barrier();
      plan_.first = r * c.iterations;
      start(c, r == 0 ? Look::kYes : Look::kNo, api);
      if (r != 0 && side_.pe() == 0) row.usec.push_back(usec_of_iteration(c));
    }
    side_.barrier();
    verify(c, Api::kCarriesData);
    row.errors = errors_of_all();
    clean_ = clean_ && row.errors == 0;
    if (side_.pe() == 0) row.print(c);
  }

  /// From one message of a stream to the next, and to where they begin again.
  static uint64_t stride(const Case& c) {
    return std::max(kApart, (c.bytes + kApart - 1) / kApart * kApart);
  }
  uint64_t turns(const Case& c) const { return std::max(kMinTurns, options_.span / stride(c)); }

  /// How far the case reaches into dst and src.
  Expected expected(const Case& c) const {
    Expected e{.seed = 0, .bytes = c.bytes, .stride = c.bytes, .slots = 1, .extent = 0};
    if (c.streams()) {
      e.stride = stride(c);
      e.slots = std::min(turns(c), c.iterations * (options_.repeats + 1));
    } else if (c.op == Op::kPutQuiet || c.op == Op::kPQuiet) {
      e.stride = kSlotBytes;
      e.slots = std::min(kSlots, c.iterations);
    } else if (c.bounces()) {
      e.slots = c.iterations;
    }
    e.extent = e.stride * e.slots + kGuard;
    return e;
  }

  static bool works_on_words(const Case& c) {
    return c.counts() || c.op == Op::kIncQuiet || c.op == Op::kFetchAdd || c.op == Op::kBarrier;
  }

  /// Words at dst that such a case uses.
  uint64_t words(const Case& c) const {
    if (c.op == Op::kBarrier) return static_cast<uint64_t>(side_.n_pes());
    return c.op == Op::kAdd ? uint64_t{c.blocks} * c.threads : 1;
  }

  void prepare(const Case& c) {
    ++generation_;
    const auto seed = [&](int pe) {
      return generation_ << 32 | static_cast<uint64_t>(pe + 1) << 16;
    };
    const int partner = 1 - side_.pe();  // of PE 0 and 1; the others look on
    plan_ = {.dst = dst_,
             .src = src_,
             .flag = flag_,
             .errors = errors_,
             .bytes = c.bytes,
             .stride = stride(c),
             .span = stride(c) * turns(c),
             .iterations = c.iterations,
             .first = 0,
             .seed = seed(side_.pe()),
             .peers_seed = seed(partner),
             .pe = side_.pe(),
             .n_pes = side_.n_pes(),
             .peer = partner};
    side_.launch({}, set_words, errors_, uint64_t{1}, uint64_t{0});
    side_.launch({}, set_words, flag_, uint64_t{1}, uint64_t{0});
    if (works_on_words(c)) {
      side_.launch(kAllHands, set_words, reinterpret_cast<uint64_t*>(dst_), words(c), uint64_t{0});
    } else {
      const uint64_t words = expected(c).extent / sizeof(uint64_t);
      side_.launch(kAllHands, fill, reinterpret_cast<uint64_t*>(src_), words, plan_.seed,
                   Bytes::kPattern);
      side_.launch(kAllHands, fill, reinterpret_cast<uint64_t*>(dst_), words, plan_.peers_seed,
                   Bytes::kPoison);
    }
  }

  /// One launch of the case's kernel, where the case wants this PE to take part.
  template <class Api>
  void start(const Case& c, Look look, const Api& api) {
    if constexpr (Api::kTransfers) {
      if (c.op == Op::kPut) return start_stream<true>(c, api);
      if (c.op == Op::kGet) return start_stream<false>(c, api);
    }
    if constexpr (Api::kPingPong) {
      if (c.bounces()) {
        return together(
            c, look == Look::kYes ? ping_pong<Api, Look::kYes> : ping_pong<Api, Look::kNo>, api);
      }
    }
    if constexpr (Api::kWords) start_words(c, look, api);
  }

  template <bool kPuts, class Api>
  void start_stream(const Case& c, const Api& api) {
    if (c.scope == ScopeKind::kWarp) {
      alone(c, stream<Api, typename Api::template Spread<Warp>, kPuts>, api);
    } else {
      alone(c, stream<Api, typename Api::template Spread<Block>, kPuts>, api);
    }
  }

  template <class Api>
  void start_words(const Case& c, Look look, const Api& api) {
    switch (c.op) {
      case Op::kPutQuiet:
        return alone(c, repeat<Api, PutQuiet>, api);
      case Op::kPQuiet:
        return alone(
            c, c.bytes == 4 ? repeat<Api, PQuiet<uint32_t>> : repeat<Api, PQuiet<uint64_t>>, api);
      case Op::kIncQuiet:
        return alone(c, repeat<Api, IncQuiet>, api);
      case Op::kFetchAdd:
        return alone(c, repeat<Api, FetchAdd>, api);
      case Op::kAdd:
        return alone(c, add<Api, false>, api);
      case Op::kAddSame:
        return alone(c, add<Api, true>, api);
      case Op::kBarrier:
        if (c.scope == ScopeKind::kThread) return start_barriers<Thread>(c, look, api);
        if (c.scope == ScopeKind::kWarp) return start_barriers<Warp>(c, look, api);
        return start_barriers<Block>(c, look, api);
      default:
        return;
    }
  }

  template <class Scope, class Api>
  void start_barriers(const Case& c, Look look, const Api& api) {
    together(
        c, look == Look::kYes ? barriers<Api, Scope, Look::kYes> : barriers<Api, Scope, Look::kNo>,
        api);
  }

  template <class Kernel, class Api>
  void alone(const Case& c, Kernel kernel, const Api& api) {
    if (side_.pe() == 0) side_.launch({c.blocks, c.threads}, kernel, api, plan_, times_);
  }
  template <class Kernel, class Api>
  void together(const Case& c, Kernel kernel, const Api& api) {
    side_.launch_together({c.blocks, c.threads}, kernel, api, plan_, times_);
  }

  double usec_of_iteration(const Case& c) {
    std::vector<BlockTime> times(c.blocks);
    side_.copy_out(times.data(), times_, times.size() * sizeof(BlockTime));
    uint64_t begin = ~uint64_t{0};
    uint64_t end = 0;
    for (const BlockTime& t : times) {
      begin = std::min(begin, t.begin_ns);
      end = std::max(end, t.end_ns);
    }
    return static_cast<double>(end - begin) * 1e-3 / static_cast<double>(c.iterations);
  }

  /// Adds what is wrong with this PE's memory to its errors.
  void verify(const Case& c, bool carries_data) {
    const bool fetches = c.op == Op::kGet;
    const bool checks = side_.pe() == (fetches ? 0 : 1) || (c.bounces() && side_.pe() == 0);
    if (!checks || c.op == Op::kBarrier || !carries_data) return;
    if (works_on_words(c)) {
      const uint64_t adders = c.op == Op::kAddSame ? uint64_t{c.blocks} * c.threads : 1;
      const uint64_t sum = adders * c.iterations * (options_.repeats + 1);
      side_.launch(kAllHands, check_words, reinterpret_cast<const uint64_t*>(dst_), words(c), sum,
                   errors_);
      return;
    }
    Expected e = expected(c);
    e.seed = plan_.peers_seed;
    side_.launch(kAllHands, check, reinterpret_cast<const uint64_t*>(dst_), e, errors_);
  }

  uint64_t errors_of_all() {
    side_.barrier();
    uint64_t sum = 0;
    if (side_.pe() == 0) {
      const auto api = side_.api();
      side_.launch({}, collect<std::remove_const_t<decltype(api)>>, api, errors_, landing_, sum_,
                   side_.n_pes());
      side_.copy_out(&sum, sum_, sizeof sum);
    }
    side_.barrier();
    return sum;
  }

  void print_clock() {
    if (side_.pe() != 0) return;
    uint64_t step = 0;
    side_.launch({}, clock_step, sum_);
    side_.copy_out(&step, sum_, sizeof step);
    std::printf("{\"side\": \"%s\", \"op\": \"clock\", \"step_ns\": %llu}\n", Side::kName,
                static_cast<unsigned long long>(step));
  }

  Side& side_;
  Options options_;
  Plan plan_{};
  uint64_t generation_ = 0;
  bool clean_ = true;
  std::byte* src_;
  std::byte* dst_;
  uint64_t* flag_;
  uint64_t* errors_;
  uint64_t* landing_;
  uint64_t* sum_;
  BlockTime* times_;
};

}  // namespace peal::versus
