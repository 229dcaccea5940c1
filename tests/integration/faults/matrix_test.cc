// SPDX-License-Identifier: Apache-2.0
//
// Every fault against every operation and scope, between two PEs: each cell ends, every
// waiter gets the status that the fault must give, the record names its cause, no memory but the
// operation's own has changed, and the next run on the same runtime works.
//
//   fresh context -> inject -> PE 0 acts (PE 1 too, where it has a part) -> quiet -> look
//                 -> clear  -> what was held up ends -> the same again, without a fault
//
// PEs as threads share one NIC; as processes each has its own, and PE 1's fails too. The table that
// is printed has a letter for each waiter: PE 0's lanes, PE 0's quiet, PE 1's lanes.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string_view>

#include "tests/integration/faults/operations.h"
#include "tests/support/injector.h"
#include "tests/support/job.h"

namespace peal::fault_test {
namespace {

using api_test::Symmetric;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr auto kLong = milliseconds(20'000);  // the deadline of waits that end before it
constexpr auto kShort = milliseconds(20);     // of waits that nothing else ends

struct Column {
  const char* code;
  const char* plan;
  Status ends;             // what a wait for the work answers
  uint8_t syndrome = 0;    // of the first cause
  bool acted = false;      // the peer has executed it although it failed
  bool whole_nic = false;  // not the one queue alone
  int nic = 0;             // of which PE
};

std::vector<Column> columns_of_any_nic() {
  constexpr Status kOk = Status::kOk;
  constexpr Status kTimeout = Status::kTimeout;
  constexpr Status kError = Status::kQueueError;
  return {{"non", "", kOk},
          {"dly", "doorbell=* fault=delay ms=3", kOk},
          {"dup", "doorbell=* fault=duplicate", kOk},
          {"reo", "doorbell=* fault=reorder ms=3", kOk},
          {"sta", "wqe=1 fault=stall ms=3", kOk},
          {"ack", "wqe=1 fault=lose_ack times=2", kOk},
          {"req", "wqe=1 fault=lose_request times=2", kOk},
          {"rnr", "wqe=1 fault=rnr times=2", kOk},
          {"lat", "wqe=1 fault=late_cqe ms=3", kOk},
          {"dow", "wqe=1 fault=port_down ms=5", kOk},
          {"drp", "doorbell=* fault=drop", kTimeout},
          {"STA", "wqe=1 fault=stall", kTimeout},
          {"RNR", "wqe=1 fault=rnr", kTimeout},
          {"STP", "wqe=1 fault=nic_stop", kTimeout, 0, false, true},
          {"ACK", "wqe=1 fault=lose_ack", kError, 0x15, true},
          {"REQ", "wqe=1 fault=lose_request", kError, 0x15},
          {"DOW", "wqe=1 fault=port_down", kError, 0x15, false, true},
          {"FLU", "wqe=1 fault=flush_storm", kError, 0x05},
          {"x01", "wqe=1 fault=syndrome:0x01", kError, 0x01},
          {"x02", "wqe=1 fault=syndrome:0x02", kError, 0x02},
          {"x04", "wqe=1 fault=syndrome:0x04", kError, 0x04},
          {"x05", "wqe=1 fault=syndrome:0x05", kError, 0x05},
          {"x06", "wqe=1 fault=syndrome:0x06", kError, 0x06},
          {"x10", "wqe=1 fault=syndrome:0x10", kError, 0x10},
          {"x11", "wqe=1 fault=syndrome:0x11", kError, 0x11},
          {"x12", "wqe=1 fault=syndrome:0x12", kError, 0x12},
          {"x13", "wqe=1 fault=syndrome:0x13", kError, 0x13},
          {"x14", "wqe=1 fault=syndrome:0x14", kError, 0x14},
          {"x15", "wqe=1 fault=syndrome:0x15", kError, 0x15},
          {"x16", "wqe=1 fault=syndrome:0x16", kError, 0x16},
          {"x22", "wqe=1 fault=syndrome:0x22", kError, 0x22}};
}

/// Faults of the other PE's NIC, which only a NIC of its own can have.
std::vector<Column> columns_of_the_peers_nic() {
  return {{"Pdw", "after_ms=0 fault=port_down ms=5", Status::kOk, 0, false, true, 1},
          {"PDW", "after_ms=0 fault=port_down", Status::kQueueError, 0x15, false, true, 1},
          {"PST", "after_ms=0 fault=nic_stop", Status::kTimeout, 0, false, true, 1}};
}

/// A set of statuses that a waiter may get.
class Allowed {
 public:
  Allowed(std::initializer_list<Status> all) {
    for (const Status status : all) bits_ |= bit(status);
  }
  Allowed& also(Status status, bool holds = true) {
    if (holds) bits_ |= bit(status);
    return *this;
  }
  bool has(Status status) const { return (bits_ & bit(status)) != 0; }

 private:
  static uint32_t bit(Status status) { return 1u << static_cast<uint32_t>(status); }
  uint32_t bits_ = 0;
};

/// What PE 0's lanes may come back with.
Allowed allowed_to_act(const Column& column, const Row& row) {
  const Status ends = column.ends;
  if (ends == Status::kOk) return {ends};
  // Waits for the other's flag, which may come before its own fails.
  if (row.op == Op::kSyncAll) return {Status::kOk, ends};
  // A fence drains where WRITEs may overtake each other, also with one queue.
  if (row.waits() || row.op == Op::kFence) return {ends};
  return Allowed{Status::kOk}.also(ends, ends == Status::kQueueError);  // posted before or after
}

/// What PE 1's lanes may, where they have a part: they wait for what PE 0 sends.
Allowed allowed_to_wait(const Column& column, const Row& row) {
  if (column.ends == Status::kOk) return {Status::kOk};
  if (column.acted && row.op == Op::kSyncAll) return {Status::kOk};
  return Allowed{Status::kTimeout}
      .also(Status::kOk, column.acted && row.op == Op::kWaitUntil)
      .also(column.ends, row.meets());  // its own flag finds a failed queue pair
}

Config matrix_config() {
  Config config = api_test::small_config();
  config.heap_size = 4u << 20;
  config.transport = TransportKind::kIbgda;
  config.queues = 1;
  config.queue_depth = 128;
  config.timeout = kLong;
  return config;
}

/// One PE's part of the matrix.
class Matrix {
 public:
  Matrix(Bootstrap& group, std::vector<Column> columns)
      : group_(group),
        pe_(api_test::start(group, matrix_config())),
        me_(pe_.my_pe()),
        memory_(pe_, kWords),
        columns_(std::move(columns)) {}

  void run() {
    for (const Row& row : all_rows()) {
      std::string line;
      for (const Column& column : columns_) {
        const testing::ScopedTrace trace(
            __FILE__, __LINE__, fmt::format("PE {}, {}, {}", me_, column.plan, row.name()));
        line += cell(column, row) + " ";
      }
      lines_.push_back(fmt::format("{:<28}{}", row.name(), line));
    }
    pe_.barrier();
  }

  /// By PE 0: what every waiter got.
  void print(const char* title) const {
    if (me_ != 0) return;
    std::string text = fmt::format("\n{}\n", title);
    for (const Column& column : columns_) {
      text += fmt::format("  {}  {}\n", column.code, *column.plan ? column.plan : "no fault");
    }
    text +=
        "  letters: PE 0's lanes, PE 0's quiet, PE 1's lanes; . ok, T timeout, E queue error, "
        "- does not wait\n\n" +
        std::string(28, ' ');
    for (const Column& column : columns_) text += std::string(column.code) + " ";
    text += "\n";
    for (const std::string& line : lines_) text += line + "\n";
    std::fputs(text.c_str(), stdout);
    fmt::print(
        "{} cells; {} of {} records name the first cause, the others a request flushed "
        "behind it\n",
        lines_.size() * columns_.size(), exact_, records_);
    std::fflush(stdout);
  }

 private:
  using Owned = OwnedContext<Reach::kGpu>;

  Owned context(std::chrono::microseconds timeout) {
    return pe_.make_context({.queues_per_peer = 1, .depth = 128, .timeout = timeout});
  }
  bool acts(const Row& row) const { return me_ == 0 || row.both(); }
  mlx5::SendQueue& queue(const Owned& owned, int peer) const {
    return *detail::queue_at(owned.value(), static_cast<uint32_t>(peer));
  }

  std::chrono::milliseconds deadline(const Column& column, const Row& row) const {
    if (column.ends == Status::kOk) return kLong;
    if (me_ == 1) return column.acted && row.op == Op::kSyncAll ? kLong : kShort;
    return column.ends == Status::kTimeout ? kShort : kLong;
  }

  void lay_out() {
    image_[0] = fresh_image(0);
    image_[1] = fresh_image(1);
    std::copy(image_[me_].begin(), image_[me_].end(), memory_.data());
    pe_.barrier();
  }

  /// Every word of this PE is as before, or as the row makes it: all, none or some of those.
  enum class Effect { kNone, kAll, kSome };
  void expect_memory(const Row& row, Effect effect) {
    Image after[2] = {image_[0], image_[1]};
    apply(row, &after[0], &after[1]);
    for (uint32_t i = 0; i < kWords; ++i) {
      const uint64_t seen = memory_[i];
      const bool is_old = seen == image_[me_][i];
      const bool is_new = seen == after[me_][i];
      const bool right = effect == Effect::kAll    ? is_new
                         : effect == Effect::kNone ? is_old
                                                   : is_old || is_new;
      if (right) continue;
      ADD_FAILURE() << "word " << i << " is " << seen << ", was " << image_[me_][i] << ", becomes "
                    << after[me_][i];
      return;
    }
  }

  Effect effect_of(const Column& column, const Row& row) const {
    if (column.ends == Status::kOk) return Effect::kAll;
    if (!column.acted || me_ == 0) return Effect::kNone;  // what PE 0 fetches was lost on its way
    return row.one_request() ? Effect::kAll : Effect::kSome;
  }

  /// Runs this PE's part; every lane's status is allowed. Answers the first that is not kOk.
  Status run(const Owned& owned, const Row& row, const Allowed& allowed) {
    Outcome outcome = {};
    launch({.blocks = 1, .threads = row.lanes()}, run_row, &outcome, owned.value(), row,
           memory_.data())
        .wait();
    Status worst = Status::kOk;
    unsigned wrong = 0;
    for (unsigned i = 0; i < row.lanes(); ++i) {
      const Status status = outcome.status[i];
      if (worst == Status::kOk) worst = status;
      const bool together = row.scope == Scope::kThread || status == outcome.status[0];
      const bool fetched = me_ == 0 && row.fetches() && status == Status::kOk;
      wrong += !allowed.has(status) || !together || (fetched && outcome.value[i] != kOld);
    }
    EXPECT_EQ(wrong, 0u) << "lanes; the first that did not succeed: " << to_string(worst);
    return worst;
  }

  Status run_quietly(const Owned& owned) {
    Status status = Status::kTimeout;
    launch({}, run_quiet, &status, owned.value()).wait();
    return status;
  }

  std::string cell(const Column& column, const Row& row) {
    auto owned = std::make_unique<Owned>(context(deadline(column, row)));
    lay_out();
    const uint64_t first = queue(*owned, 1).published;
    if (me_ == column.nic) inject(column, queue(*owned, 1).qpn());
    pe_.barrier();
    char letters[3] = {'-', '-', '-'};
    if (me_ == 0) {
      letters[0] = letter(run(*owned, row, allowed_to_act(column, row)));
      const Status quiet = run_quietly(*owned);
      letters[1] = letter(quiet);
      EXPECT_EQ(quiet, column.ends) << to_string(quiet);
    } else if (row.both()) {
      letters[2] = letter(run(*owned, row, allowed_to_wait(column, row)));
    }
    letters[2] = gather(group_, letters[2])[1];
    expect_memory(row, effect_of(column, row));
    if (me_ == 0) expect_record(column, row, queue(*owned, 1), first);
    pe_.barrier();
    if (me_ == column.nic) injector_.clear();
    pe_.barrier();
    go_on(column, row, std::move(owned));
    return {letters, 3};
  }

  void inject(const Column& column, uint32_t qpn) const {
    const bool timed = std::string_view(column.plan).starts_with("after_ms");
    const bool nothing = *column.plan == '\0';
    injector_.inject(timed || nothing ? column.plan : fmt::format("qp={} {}", qpn, column.plan));
  }

  /// Runtime::failure() names peer, request, opcode and syndrome; of waits that timed out it tells
  /// what they waited for. The NIC reports a flushed request
  /// that asked for a completion in the place of the first error: then the record may name that.
  void expect_record(const Column& column, const Row& row, const mlx5::SendQueue& q,
                     uint64_t first) {
    const Failure failure = pe_.failure();
    if (column.ends != Status::kQueueError) {
      EXPECT_EQ(failure.status, column.ends) << failure.text;
      return;
    }
    EXPECT_EQ(failure.status, Status::kQueueError) << failure.text;
    EXPECT_EQ(failure.pe, 1) << failure.text;
    ++records_;
    const bool exact = failure.wqe_index == first && failure.syndrome == column.syndrome;
    if (exact) {
      ++exact_;
      EXPECT_EQ(failure.opcode, row.opcode()) << failure.text;
      EXPECT_NE(failure.text.find(fmt::format("{:#04x}", column.syndrome)), std::string::npos)
          << failure.text;
      return;
    }
    EXPECT_FALSE(row.one_request()) << failure.text;
    EXPECT_EQ(failure.syndrome, 0x05) << failure.text;
    EXPECT_GE(failure.wqe_index, first) << failure.text;
    EXPECT_LT(failure.wqe_index, q.published) << failure.text;
  }

  /// The fault is over: what it held up ends, and the row works, on the same context if that has
  /// not failed.
  void go_on(const Column& column, const Row& row, std::unique_ptr<Owned> owned) {
    if (column.ends == Status::kTimeout || column.whole_nic) {
      const auto end = steady_clock::now() + kLong;
      ring_again(*owned);
      Status status = Status::kTimeout;
      while (status == Status::kTimeout && steady_clock::now() < end) status = run_quietly(*owned);
      const bool failed = column.ends == Status::kQueueError;
      EXPECT_TRUE(status == Status::kOk || (failed && status == Status::kQueueError))
          << to_string(status);
      pe_.barrier();
    }
    if (column.ends != Status::kOk) {
      owned.reset();
      owned = std::make_unique<Owned>(context(kLong));
    }
    lay_out();
    if (acts(row)) {
      EXPECT_EQ(run(*owned, row, {Status::kOk}), Status::kOk);
    }
    if (me_ == 0) {
      EXPECT_EQ(run_quietly(*owned), Status::kOk);
    }
    pe_.barrier();
    expect_memory(row, Effect::kAll);
    EXPECT_EQ(pe_.failure().status, Status::kOk) << pe_.failure().text;
    pe_.barrier();
  }

  /// A doorbell that was dropped stays so until the queue's next.
  void ring_again(const Owned& owned) {
    if (me_ != 0) return;
    Outcome outcome = {};
    launch({}, run_row, &outcome, owned.value(), Row{Op::kP, Scope::kThread}, memory_.data())
        .wait();
  }

  Bootstrap& group_;
  Runtime pe_;
  const int me_;
  Symmetric<uint64_t> memory_;
  const std::vector<Column> columns_;
  const Injector injector_;
  Image image_[2];
  std::vector<std::string> lines_;
  uint32_t records_ = 0;
  uint32_t exact_ = 0;
};

class FaultMatrix : public testing::Test {
 protected:
  FaultMatrix() {
    setenv("PEAL_SOFTNIC_TIMEOUT_SCALE", "0.002", 1);  // 2 ms a try
    setenv("PEAL_SOFTNIC_FABRIC", fmt::format("faults-{}", getpid()).c_str(), 1);
  }
};

TEST_F(FaultMatrix, BetweenProcesses) {
  std::vector<Column> columns = columns_of_any_nic();
  const std::vector<Column> more = columns_of_the_peers_nic();
  columns.insert(columns.end(), more.begin(), more.end());
  const auto life = [&](Bootstrap& group) {
    Matrix matrix(group, columns);
    matrix.run();
    matrix.print("faults between two processes, a NIC each");
    return testing::Test::HasFailure() ? 1 : 0;
  };
  EXPECT_NO_THROW(bootstrap::run_processes(2, life, {.job = std::chrono::minutes(10)}));
}

TEST_F(FaultMatrix, BetweenThreads) {
  const auto life = [](Bootstrap& group) {
    Matrix matrix(group, columns_of_any_nic());
    matrix.run();
    matrix.print("faults between two PEs on one NIC");
  };
  EXPECT_NO_THROW(bootstrap::run_threads(2, life));
}

/// For sanitizers, under which the whole matrix takes minutes.
TEST_F(FaultMatrix, OfAFewFaultsBetweenThreads) {
  const auto life = [](Bootstrap& group) {
    std::vector<Column> few;
    for (const Column& column : columns_of_any_nic()) {
      constexpr std::string_view kFew[] = {"non", "ack", "lat", "STA", "ACK", "FLU", "x13"};
      const bool chosen =
          std::find(std::begin(kFew), std::end(kFew), column.code) != std::end(kFew);
      if (chosen) few.push_back(column);
    }
    Matrix matrix(group, few);
    matrix.run();
    matrix.print("a few faults between two PEs on one NIC");
  };
  EXPECT_NO_THROW(bootstrap::run_threads(2, life));
}

}  // namespace
}  // namespace peal::fault_test

int main(int argc, char** argv) { return peal::api_test::run_tests(argc, argv); }
