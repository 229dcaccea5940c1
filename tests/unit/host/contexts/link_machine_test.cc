// SPDX-License-Identifier: Apache-2.0
//
// The states of a link, and what recovery takes back of it. Each of two PEs' machines is driven as
// the linkers drive them.
#include "host/contexts/link_machine.h"

#include "tests/unit/host/contexts/links_rig.h"

namespace peal {
namespace {

class Links : public LinksRig {
 protected:
  LinkMachine here_{queues(2), requests_};       // of PE 0
  LinkMachine there_{queues(2), requests_ + 2};  // of PE 1

  /// Makes and connects the link between the two.
  void connect(uint32_t generation = 0) {
    const std::vector<Endpoint> mine = here_.make(1);
    const std::vector<Endpoint> theirs = there_.make(0);
    here_.connect(1, theirs, generation);
    there_.connect(0, mine, generation);
  }
  void open() {
    connect();
    here_.tested(1);
    here_.open(1);
  }
  std::vector<Repair> only(uint32_t pe, Repair repair) const {
    std::vector<Repair> all(here_.queues().count(), Repair::kNone);
    for (const uint32_t index : here_.queues_to(pe)) all[index] = repair;
    return all;
  }
};

TEST_F(Links, BeginWithoutQueuePairs) {
  EXPECT_EQ(here_.state(1), LinkState::kNone);
  EXPECT_EQ(here_.to_come(), 2u);
  EXPECT_EQ(here_.queues_to(1), (std::vector<uint32_t>{1, 3}));
  EXPECT_EQ(here_.queues().progress(1).qpn, 0u);
  EXPECT_EQ(here_.needed(), std::vector<Repair>(4, Repair::kForget));
}

TEST_F(Links, GoFromMadeToOpen) {
  const std::vector<Endpoint> ends = here_.make(1);
  ASSERT_EQ(ends.size(), kQueuesPerPeer);
  EXPECT_NE(ends[0].qpn, ends[1].qpn);
  EXPECT_EQ(here_.state(1), LinkState::kMade);
  EXPECT_EQ(here_.state(0), LinkState::kNone) << "the other link";
  connect();
  EXPECT_EQ(here_.state(1), LinkState::kConnected);
  here_.tested(1);
  EXPECT_EQ(here_.state(1), LinkState::kTested);
  EXPECT_EQ(here_.to_come(), 2u) << "kernels may not use it yet";
  here_.open(1);
  EXPECT_EQ(here_.state(1), LinkState::kOpen);
  EXPECT_EQ(here_.to_come(), 1u);
  EXPECT_EQ(here_.queues().progress(1).qpn, ends[0].qpn);
  EXPECT_EQ(here_.needed()[1], Repair::kNone);
  EXPECT_EQ(here_.needed()[0], Repair::kForget);
}

TEST_F(Links, ThatFailCloseAllTheirQueuesAndNoOthers) {
  open();
  Failure why;
  why.status = Status::kQueueError;
  why.text = "no way there";
  here_.fail(1, why);
  EXPECT_EQ(here_.state(1), LinkState::kFailed);
  ASSERT_EQ(here_.failures().size(), 1u);
  EXPECT_EQ(here_.failures()[0].text, "no way there");
  for (const uint32_t index : here_.queues_to(1)) {
    EXPECT_EQ(here_.queues().progress(index).status, Status::kQueueError);
  }
  EXPECT_EQ(here_.queues().progress(0).status, Status::kOk);
  EXPECT_EQ(here_.needed()[1], Repair::kForget);
}

TEST_F(Links, ThatAreForgottenBeginAnewWithTheirQueuePairs) {
  open();
  const uint32_t qpn = here_.queues().progress(1).qpn;
  here_.fail(1, {});
  requests_[1] = 1;  // a kernel asks for it
  here_.reset(only(1, Repair::kForget));
  there_.reset(std::vector<Repair>(4, Repair::kForget));
  EXPECT_EQ(here_.state(1), LinkState::kNone);
  EXPECT_TRUE(here_.failures().empty());
  EXPECT_EQ(requests_[1], 0u);
  EXPECT_EQ(here_.queues().progress(1).status, Status::kOk);
  EXPECT_EQ(here_.make(1)[0].qpn, qpn);
  connect(1);
  here_.open(1);
  EXPECT_EQ(here_.needed()[1], Repair::kNone);
}

TEST_F(Links, HaveOnlyTheirBrokenQueuesRepaired) {
  open();
  here_.queues().close(3, Status::kTimeout);
  EXPECT_EQ(here_.needed()[1], Repair::kNone);
  EXPECT_EQ(here_.needed()[3], Repair::kReconnect);
  std::vector<Repair> repairs(4, Repair::kNone);
  repairs[3] = Repair::kReconnect;
  here_.reset(repairs);
  EXPECT_EQ(here_.state(1), LinkState::kOpen) << "kernels come back to it";
  here_.reconnect(repairs, 1);
  EXPECT_EQ(here_.needed()[3], Repair::kReconnect) << "until it is opened again";
  here_.reopen(repairs);
  EXPECT_EQ(here_.needed()[3], Repair::kNone);
}

}  // namespace
}  // namespace peal
