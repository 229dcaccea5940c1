// SPDX-License-Identifier: Apache-2.0
//
// Random traffic for a given time: every operation, in every scope, of all sizes, between all PEs,
// verified to the byte. One line at the end; exit code 0 when nothing was lost, corrupted, refused
// or grown.
//
//   mpirun -np 2 soak [--seconds N] [--seed N] [--json]
//
//   round:  traffic, signals and their data -> barrier -> verify the rest -> report, go on?
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/soak/growth.h"
#include "tests/soak/verify.h"

namespace peal::soak {
namespace {

constexpr uint64_t kMostGrowth = 256 << 10;  // bytes: allocators keep odd pages for later
constexpr double kWarmUp = 60;               // seconds, or half of a shorter run
constexpr uint64_t kWarmUpRounds = 16;       // at least: by then all queues have gone round
constexpr uint64_t kRoundsOfAContext = 64;

struct Contexts {
  Context first;
  Context second;
  BlockContext third;
};

struct Options {
  double seconds = 10;
  uint64_t seed = 1;
  bool json = false;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool more = i + 1 < argc;
    if (word == "--json") {
      options.json = true;
    } else if (word == "--seconds" && more) {
      options.seconds = std::stod(argv[++i]);
    } else if (word == "--seed" && more) {
      options.seed = std::stoull(argv[++i]);
    } else {
      throw std::invalid_argument("'" + word +
                                  "' is unknown; soak [--seconds N] [--seed N] [--json]");
    }
  }
  return options;
}

}  // namespace
}  // namespace peal::soak

using namespace peal;
using namespace peal::soak;

/// Everything is touched once, so that memory that comes later is memory that leaks.
PEAL_KERNEL prepare(Memory m, Round round, int me) {
  const uint32_t lanes = blocks_in_grid() * threads_in_block();
  const uint32_t lane = block_in_grid() * threads_in_block() + thread_in_block();
  for (uint32_t i = lane; i < kLibrary; i += lanes) m.library[i] = library(me, i);
  const uint64_t sent = uint64_t{kBlocks} * kRegion;
  for (uint64_t i = lane; i < sent; i += lanes) m.outbox[i] = m.fetched[i] = 0;
  for (uint64_t i = lane; i < sent * static_cast<uint64_t>(round.pes); i += lanes) {
    m.inbox[i] = kFill;
  }
}

PEAL_KERNEL traffic(Contexts contexts, Memory m, Round round) {
  const int me = contexts.first.pe;
  Agent agent{m, me, block_in_grid(), {}};
  soak::Stream stream(round.seed, round.number, me, block_in_grid(), round.pes);
  for (uint32_t i = 0; i < kSteps; ++i) {
    const Step step = stream.next();
    if (step.context == 2) {
      take_step(contexts.third, agent, step);
    } else {
      take_step(step.context == 0 ? contexts.first : contexts.second, agent, step);
    }
    // After a failure each further wait would take its whole deadline.
    if (i % 8 == 7 && any(block, agent.tally.mine.errors > 0)) break;
  }
  count(agent, block, quiet(contexts.first, block), 0);
  count(agent, block, quiet(contexts.second, block), 0);
  if (block_in_grid() == 0) count(agent, block, quiet(contexts.third, block), 0);
  for (int sender = 0; sender < round.pes; ++sender) {
    await_signals(contexts.first, m, round, sender, block_in_grid(), agent.tally);
    check_region(m, round, me, sender, block_in_grid(), true, agent.tally);
  }
  agent.tally.add_to(m.counts);
}

/// Large messages to and from every PE, so that NICs map what they will map of each other's heaps
/// before anybody measures what the process holds.
PEAL_KERNEL reach_all(Context ctx, Memory m) {
  Tally tally;
  for (int pe = 0; pe < ctx.n_pes; ++pe) {
    tally.did(put(ctx, m.inbox, m.library, kLibrary, pe), 0);
    tally.did(get(ctx, m.fetched, m.library, kLibrary, pe), 0);
  }
  tally.did(barrier_all(ctx), 0);
  tally.add_to(m.counts);
}

/// The barrier of the round, each time in another scope.
PEAL_KERNEL meet(Contexts contexts, Memory m, Round round) {
  Tally tally;
  const bool leader = thread_in_block() == 0;
  const Status synced = sync_all(contexts.second, block);
  Status all = Status::kOk;
  if (round.number % 3 == 0) {
    if (leader) all = barrier_all(contexts.first);
  } else if (round.number % 3 == 1) {
    if (thread_in_block() < 32) all = barrier_all(contexts.first, warp);
  } else {
    all = barrier_all(contexts.first, block);
  }
  if (leader) {
    tally.did(synced, 0);
    tally.did(all, 0);
    tally.add_to(m.counts);
  }
}

