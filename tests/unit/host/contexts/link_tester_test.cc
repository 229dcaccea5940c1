// SPDX-License-Identifier: Apache-2.0
//
// The test of a link, and the cells in which links are tested. One PE, linked to itself.
#include "host/contexts/link_tester.h"

#include <deque>
#include <optional>
#include <thread>

#include "tests/unit/host/contexts/links_rig.h"

namespace peal {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

class LinkTests : public LinksRig {
 public:
  LinkMachine& working_link() {
    LinkMachine& links = links_.emplace_back(queues(1), requests_);
    links.connect(0, links.make(0), 0);
    return links;
  }
  // Its other end is not ready to receive: what is sent there stays under way.
  LinkMachine& unanswered_link() {
    LinkMachine& end = links_.emplace_back(queues(1), requests_);
    LinkMachine& links = links_.emplace_back(queues(1), requests_);
    links.make(0);
    links.connect(0, end.make(0), 0);
    return links;
  }

 protected:
  LinkTests() {
    const NicKey rkey[] = {region_.rkey()};
    windows_.publish(windows_.fill({}, {.rkeys = rkey, .word_rkeys = rkey}));
    link_tester_.emplace(group_, rails_, windows_.heap_keys(), heap_, 0, seconds(40));
    for (LinkMachine* const links : {&first_, &second_}) links->connect(0, links->make(0), 0);
  }
  std::vector<SelfTestResult> run_test(LinkMachine& links) {
    LinkTester::Test test(*link_tester_, links.queues(), links.queues_to(0), seconds(30));
    while (!test.advance()) std::this_thread::yield();
    return test.failed();
  }

  // One test for each kQueuesPerPeer cells.
  void hold_all_cells(std::deque<LinkTester::Test>& holders, LinkMachine& (LinkTests::*make)()) {
    for (uint32_t cells = 0; cells < LinkTester::kSlots; cells += kQueuesPerPeer) {
      LinkMachine& links = (this->*make)();
      holders.emplace_back(*link_tester_, links.queues(), links.queues_to(0), seconds(30))
          .advance();
    }
  }

  LiveGroup group_{bootstrap::make_single(), seconds(1)};
  const IbgdaNic& nic_ = rails_.nics()[0];
  Backing heap_ = make_host_backing(4096, "heap");
  nic::MemoryRegion region_{nic_.device, nic_.domain, {heap_.address(), heap_.bytes()}};
  PublishedWindows windows_{[](size_t bytes) { return make_host_backing(bytes, "tables"); }, 1, 1};
  std::optional<LinkTester> link_tester_;
  LinkMachine first_{queues(1), requests_};
  LinkMachine second_{queues(1), requests_};
  std::deque<LinkMachine> links_;
};

TEST_F(LinkTests, PassLinksThatWork) {
  EXPECT_TRUE(run_test(first_).empty());
  EXPECT_TRUE(run_test(second_).empty());
}

TEST_F(LinkTests, OfTwoLinksToOnePeGoOnTogether) {
  LinkTester::Test first(*link_tester_, first_.queues(), first_.queues_to(0), seconds(30));
  EXPECT_FALSE(first.advance());
  EXPECT_TRUE(run_test(second_).empty());
  while (!first.advance()) std::this_thread::yield();
  EXPECT_TRUE(first.failed().empty());
}

TEST_F(LinkTests, WaitForACell) {
  std::deque<LinkTester::Test> holders;
  hold_all_cells(holders, &LinkTests::working_link);
  LinkTester::Test waiting(*link_tester_, second_.queues(), second_.queues_to(0), seconds(30));
  EXPECT_FALSE(waiting.advance());
  while (!holders.front().advance()) std::this_thread::yield();
  EXPECT_TRUE(holders.front().failed().empty());
  holders.pop_front();
  while (!waiting.advance()) std::this_thread::yield();
  EXPECT_TRUE(waiting.failed().empty());
}

/// Hazard: a test that was given up handed its cells to the next link while what it had sent could
/// still land there, and that link was told "wrong data".
TEST_F(LinkTests, LeaveAloneTheCellsOfATestThatWasGivenUp) {
  {
    LinkMachine& links = unanswered_link();
    LinkTester::Test given_up(*link_tester_, links.queues(), links.queues_to(0), seconds(30));
    EXPECT_FALSE(given_up.advance());
  }
  EXPECT_TRUE(run_test(second_).empty());
  const auto* const words = reinterpret_cast<const uint64_t*>(heap_.address());
  constexpr size_t kOneTest = kQueuesPerPeer * kSelfTestCell / sizeof(uint64_t);
  EXPECT_NE(words[kOneTest], 0u);
  EXPECT_EQ(words[2 * kOneTest], 0u);
}

TEST_F(LinkTests, HaveAllCellsAgainOnceNothingCanLandThere) {
  {
    std::deque<LinkTester::Test> given_up;
    hold_all_cells(given_up, &LinkTests::unanswered_link);
  }
  LinkTester::Test late(*link_tester_, second_.queues(), second_.queues_to(0), nanoseconds(0));
  ASSERT_TRUE(late.advance());
  EXPECT_NE(explain(late.failed()[0]).find("Runtime::recover()"), std::string::npos);
  link_tester_->free_cells();
  EXPECT_TRUE(run_test(second_).empty());
}

/// Hazard: a NIC tries for 8 s to reach a process that has ended before it was first sent to, and
/// the survivors of a PE that was killed in make_context() waited for that.
TEST_F(LinkTests, DoNotWaitForAPeThatHasEnded) {
  LinkMachine& links = unanswered_link();
  LinkTester::Test test(*link_tester_, links.queues(), links.queues_to(0), seconds(30));
  EXPECT_FALSE(test.advance());
  group_.lost(0);
  ASSERT_TRUE(test.advance());
  EXPECT_EQ(test.failed()[0].kind, SelfTestResult::Kind::kEnded);
  EXPECT_EQ(explain(test.failed()[0]), "its process has ended");
}

/// Hazard: the time of a test ran from when it had cells, so that one that never had any never
/// ended.
TEST_F(LinkTests, DoNotWaitForCellsLongerThanTheirTime) {
  std::deque<LinkTester::Test> holders;
  hold_all_cells(holders, &LinkTests::working_link);
  LinkTester::Test late(*link_tester_, second_.queues(), second_.queues_to(0), nanoseconds(0));
  ASSERT_TRUE(late.advance());
  ASSERT_EQ(late.failed().size(), kQueuesPerPeer);
  EXPECT_EQ(late.failed()[0].kind, SelfTestResult::Kind::kNoTurn);
  EXPECT_NE(explain(late.failed()[0]).find("no cell to test it in"), std::string::npos);
}

}  // namespace
}  // namespace peal
