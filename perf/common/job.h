// SPDX-License-Identifier: Apache-2.0
//
// One PE of a benchmark: its runtime, its partners, its memory, and a round of operations with all
// that surrounds it.
//
//   round:   fill -> barrier -> timed kernel -> barrier -> check
//
// The check reads what this round moved before any PE can start the next.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "peal/peal.h"
#include "perf/common/options.h"
#include "perf/common/plan.h"
#include "perf/common/report.h"

namespace peal::perf {

/// What a block of a timed kernel leaves behind.
struct BlockResult {
  uint64_t begin_ns;
  uint64_t end_ns;
  Status status;
  uint32_t mismatches;  // answers that were wrong
};

/// All blocks together.
struct Outcome {
  double seconds;  // from the first block's begin to the last one's end
  uint64_t mismatches;
};

/// What one size is given by default, in all: enough to measure, little enough to wait for.
struct Effort {
  uint64_t operations;
  uint64_t bytes;
};

/// kBothWays: the two PEs of a pair are each other's initiator and target.
enum class Traffic { kOneWay, kBothWays };

/// Sends `mine` to PE 0's table.
PEAL_KERNEL send_record(Context ctx, Record* table, const Record* mine, Status* status) {
  const Status sent = put(ctx, table + ctx.pe, mine, 1, 0);
  const Status all = barrier_all(ctx);
  *status = sent != Status::kOk ? sent : all;
}

/// Which memory a round fills and verifies, and where: that depends on which way data flows.
struct Flow {
  bool pushes;                // initiator to target; else fetches
  bool moves_slots;           // data in slots, not only words
  std::optional<Word> words;  // what the target's words must hold