PEAL_KERNEL verify(Memory m, Round round, int me) {
  Tally tally;
  for (int sender = 0; sender < round.pes; ++sender) {
    check_region(m, round, me, sender, block_in_grid(), false, tally);
  }
  if (block_in_grid() == 0 && thread_in_block() == 0) check_sums(m, round, me, tally);
  tally.add_to(m.counts);
}

/// Reports to PE 0 and asks it whether there is another round.
PEAL_KERNEL finish(Context ctx, Memory m, Round round) {
  Status status = put(ctx, m.table + ctx.pe, m.report, 1, 0);
  const Status all = barrier_all(ctx);
  if (status == Status::kOk) status = all;
  const Fetched<uint64_t> more = g(ctx, m.control + round.number % 2, 0);
  if (status == Status::kOk) status = more.status;
  *m.go_on = status == Status::kOk ? more.value : 0;
  Tally tally;
  tally.did(status, 0);
  tally.add_to(m.counts);
}

namespace {

using Clock = std::chrono::steady_clock;

class Job {
 public:
  explicit Job(const Options& options)
      : options_(options), pe_(start()), pes_(static_cast<uint32_t>(pe_.n_pes())) {
    if (pes_ > kMaxPes) throw std::invalid_argument("soak: at most 16 PEs");
    allocate();
    make_contexts();
    const Round round = this->round();
    launch({.blocks = 1, .threads = 1}, reach_all, pe_.context(), memory_).wait();
    launch({.blocks = kBlocks, .threads = kThreads}, prepare, memory_, round, pe_.my_pe()).wait();
    pe_.barrier();
  }

  /// Until the time is over; the program's exit code.
  int run() {
    const auto began = Clock::now();
    auto next_sample = began;
    for (bool more = true; more; ++number_) {
      const auto now = Clock::now();
      elapsed_ = std::chrono::duration<double>(now - began).count();
      if (now >= next_sample) {
        growth_.sample(number_ < kWarmUpRounds ||
                       elapsed_ < std::min(kWarmUp, options_.seconds / 2));
        next_sample = now + std::chrono::milliseconds(500);
      }
      more = one_round();
    }
    pe_.barrier();
    const Report all = sum_up();
    const bool good = all.counts.lost + all.counts.corrupted + all.counts.errors == 0 &&
                      std::max(all.rss_growth, all.heap_growth) <= kMostGrowth &&
                      all.shared_growth == 0 && all.file_growth == 0 && all.counts.operations > 0;
    if (pe_.my_pe() == 0) print(all);
    if (!good) std::fprintf(stderr, "soak: PE %d: %s\n", pe_.my_pe(), reason(all).c_str());
    return good ? 0 : 1;
  }

 private:
  /// Why it was not good.
  std::string reason(const Report& all) const {
    const std::string failure = pe_.failure().text;
    if (!failure.empty()) return failure;
    const Counts& counts = all.counts;
    if (counts.operations == 0) return "no operation was done";
    if (counts.lost + counts.corrupted + counts.errors != 0) {
      return "operations were lost, corrupted or refused";
    }
    return "it held more after the warm-up than during it: " + std::to_string(all.rss_growth) +
           " bytes resident, " + std::to_string(all.heap_growth) + " allocated, " +
           std::to_string(all.shared_growth) + " in shared mappings, " +
           std::to_string(all.file_growth) + " descriptors";
  }

  Round round() const { return {options_.seed, number_, static_cast<int>(pes_)}; }

  void allocate() {
    const size_t region = size_t{kBlocks} * kRegion;
    memory_.library = pe_.allocate<uint8_t>(kLibrary);
    memory_.inbox = pe_.allocate<uint8_t>(pes_ * region);
    memory_.outbox = pe_.allocate<uint8_t>(region);
    memory_.fetched = pe_.allocate<uint8_t>(region);
    memory_.sums = pe_.allocate<uint64_t>(2 * kSums);
    memory_.owned = pe_.allocate<uint64_t>(size_t{pes_} * kBlocks * kThreads);
    memory_.signals = pe_.allocate<uint64_t>(size_t{pes_} * kBlocks * (1 + kContexts));
    memory_.shadow = pe_.allocate<uint64_t>(size_t{kBlocks} * kThreads * kMaxPes);
    memory_.added = pe_.allocate<uint64_t>(size_t{pes_} * kBlocks);
    memory_.sum_shadow = pe_.allocate<uint64_t>(2 * kSums);
    memory_.counts = pe_.allocate<Counts>(1);
    memory_.report = pe_.allocate<Report>(1);
    memory_.table = pe_.allocate<Report>(pes_);
    memory_.control = pe_.allocate<uint64_t>(2);
    memory_.go_on = pe_.allocate<uint64_t>(1);
  }

