// SPDX-License-Identifier: Apache-2.0
//
// The test of a link, and of links that wait for one another's cells. One PE, linked to itself.
#include "host/contexts/prover.h"

#include <optional>
#include <thread>

#include "tests/unit/host/contexts/links_rig.h"

namespace peal {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

class Proofs : public LinksRig {
 protected:
  static constexpr DeviceTables::Extent kExtent{.n_pes = 1, .rails = 1};

  Proofs() {
    const Be32 rkey[] = {region_.rkey()};
    tables_.fill({}, {.rkeys = rkey, .word_rkeys = rkey, .direct = {}});
    tables_.publish();
    prover_.emplace(*alone_, rails_, tables_, 0, seconds(40));
    for (LinkMachine* const links : {&first_, &second_}) links->connect(0, links->make(0), 0);
  }
  std::vector<SelfTestResult> prove(LinkMachine& links) {
    Prover::Proof proof(*prover_, links.queues(), links.queues_to(0), seconds(30));
    while (!proof.advance()) std::this_thread::yield();
    return proof.failed();
  }

  const IbgdaNic& nic_ = rails_.nics()[0];
  Backing heap_ = make_host_backing(4096, "heap");
  nic::MemoryRegion region_{nic_.device, nic_.domain, {heap_.address(), heap_.bytes()}};
  DeviceTables tables_{make_host_backing(DeviceTables::bytes(kExtent), "tables"), kExtent};
  std::optional<Prover> prover_;
  LinkMachine first_{queues(1), requests_};
  LinkMachine second_{queues(1), requests_};
};

TEST_F(Proofs, PassLinksThatWork) {
  EXPECT_TRUE(prove(first_).empty());
  EXPECT_TRUE(prove(second_).empty());
}

TEST_F(Proofs, WaitForTheCellsOfAnother) {
  std::optional<Prover::Proof> holder;
  holder.emplace(*prover_, first_.queues(), first_.queues_to(0), seconds(30));
  holder->advance();
  Prover::Proof waiting(*prover_, second_.queues(), second_.queues_to(0), seconds(30));
  EXPECT_FALSE(waiting.advance());
  while (!holder->advance()) std::this_thread::yield();
  holder.reset();
  while (!waiting.advance()) std::this_thread::yield();
  EXPECT_TRUE(waiting.failed().empty());
}

/// Hazard: the time of a test ran from when it had cells, so that one that never had any never
/// ended.
TEST_F(Proofs, DoNotWaitForCellsLongerThanTheirTime) {
  Prover::Proof holder(*prover_, first_.queues(), first_.queues_to(0), seconds(30));
  holder.advance();
  Prover::Proof late(*prover_, second_.queues(), second_.queues_to(0), nanoseconds(0));
  ASSERT_TRUE(late.advance());
  ASSERT_EQ(late.failed().size(), kQueuesPerPeer);
  EXPECT_EQ(late.failed()[0].kind, SelfTestResult::Kind::kNoTurn);
  EXPECT_NE(explain(late.failed()[0]).find("under test until then"), std::string::npos);
}

}  // namespace
}  // namespace peal