  static Flow of(Op op) {
    switch (op) {
      case Op::kPut:
      case Op::kP:
      case Op::kMemcpy:
        return {true, true, {}};
      case Op::kPutSignal:
        return {true, true, Word::kCount};
      case Op::kAtomicAdd:
        return {true, false, Word::kSum};
      case Op::kGet:
      case Op::kG:
        break;
    }
    return {false, true, {}};
  }
};

/// Collective to construct and to call, like everything here.
class Job {
 public:
  explicit Job(const Options& options, Traffic traffic = Traffic::kOneWay)
      : options_(options), runtime_(start()), pe_(runtime_.my_pe()), pes_(runtime_.n_pes()) {
    if (options.queues != 0 || options.depth != 0) {
      own_context_.emplace(
          runtime_.make_context({.queues_per_peer = options.queues, .depth = options.depth}));
    }
    find_partners(traffic);
    allocate();
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  /// The peers may still be working on this PE's queues: leave together.
  void leave() { runtime_.barrier(); }

  const Options& options() const { return options_; }
  Context context() const { return own_context_ ? own_context_->value() : runtime_.context(); }
  bool first() const { return pe_ == 0; }
  int pe() const { return pe_; }
  /// PE that this one sends to, and that sends to this one; -1 when there is none.
  int target() const { return target_; }
  int initiator() const { return initiator_; }
  int pairs() const { return std::max(1, pes_ / 2); }
  /// Of a pair, the PE that begins.
  bool leads() const { return leads_; }

  Setting setting(const std::string& program) const {
    return {.program = program,
            .options = options_,
            .pes = pes_,
            .pairs = pairs(),
            .queues = context().queues_per_peer,
            .transport = runtime_.transport(),
            .nic = runtime_.nic()};
  }

  /// Iterations of an agent at one size.
  uint64_t iterations(uint64_t bytes, const Effort& effort) const {
    if (options_.iterations != 0) return options_.iterations;
    const uint64_t operations = std::min(effort.operations, effort.bytes / bytes);
    return std::max<uint64_t>(1, operations / options_.agents());
  }

  /// Most operations of an agent in one round: what --window says, or what fits the slots' budget.
  uint64_t window(uint64_t bytes, uint64_t iterations) const {
    const uint64_t slots_in_all = std::min(kSlotBudget / stride(bytes), kRoundBudget);
    const uint64_t fitting = slots_in_all / options_.agents();
    const uint64_t slots = options_.window != 0 ? options_.window : std::max<uint64_t>(1, fitting);
    return std::min(slots, std::max(iterations, options_.warmup));
  }

  /// The largest window of any size.
  uint64_t widest_window() const {
    uint64_t widest = 0;
    for (const uint64_t bytes : options_.sizes) {
      const uint64_t most = options_.iterations != 0 ? options_.iterations : ~uint64_t{0};
      widest = std::max(widest, window(bytes, most));
    }
    return widest;
  }

  /// Calls visit(plan, warm) for every round of one size, the warm-up's first.
  template <class Visit>
  void for_each_round(uint64_t bytes, uint64_t iterations, Report& report, const Visit& visit) {
    Plan plan{.local = local_,
              .remote = remote_,
              .words = words_,
              .bytes = bytes,
              .stride = stride(bytes),
              .window = window(bytes, iterations),
              .first = 0,
              .count = 0,
              .agents = options_.agents(),
              .peer = target_};
    const uint64_t all = options_.warmup + iterations;
    for (; plan.first < all; plan.first += plan.count) {
      const bool warm = plan.first < options_.warmup;
      plan.count = std::min(plan.window, (warm ? options_.warmup : all) - plan.first);
      visit(plan, warm);
      report.progress(bytes, plan.first + plan.count, all);
    }
  }

  /// One round. `timed` launches the kernel to measure on `grid()`, waits for it, and is called on
  /// every PE. Adds to `record` what the checks find. Returns the seconds from when all PEs were
  /// ready to when all were done.
  template <class Timed>
  double round(const Plan& plan, const Flow& flow, Record& record, const Timed& timed) {
    prepare(plan, flow);
    runtime_.barrier();
    const auto ready = std::chrono::steady_clock::now();
    timed();
    runtime_.barrier();
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - ready;
    verify(plan, flow, record);
    return wall.count();
  }

  Grid grid() const { return {.blocks = options_.blocks, .threads = options_.threads}; }
  BlockResult* results() const { return results_; }
  Runtime& runtime() { return runtime_; }

  /// What the timed kernel left behind. Throws if a block failed.
  Outcome outcome() const {
    std::vector<BlockResult> blocks(options_.blocks);
    runtime_.copy_out(blocks.data(), results_, blocks.size() * sizeof(BlockResult));
    uint64_t begin = ~uint64_t{0};
    uint64_t end = 0;
    uint64_t mismatches = 0;
    for (const BlockResult& block : blocks) {
      expect_ok(block.status);
      begin = std::min(begin, block.begin_ns);
      end = std::max(end, block.end_ns);
      mismatches += block.mismatches;
    }
    return {static_cast<double>(end - begin) * 1e-9, mismatches};
  }

  /// The records of all PEs, on PE 0.
  std::vector<Record> gather(const Record& mine) {
    runtime_.copy_in(my_record_, &mine, sizeof mine);
    launch({}, send_record, runtime_.context(), records_, my_record_, status_).wait();
    Status status{};
    runtime_.copy_out(&status, status_, sizeof status);
    expect_ok(status);
    std::vector<Record> all(static_cast<size_t>(first() ? pes_ : 0));
    runtime_.copy_out(all.data(), records_, all.size() * sizeof(Record));
    runtime_.barrier();  // PE 0 has read them
    return all;
  }

 private:
  static constexpr uint64_t kSlotBudget = 8 << 20;   // bytes of slots, where that is enough
  static constexpr uint64_t kRoundBudget = 1 << 18;  // operations, so that progress shows

  static uint64_t stride(uint64_t bytes) { return (bytes + 7) / 8 * 8; }

  void find_partners(Traffic traffic) {
    if (pes_ == 1) {
      leads_ = true;
      target_ = initiator_ = 0;
      return;
    }
    const int half = pes_ / 2;
    const bool paired = pe_ < 2 * half;  // with an odd number of PEs the last one looks on
    const bool sends = options_.pairing == Pairing::kPairs ? pe_ % 2 == 0 : pe_ < half;
    const int distance = options_.pairing == Pairing::kPairs ? 1 : half;
    if (paired && sends) target_ = pe_ + distance;
    if (paired && !sends) initiator_ = pe_ - distance;
    leads_ = target_ >= 0;
    if (traffic == Traffic::kBothWays) target_ = initiator_ = std::max(target_, initiator_);
  }

  void allocate() {
    uint64_t slots = 0;
    for (const uint64_t bytes : options_.sizes) {
      const uint64_t most = options_.iterations != 0 ? options_.iterations : ~uint64_t{0};
      slots = std::max(slots, options_.agents() * window(bytes, most) * stride(bytes));
    }
    local_ = static_cast<std::byte*>(runtime_.malloc(slots));
    remote_ = static_cast<std::byte*>(runtime_.malloc(slots));
    words_ = runtime_.allocate<uint64_t>(options_.agents());
    results_ = runtime_.allocate<BlockResult>(options_.blocks);
    errors_ = runtime_.allocate<uint64_t>(1);
    records_ = runtime_.allocate<Record>(static_cast<size_t>(pes_));
    my_record_ = runtime_.allocate<Record>(1);
    status_ = runtime_.allocate<Status>(1);
  }

  void prepare(const Plan& plan, const Flow& flow) {
    if (target_ >= 0 && flow.pushes && flow.moves_slots) {
      launch(grid(), fill, plan, plan.local, pe_).wait();
    }
    if (initiator_ >= 0 && !flow.pushes) {
      launch(grid(), fill, plan, plan.remote, initiator_).wait();
    }
    if (initiator_ >= 0 && flow.words) launch(grid(), clear_words, plan).wait();
  }

  void verify(const Plan& plan, const Flow& flow, Record& record) {
    const bool checks = flow.pushes ? initiator_ >= 0 : target_ >= 0;
    if (!checks) return;
    std::byte* slots = flow.pushes ? plan.remote : plan.local;
    spoil(flow.moves_slots ? slots : reinterpret_cast<std::byte*>(plan.words));
    uint64_t errors = 0;
    runtime_.copy_in(errors_, &errors, sizeof errors);
    if (flow.moves_slots) {
      launch(grid(), check, plan, slots, flow.pushes ? initiator_ : pe_, errors_).wait();
    }
    if (flow.words) launch(grid(), check_words, plan, *flow.words, initiator_, errors_).wait();
    runtime_.copy_out(&errors, errors_, sizeof errors);
    record.verified += plan.agents * plan.count;
    record.errors += errors;
  }

  /// Flips a bit of what arrived, if the command line asks for it.
  void spoil(std::byte* slots) {
    if (options_.spoil == Spoil::kNothing) return;
    std::byte* victim =
        options_.spoil == Spoil::kData ? slots : reinterpret_cast<std::byte*>(words_);
    std::byte value{};
    runtime_.copy_out(&value, victim, 1);
    value ^= std::byte{4};
    runtime_.copy_in(victim, &value, 1);
  }

  void expect_ok(Status status) const {
    if (status == Status::kOk) return;
    const Failure failure = runtime_.failure();
    throw std::runtime_error(
        "PE " + std::to_string(pe_) + ": " + std::string(to_string(options_.op)) + " ended with '" +
        to_string(status) + "'" + (failure.text.empty() ? "" : ": " + failure.text));
  }

  Options options_;
  Runtime runtime_;
  int pe_;
  int pes_;
  bool leads_ = false;
  int target_ = -1;
  int initiator_ = -1;
  std::optional<OwnedContext<Reach::kGpu>> own_context_;
  std::byte* local_ = nullptr;
  std::byte* remote_ = nullptr;
  uint64_t* words_ = nullptr;
  BlockResult* results_ = nullptr;
  uint64_t* errors_ = nullptr;
  Record* records_ = nullptr;
  Record* my_record_ = nullptr;
  Status* status_ = nullptr;
};

/// Prints what ends a run before it begins (help, a mistake), once for all PEs; the exit code.
inline int print_once(const CommandLine& line) {
  const Config config = Config::from_environment(environ);
  // The others end after PE 0 has printed: a launcher ends all when the first one fails.
  std::optional<Runtime> job;
  if (config.under_mpirun) job.emplace(start(config));
  if (!job || job->my_pe() == 0) {
    std::fputs(line.text.c_str(), line.exit_code == 0 ? stdout : stderr);
  }
  return line.exit_code;
}

}  // namespace peal::perf