  /// New ones from time to time: what a context leaves behind would add up.
  void make_contexts() {
    pe_.barrier();
    second_.reset();
    third_.reset();
    second_.emplace(pe_.make_context({.queues_per_peer = 2, .depth = 256}));
    third_.emplace(pe_.make_context<Reach::kBlock>({.queues_per_peer = 1, .depth = 128}));
    pe_.free(pe_.malloc(1 + mix(number_) % (1 << 20)));
  }

  bool one_round() {
    if (number_ % kRoundsOfAContext == kRoundsOfAContext - 1) make_contexts();
    const uint64_t more = elapsed_ < options_.seconds && failed_ == 0 ? 1 : 0;
    pe_.copy_in(memory_.control + number_ % 2, &more, sizeof more);
    pe_.copy_in(memory_.report, &report_, sizeof report_);
    const Contexts contexts{pe_.context(), second_->value(), third_->value()};
    const Grid grid{.blocks = kBlocks, .threads = kThreads};
    launch(grid, traffic, contexts, memory_, round()).wait();
    launch({.blocks = 1, .threads = kThreads}, meet, contexts, memory_, round()).wait();
    launch(grid, verify, memory_, round(), pe_.my_pe()).wait();
    launch({.blocks = 1, .threads = 1}, finish, pe_.context(), memory_, round()).wait();
    pe_.copy_out(&report_.counts, memory_.counts, sizeof report_.counts);
    report_.rss_growth = growth_.rss();
    report_.heap_growth = growth_.heap();
    report_.shared_growth = growth_.shared();
    report_.file_growth = growth_.files();
    failed_ = report_.counts.lost + report_.counts.corrupted + report_.counts.errors;
    uint64_t go_on = 0;
    pe_.copy_out(&go_on, memory_.go_on, sizeof go_on);
    return go_on == 1;
  }

  /// This PE's own on any other PE.
  Report sum_up() {
    if (pe_.my_pe() != 0) return report_;
    std::vector<Report> reports(pes_);
    pe_.copy_out(reports.data(), memory_.table, pes_ * sizeof(Report));
    reports[0] = report_;  // the others' are a round old
    Report all{};
    for (const Report& one : reports) {
      all.counts.operations += one.counts.operations;
      all.counts.bytes += one.counts.bytes;
      all.counts.lost += one.counts.lost;
      all.counts.corrupted += one.counts.corrupted;
      all.counts.errors += one.counts.errors;
      all.rss_growth = std::max(all.rss_growth, one.rss_growth);
      all.heap_growth = std::max(all.heap_growth, one.heap_growth);
      all.shared_growth = std::max(all.shared_growth, one.shared_growth);
      all.file_growth = std::max(all.file_growth, one.file_growth);
    }
    return all;
  }

  void print(const Report& all) const {
    const char* faults = std::getenv("PEAL_SOFTNIC_FAULTS");
    const char* format =
        options_.json
            ? "{\"program\": \"soak\", \"pes\": %u, \"seconds\": %.1f, \"rounds\": %" PRIu64
              ", \"operations\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"lost\": %" PRIu64
              ", \"corrupted\": %" PRIu64 ", \"errors\": %" PRIu64
              ", \"rss_growth_bytes\": %" PRIu64 ", \"heap_growth_bytes\": %" PRIu64
              ", \"shared_growth_bytes\": %" PRIu64 ", \"descriptor_growth\": %" PRIu64
              ", \"seed\": %" PRIu64
              ", \"faults\": \"%s\", \"transport\": \"%s\", \"nic\": \"%s\"}\n"
            : "soak: %u PEs, %.1f s, %" PRIu64 " rounds, %" PRIu64 " operations, %" PRIu64
              " bytes, %" PRIu64 " lost, %" PRIu64 " corrupted, %" PRIu64
              " errors; grown after the warm-up: %" PRIu64 " bytes resident, %" PRIu64
              " allocated, %" PRIu64 " shared, %" PRIu64 " descriptors; seed %" PRIu64
              ", faults \"%s\", %s, %s\n";
    const Counts& counts = all.counts;
    std::printf(format, pes_, elapsed_, number_, counts.operations, counts.bytes, counts.lost,
                counts.corrupted, counts.errors, all.rss_growth, all.heap_growth, all.shared_growth,
                all.file_growth, options_.seed, faults == nullptr ? "" : faults, pe_.transport(),
                pe_.nic().c_str());
  }

  Options options_;
  Runtime pe_;
  uint32_t pes_;
  Memory memory_{};
  std::optional<OwnedContext<Reach::kGpu>> second_;
  std::optional<OwnedContext<Reach::kBlock>> third_;
  Growth growth_;
  Report report_{};
  uint64_t number_ = 0;
  uint64_t failed_ = 0;
  double elapsed_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  return peal::run_main([&] { return Job(parse(argc, argv)).run(); });
}
