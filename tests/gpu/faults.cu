// SPDX-License-Identifier: Apache-2.0
//
// The fault matrix where the host cannot touch the memory: every operation and scope between two
// PEs under the faults of their route, the software NIC's or those of mapped memory
// (docs/faults.md).
//
//   mpirun -np 2 faults      PEAL_TRANSPORT=p2p, ibgda or proxy
//
//   fresh context -> plan -> PE 0 acts (PE 1 too, where it has a part) -> quiet -> look
//                 -> no plan -> fresh context -> the same again, without a fault
//
// Last line on PE 0: N passed, N failed; a case is a fault with an operation in a scope.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/integration/faults/columns.h"
#include "tests/integration/faults/operations.h"
#include "tests/support/injector.h"

namespace {

using namespace peal;
using namespace peal::fault_test;
using std::chrono::milliseconds;

constexpr auto kLong = milliseconds(20'000);  // the deadline of waits that end before it
constexpr auto kShort = milliseconds(40);     // of waits that nothing else ends

/// Faults of mapped memory. An operation that stalls for good or finds its link down says so by its
/// own status, at once or at the deadline.
std::vector<Column> columns_of_mapped_memory() {
  return {{"non", "", Status::kOk},
          {"lat", "op=* fault=stall ms=3", Status::kOk},
          {"som", "op=* fault=stall ms=2 percent=50", Status::kOk},
          {"sig", "signal=* fault=delay ms=3", Status::kOk},
          {"oth", "on=1 op=* fault=link_down", Status::kOk, 0, false, false, 0},
          {"STA", "pe=1 op=* fault=stall", Status::kTimeout},
          {"DOW", "pe=1 op=* fault=link_down", Status::kPeerLost}};
}

/// What PE 0's lanes may come back with over mapped memory.
Allowed allowed_when_mapped(const Column& column, const Row& row) {
  const bool only_later = row.op == Op::kFence || row.op == Op::kQuiet;  // their put told already
  return Allowed{column.ends}.also(Status::kOk, only_later);
}

/// What the NIC's plan goes to: the library of this process.
class Plans {
 public:
  explicit Plans(Runtime& pe) : pe_(pe), mapped_(std::string(pe.transport()) == "p2p") {
    if (mapped_) {
      pe.set_p2p_faults("");  // contexts made from now on meet plans
    } else {
      injector_ = std::make_unique<Injector>();
    }
  }
  bool mapped() const { return mapped_; }
  void set(const char* plan) const {
    if (mapped_) {
      pe_.set_p2p_faults(plan);
    } else {
      injector_->inject(plan);
    }
  }
  std::vector<Column> columns() const {
    if (mapped_) return columns_of_mapped_memory();
    std::vector<Column> all = columns_of_any_nic();
    for (const Column& column : columns_of_the_peers_nic()) all.push_back(column);
    return all;
  }

 private:
  Runtime& pe_;
  bool mapped_;
  std::unique_ptr<Injector> injector_;
};

/// Adds what this PE found wrong to every PE's sum.
PEAL_KERNEL tell(Context ctx, uint64_t* sum, uint64_t errors) {
  for (int pe = 0; pe < ctx.n_pes; ++pe) (void)atomic_add(ctx, sum, errors, pe);
  (void)quiet(ctx);
}

/// One PE's part of the matrix.
class Matrix {
 public:
  explicit Matrix(Runtime& pe)
      : pe_(pe),
        me_(pe.my_pe()),
        plans_(pe),
        words_(pe.allocate<uint64_t>(kWords)),
        outcome_(pe.allocate<Outcome>(1)),
        status_(pe.allocate<Status>(1)),
        wrong_(pe.allocate<uint64_t>(1)) {}

  int run() {
    for (const Row& row : all_rows()) {
      std::string line;
      for (const Column& column : plans_.columns()) line += cell(column, row) + " ";
      if (me_ == 0) std::printf("%-30s%s\n", row.name().c_str(), line.c_str());
      std::fflush(stdout);
    }
    if (me_ == 0) std::printf("%d passed, %d failed\n", passed_, failed_);
    return failed_ == 0 && passed_ > 0 ? 0 : 1;
  }

  /// By PE 0.
  void print_columns() const {
    if (me_ != 0) return;
    std::printf("faults over %s by %s\n", pe_.transport(), pe_.nic().c_str());
    for (const Column& column : plans_.columns()) {
      std::printf("  %s  %s\n", column.code, *column.plan == '\0' ? "no fault" : column.plan);
    }
    std::printf("letters: PE 0's lanes, its quiet; . ok, T timeout, E queue error, L peer lost\n");
  }

 private:
  enum class Effect { kNone, kAll, kSome };

  OwnedContext<Reach::kGpu> context(milliseconds timeout) {
    return pe_.make_context({.queues_per_peer = 1, .depth = 128, .timeout = timeout});
  }
  milliseconds deadline(const Column& column, const Row& row) const {
    if (column.ends == Status::kOk) return kLong;
    if (me_ == 1) return column.acted && row.op == Op::kSyncAll ? kLong : kShort;
    return column.ends == Status::kTimeout ? kShort : kLong;
  }
  Allowed allowed(const Column& column, const Row& row) const {
    if (me_ == 1) return allowed_to_wait(column, row);
    return plans_.mapped() ? allowed_when_mapped(column, row) : allowed_to_act(column, row);
  }

  void lay_out() {
    const Image image = fresh_image(me_);
    pe_.copy_in(words_, image.data(), sizeof(image));
    pe_.barrier();
  }

  void expect(bool holds, const char* what, const std::string& seen = "") {
    if (holds) return;
    ++errors_;
    std::printf("PE %d: %s, %s: %s %s\n", me_, column_->plan, row_->name().c_str(), what,
                seen.c_str());
  }

  /// Every word of this PE is as before, or as the row makes it: all, none or some of those.
  void expect_memory(const Row& row, Effect effect) {
    const Image before[2] = {fresh_image(0), fresh_image(1)};
    Image after[2] = {before[0], before[1]};
    apply(row, &after[0], &after[1]);
    Image seen;
    pe_.copy_out(seen.data(), words_, sizeof(seen));
    for (uint32_t i = 0; i < kWords; ++i) {
      const bool is_old = seen[i] == before[me_][i];
      const bool is_new = seen[i] == after[me_][i];
      const bool right = effect == Effect::kAll    ? is_new
                         : effect == Effect::kNone ? is_old
                                                   : is_old || is_new;
      if (!right) return expect(false, "changed word", std::to_string(i));
    }
  }
  Effect effect_of(const Column& column, const Row& row) const {
    if (column.ends == Status::kOk) return Effect::kAll;
    if (!column.acted || me_ == 0) return Effect::kNone;
    return row.one_request() ? Effect::kAll : Effect::kSome;
  }

  /// Runs this PE's part; answers the first status that is not kOk.
  Status run(const Context& ctx, const Row& row, const Allowed& may) {
    Outcome outcome = {};
    pe_.copy_in(outcome_, &outcome, sizeof(outcome));
    launch({.blocks = 1, .threads = row.lanes()}, run_row, outcome_, ctx, row, words_).wait();
    pe_.copy_out(&outcome, outcome_, sizeof(outcome));
    Status worst = Status::kOk;
    for (unsigned i = 0; i < row.lanes(); ++i) {
      const Status status = outcome.status[i];
      if (worst == Status::kOk) worst = status;
      const bool together = row.scope == Scope::kThread || status == outcome.status[0];
      const bool fetched = me_ == 0 && row.fetches() && status == Status::kOk;
      expect(may.has(status) && together, "came back with", to_string(status));
      expect(!fetched || outcome.value[i] == kOld, "fetched", std::to_string(outcome.value[i]));
    }
    return worst;
  }
  Status run_quietly(const Context& ctx) {
    launch({}, run_quiet, status_, ctx).wait();
    Status status = Status::kAborted;
    pe_.copy_out(&status, status_, sizeof(status));
    return status;
  }

  std::string cell(const Column& column, const Row& row) {
    column_ = &column;
    row_ = &row;
    errors_ = 0;
    char letters[2] = {'-', '-'};
    {
      const auto owned = context(deadline(column, row));
      lay_out();
      if (me_ == column.nic) plans_.set(column.plan);
      pe_.barrier();
      if (me_ == 0) {
        letters[0] = letter(run(owned.value(), row, allowed(column, row)));
        letters[1] = letter(look_at_quiet(column, owned.value()));
      } else if (row.both()) {
        (void)run(owned.value(), row, allowed(column, row));
      }
      pe_.barrier();
      expect_memory(row, effect_of(column, row));
      if (me_ == 0) expect_record(column);
      pe_.barrier();
      if (me_ == column.nic) plans_.set("");
      pe_.barrier();
      if (column.ends == Status::kTimeout || column.whole_nic) settle(column, owned.value());
    }
    go_on(row);
    score();
    return {letters, 2};
  }

  Status look_at_quiet(const Column& column, const Context& ctx) {
    const Status quiet = run_quietly(ctx);
    // What stalls on mapped memory has told, and left nothing to wait for.
    const bool told = plans_.mapped() && column.ends == Status::kTimeout;
    expect(quiet == (told ? Status::kOk : column.ends), "quiet:", to_string(quiet));
    return quiet;
  }

  /// Kernels for GPUs keep records of waits only where they are compiled so.
  void expect_record(const Column& column) {
    const Failure failure = pe_.failure();
    const bool untold = column.ends == Status::kTimeout && failure.status == Status::kOk;
    expect(failure.status == column.ends || untold, "failure():", failure.text);
    const bool named = column.ends == Status::kQueueError || column.ends == Status::kPeerLost;
    expect(!named || failure.pe == 1, "failure() names", failure.text);
  }

  /// What the fault held up ends, before the memory is used again.
  void settle(const Column& column, const Context& ctx) {
    if (me_ == 0 && !plans_.mapped()) {
      Outcome none = {};
      pe_.copy_in(outcome_, &none, sizeof(none));
      const Row one{Op::kP, Scope::kThread};  // a dropped doorbell stays so until the next
      launch({}, run_row, outcome_, ctx, one, words_).wait();
    }
    Status status = Status::kTimeout;
    // Behind a doorbell that was dropped the proxy posts nothing more where it must wait for an
    // atomic: that queue stays as it is.
    const bool stuck = std::string(pe_.transport()) == "proxy" && !std::strcmp(column.code, "drp");
    const auto end = std::chrono::steady_clock::now() + (stuck ? kShort : kLong);
    while (status == Status::kTimeout && std::chrono::steady_clock::now() < end) {
      status = run_quietly(ctx);
    }
    const bool failed = column.ends != Status::kTimeout && column.ends != Status::kOk;
    expect(status == Status::kOk || failed || stuck, "afterwards quiet:", to_string(status));
    pe_.barrier();
  }

  void go_on(const Row& row) {
    const auto owned = context(kLong);
    lay_out();
    if (me_ == 0 || row.both()) (void)run(owned.value(), row, {Status::kOk});
    if (me_ == 0) {
      const Status quiet = run_quietly(owned.value());
      expect(quiet == Status::kOk, "without a fault quiet:", to_string(quiet));
    }
    pe_.barrier();
    expect_memory(row, Effect::kAll);
    expect(pe_.failure().status == Status::kOk, "without a fault:", pe_.failure().text);
    pe_.barrier();
  }

  /// A case fails where either PE found something: PE 0 counts.
  void score() {
    const uint64_t nothing = 0;
    pe_.copy_in(wrong_, &nothing, sizeof(nothing));
    pe_.barrier();
    launch({}, tell, pe_.context(), wrong_, errors_).wait();
    pe_.barrier();
    uint64_t all = 0;
    pe_.copy_out(&all, wrong_, sizeof(all));
    ++(all == 0 ? passed_ : failed_);
  }

  Runtime& pe_;
  const int me_;
  const Plans plans_;
  uint64_t* words_;
  Outcome* outcome_;
  Status* status_;
  uint64_t* wrong_;
  const Column* column_ = nullptr;
  const Row* row_ = nullptr;
  uint64_t errors_ = 0;
  int passed_ = 0;
  int failed_ = 0;
};

int body() {
  Config config = Config::from_environment(environ);
  config.queues = 1;
  config.report_failures = false;  // planned by the hundred, of contexts that come and go
  Runtime pe = start(config);
  if (pe.n_pes() != 2) {
    std::fprintf(stderr, "faults: run it as 2 PEs\n");
    return 2;
  }
  Matrix matrix(pe);
  matrix.print_columns();
  return matrix.run();
}

}  // namespace

int main() { return peal::run_main(body); }
