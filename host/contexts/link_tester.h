// SPDX-License-Identifier: Apache-2.0
//
// The self-test of links, and what is said when one fails: with both ends of the path, so that one
// log is enough to know where to look.
//
// Queues are tested in cells of every PE's heap, kSlots for each PE that tests, behind which the
// number lies that says whose heap it is. A cell has one queue at a time. What was sent for a queue
// whose test did not end well may land yet: its cell is lost until free_cells().
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/run_clock.h"
#include "host/job/live_group.h"
#include "host/memory/backing.h"
#include "host/transport/queues.h"
#include "host/windows/published_windows.h"

namespace peal {

class LinkTester {
 public:
  static constexpr uint32_t kSlots = 32;
  /// How much of the heap all cells and this PE's number take.
  static size_t cell_bytes(int n_pes) { return identity_at(n_pes) + sizeof(uint64_t); }

  /// `cells` is the cells' offset in `heap`, of which these are the keys. Of a collective test
  /// no PE waits for the NIC longer than `deadline` allows for telling the others. All PEs have
  /// made theirs before one tests.
  LinkTester(LiveGroup& group, const Rails& rails, PublishedWindows::Keys keys, const Backing& heap,
             uint64_t cells, std::chrono::nanoseconds deadline);

  /// The test of queues that all belong to one link.
  class Test {
   public:
    /// `queues` are connected and have not been used. `time` runs from now on, also while no cell
    /// is free.
    Test(LinkTester& link_tester, Queues& queues, std::vector<uint32_t> chosen,
         std::chrono::nanoseconds time);
    ~Test();
    Test(const Test&) = delete;
    Test& operator=(const Test&) = delete;

    /// Never waits. True when it is over: when all have passed, some have failed, time is up, or
    /// the peer has ended.
    bool advance();
    /// The tests that failed, the nearest to the cause of the failure first. Valid when the round
    /// is over.
    const std::vector<SelfTestResult>& failed() const { return failed_; }

   private:
    bool no_turn();
    void begin_round();

    LinkTester& link_tester_;
    Queues& queues_;
    uint32_t peer_;
    std::vector<uint32_t> left_;  // to be tested
    RunClock::time_point end_;
    std::vector<uint32_t> cells_;     // that are this test's
    std::optional<QueueTest> round_;  // tests as many queues as there are cells, in their order
    std::vector<SelfTestResult> failed_;
  };

  /// Collective. Tests the queues, by index. Throws on all PEs the same if some fail, without
  /// waiting for what the NICs of the others make of that.
  void test_together(Queues& queues, const std::vector<uint32_t>& chosen);

  /// All cells are free again. For a time when no test is under way, and both ends of every queue
  /// whose test did not end well are in reset or gone.
  void free_cells();

  /// For a link: no longer than kernels would wait for it, and no longer than a collective test.
  std::chrono::nanoseconds time_for_link(std::chrono::nanoseconds patience) const;

  /// What to say of a link that failed; of the other end no more is known here than the way to it.
  std::string describe_failed(const Queues& queues,
                              const std::vector<SelfTestResult>& failed) const;

 private:
  static constexpr size_t identity_at(int n_pes) {
    return static_cast<size_t>(n_pes) * kSlots * kSelfTestCell;
  }
  bool ended(uint32_t pe) const;
  static void advance_for_a_round(std::list<Test>& running, std::vector<SelfTestResult>& failed);
  std::vector<uint32_t> take_cells(uint32_t peer, size_t most);
  QueueTest test(Queues& queues, std::span<const uint32_t> chosen, std::span<const uint32_t> cells);

  LiveGroup& group_;
  const Rails& rails_;
  uint64_t cells_;
  uint64_t identity_;
  PublishedWindows::Keys keys_;
  std::chrono::nanoseconds time_;
  std::mutex mutex_;            // guards what follows
  std::vector<uint8_t> taken_;  // by PE and cell; 1: in use, or lost
  uint32_t tests_ = 0;
};

}  // namespace peal
