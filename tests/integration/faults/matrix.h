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
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string_view>

#include "tests/integration/faults/columns.h"
#include "tests/integration/faults/operations.h"
#include "tests/support/injector.h"
#include "tests/support/job.h"

namespace peal::fault_test {

using api_test::Symmetric;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

inline constexpr auto kLong = milliseconds(60'000);  // the deadline of waits that end before it
inline constexpr auto kShort = milliseconds(20);     // of waits that nothing else ends

inline Config matrix_config() {
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
  /// `target` is where the memory lies; kernels run on the CPU.
  Matrix(Bootstrap& group, std::vector<Column> columns, const Config& config = matrix_config(),
         Target target = Target::kCpu)
      : group_(group),
        pe_(peal::join(group, config, target)),
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
  SendQueue& queue(const Owned& owned, int peer) const {
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
    const uint64_t first = posted_end(queue(*owned, 1).posted);
    if (me_ == column.nic) inject(column, queue(*owned, 1).nic.qpn());
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
  void expect_record(const Column& column, const Row& row, const SendQueue& q, uint64_t first) {
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
    EXPECT_LT(failure.wqe_index, posted_end(q.posted)) << failure.text;
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

}  // namespace peal::fault_test
