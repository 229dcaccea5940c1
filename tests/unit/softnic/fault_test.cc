// SPDX-License-Identifier: Apache-2.0
//
// Each fault of a plan on queues written by hand: which WQE it hits, what the requester is told,
// what the peer has done and what it has not.
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <set>
#include <stdexcept>

#include "softnic/presentation/settings.h"
#include "tests/unit/softnic/support.h"

namespace peal::softnic::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

void inject(SoftwareNic& nic, std::string_view plan) {
  const Refusal refusal = nic.set_faults(parse_fault_plan(plan));
  EXPECT_FALSE(refusal.refused()) << refusal.reason;
}

/// A requester `a` and a responder `b`: on one NIC, or on two.
class Faults : public SoftNic, public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    SoftNic::SetUp();
    there = GetParam() ? SoftwareNic::open() : nic;
    there_pd = GetParam() ? there->allocate_pd().number : pd;
    there_cq = std::make_unique<Cq>(*there, Cq::Options{});
    mine = std::make_unique<Region>(*nic, pd, 4096);
    theirs = std::make_unique<Region>(*there, there_pd, 4096);
    a = make_qp();
    b = std::make_unique<Qp>(*there, there_pd, *there_cq, *there_cq, Qp::Options{});
    a->attributes.ack_timeout = 8;  // 4 ms a try
    a->attributes.retry_count = 3;
    connect(*a, *b);
  }
  void connect(Qp& here, Qp& far) {
    here.connect(there->lid(), far.qpn);
    far.connect(nic->lid(), here.qpn);
  }
  Wqe write(uint64_t at, uint64_t value) { return write_inline<uint64_t>(at, theirs->key, value); }
  Wqe add(uint64_t at, uint64_t value, uint64_t result) {
    return fetch_add(at, theirs->key, value, mine->key, result);
  }
  uint64_t at_peer(uint64_t offset) const { return theirs->load<uint64_t>(offset); }
  void expect_done(const SeenCqe& cqe, uint16_t counter) {
    EXPECT_EQ(cqe.kind, CqeOpcode::kRequester);
    EXPECT_EQ(cqe.counter, counter);
  }
  void expect_failed(const SeenCqe& cqe, Syndrome syndrome, uint16_t counter) {
    EXPECT_EQ(cqe.kind, CqeOpcode::kRequesterError);
    EXPECT_EQ(cqe.syndrome, syndrome);
    EXPECT_EQ(cqe.counter, counter);
    EXPECT_EQ(cqe.qpn, a->qpn);
  }
  /// Nothing has completed for a time in which everything would have.
  void expect_silence() {
    EXPECT_FALSE(eventually([&] { return !cq->quiet(); }, milliseconds(30)));
  }

  std::shared_ptr<SoftwareNic> there;
  uint32_t there_pd = 0;
  std::unique_ptr<Cq> there_cq;
  std::unique_ptr<Region> mine;
  std::unique_ptr<Region> theirs;
  std::unique_ptr<Qp> a;
  std::unique_ptr<Qp> b;
};
INSTANTIATE_TEST_SUITE_P(Nics, Faults, ::testing::Bool(),
                         [](const auto& nics) { return nics.param ? "Two" : "One"; });

// ---- doorbells

TEST_P(Faults, DroppedDoorbellIsMadeUpForByTheNext) {
  inject(*nic, "doorbell=2 fault=drop");
  expect_done(run(*a, write(0, 1)), 0);
  a->post(write(8, 2));
  a->ring();
  expect_silence();
  EXPECT_EQ(at_peer(8), 0u);
  expect_done(run(*a, write(16, 3)), 1);
  expect_done(cq->await(), 2);
  EXPECT_EQ(at_peer(8), 2u);
}

TEST_P(Faults, DroppedDoorbellStaysUnheardWhenThePlanEnds) {
  inject(*nic, "doorbell=1 fault=drop");
  a->post(write(0, 1));
  a->ring();
  expect_silence();
  inject(*nic, "");
  expect_silence();
  expect_done(run(*a, write(8, 2)), 0);
}

TEST_P(Faults, DelayedDoorbellIsHeardInItsTime) {
  inject(*nic, "doorbell=1 fault=delay ms=40");
  const auto begin = steady_clock::now();
  expect_done(run(*a, write(0, 1)), 0);
  EXPECT_GE(steady_clock::now() - begin, milliseconds(40));
}

TEST_P(Faults, DuplicatedDoorbellDoesEverythingOnce) {
  inject(*nic, "doorbell=* fault=duplicate");
  for (uint16_t i = 0; i < 20; ++i) expect_done(run(*a, add(0, 1, 8)), i);
  EXPECT_EQ(at_peer(0), 20u);
  EXPECT_TRUE(cq->quiet());
  EXPECT_EQ(nic->violations().doorbell, 0u);
}

TEST_P(Faults, ReorderedDoorbellIsHeardBehindAnotherQueues) {
  auto other = make_qp();
  auto far = std::make_unique<Qp>(*there, there_pd, *there_cq, *there_cq, Qp::Options{});
  connect(*other, *far);
  inject(*nic, "qp=" + std::to_string(a->qpn) + " doorbell=1 fault=reorder ms=60000");
  a->post(write(0, 1));
  a->ring();
  expect_silence();
  EXPECT_EQ(run(*other, write(8, 2)).qpn, other->qpn);
  EXPECT_EQ(cq->await().qpn, a->qpn);
}

TEST_P(Faults, ReorderedDoorbellWithoutAnotherIsHeardInItsTime) {
  inject(*nic, "doorbell=1 fault=reorder ms=20");
  expect_done(run(*a, write(0, 1)), 0);
}

// ---- work requests

TEST_P(Faults, StalledQueueStandsStillBeforeItsWqe) {
  inject(*nic, "wqe=2 fault=stall");
  for (uint64_t i = 0; i < 3; ++i) a->post(write(8 * i, 1));
  a->ring();
  expect_done(cq->await(), 0);
  expect_silence();
  EXPECT_EQ(at_peer(8), 0u);
  inject(*nic, "");
  expect_done(cq->await(), 1);
  expect_done(cq->await(), 2);
}

TEST_P(Faults, StallOfATimeEnds) {
  inject(*nic, "wqe=1 fault=stall ms=30");
  const auto begin = steady_clock::now();
  expect_done(run(*a, write(0, 1)), 0);
  EXPECT_GE(steady_clock::now() - begin, milliseconds(30));
}

TEST_P(Faults, StallsOtherQueuesNot) {
  auto other = make_qp();
  auto far = std::make_unique<Qp>(*there, there_pd, *there_cq, *there_cq, Qp::Options{});
  connect(*other, *far);
  inject(*nic, "qp=" + std::to_string(a->qpn) + " wqe=1 fault=stall");
  a->post(write(0, 1));
  a->ring();
  EXPECT_EQ(run(*other, write(8, 2)).qpn, other->qpn);
  expect_silence();
}

TEST_P(Faults, LostAckOfAnAtomicIsRetriedAndTheAtomicActsOnce) {
  inject(*nic, "wqe=2 fault=lose_ack times=3");
  for (uint16_t i = 0; i < 4; ++i) a->post(add(0, 1, 8 + 8 * i));
  a->ring();
  for (uint16_t i = 0; i < 4; ++i) expect_done(cq->await(), i);
  EXPECT_EQ(at_peer(0), 4u);
  for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(mine->load<uint64_t>(8 + 8 * i), i);
}

TEST_P(Faults, LostAcksOfWriteAndReadAreRetried) {
  theirs->store<uint64_t>(512, 77);
  inject(*nic, "wqe=* fault=lose_ack times=1");
  a->post(write(0, 5));
  a->post(read_into(512, theirs->key, 8, mine->key, 64));
  a->ring();
  expect_done(cq->await(), 0);
  expect_done(cq->await(), 1);
  EXPECT_EQ(at_peer(0), 5u);
  EXPECT_EQ(mine->load<uint64_t>(64), 77u);
}

TEST_P(Faults, AckLostForGoodIsRetryExceededOfAnAtomicThatActedOnce) {
  inject(*nic, "wqe=2 fault=lose_ack");
  for (uint16_t i = 0; i < 2; ++i) a->post(add(0, 1, 8 + 8 * i));
  a->ring();
  expect_done(cq->await(), 0);
  expect_failed(cq->await(), Syndrome::kTransportRetryExceeded, 1);
  EXPECT_EQ(at_peer(0), 2u);
  EXPECT_EQ(mine->load<uint64_t>(16), 0u);
}

TEST_P(Faults, LostRequestIsRetried) {
  inject(*nic, "wqe=1 fault=lose_request times=3");
  a->post(add(0, 1, 8));
  a->post(add(0, 1, 16));
  a->ring();
  expect_done(cq->await(), 0);
  expect_done(cq->await(), 1);
  EXPECT_EQ(at_peer(0), 2u);
}

TEST_P(Faults, RequestLostForGoodIsRetryExceededAndNeverActs) {
  inject(*nic, "wqe=1 fault=lose_request");
  expect_failed(run(*a, add(0, 1, 8)), Syndrome::kTransportRetryExceeded, 0);
  EXPECT_EQ(at_peer(0), 0u);
  EXPECT_EQ(a->query().state, QpState::kError);
}

TEST_P(Faults, NotReadyWithinTheRetriesIsForgiven) {
  inject(*nic, "wqe=1 fault=rnr times=3");
  expect_done(run(*a, write(0, 1)), 0);
  EXPECT_EQ(at_peer(0), 1u);
}

TEST_P(Faults, NotReadyForGoodIsRnrRetryExceeded) {
  inject(*nic, "wqe=1 fault=rnr");
  expect_failed(run(*a, write(0, 1)), Syndrome::kRnrRetryExceeded, 0);
  EXPECT_EQ(at_peer(0), 0u);
}

TEST_P(Faults, EachSyndromeHitsItsWqeAndNoOther) {
  for (const uint32_t syndrome :
       {0x01, 0x02, 0x04, 0x05, 0x06, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x22}) {
    auto here = make_qp();
    auto far = std::make_unique<Qp>(*there, there_pd, *there_cq, *there_cq, Qp::Options{});
    connect(*here, *far);
    theirs->store<uint64_t>(0, 0);
    inject(*nic, "wqe=3 fault=syndrome:" + std::to_string(syndrome));
    for (uint64_t i = 1; i <= 4; ++i) here->post(add(0, 1, 8 * i).with(Completion::kOnError));
    here->ring();
    const SeenCqe cqe = cq->await();
    EXPECT_EQ(cqe.kind, CqeOpcode::kRequesterError);
    EXPECT_EQ(static_cast<uint32_t>(cqe.syndrome), syndrome);
    EXPECT_EQ(cqe.counter, 2);
    EXPECT_EQ(cqe.wqe_opcode, static_cast<uint8_t>(Opcode::kAtomicFetchAdd));
    EXPECT_EQ(cq->await().syndrome, Syndrome::kFlushed);
    EXPECT_EQ(at_peer(0), 2u);
    EXPECT_EQ(here->query().state, QpState::kError);
  }
}

TEST_P(Faults, FlushStormReportsEveryWqeWhateverItAskedFor) {
  inject(*nic, "wqe=3 fault=flush_storm");
  for (uint64_t i = 0; i < 20; ++i) a->post(write(8 * i, 1).with(Completion::kOnFirstError));
  a->ring();
  for (uint16_t i = 2; i < 20; ++i) expect_failed(cq->await(), Syndrome::kFlushed, i);
  EXPECT_EQ(at_peer(8), 1u);
  EXPECT_EQ(at_peer(16), 0u);
  AsyncEvent event;
  ASSERT_TRUE(nic->next_event(&event));
  EXPECT_EQ(event.kind, AsyncEvent::Kind::kQpFatal);
  EXPECT_EQ(event.number, a->qpn);
}

TEST_P(Faults, LateCqeComesAfterItsWorkAndBeforeItsSuccessors) {
  inject(*nic, "wqe=2 fault=late_cqe ms=60");
  const auto begin = steady_clock::now();
  for (uint64_t i = 0; i < 4; ++i) a->post(write(8 * i, 1));
  a->ring();
  expect_done(cq->await(), 0);
  ASSERT_TRUE(eventually([&] { return at_peer(24) == 1; }));
  const bool quiet = cq->quiet();
  EXPECT_TRUE(quiet || steady_clock::now() - begin >= milliseconds(60));
  for (uint16_t i = 1; i < 4; ++i) expect_done(cq->await(), i);
  EXPECT_GE(steady_clock::now() - begin, milliseconds(60));
}

// Only so many can wait: then they come, and the order stays.
TEST_P(Faults, MoreLateCqesThanTheNicHoldsComeInOrder) {
  constexpr uint16_t kMany = 1500;
  Cq many(*nic, {.log_entries = 11});
  Qp qp(*nic, pd, many, many, {.log_blocks = 11});
  qp.connect(nic->lid(), qp.qpn);
  inject(*nic, "wqe=1 fault=late_cqe ms=60000");
  for (uint16_t i = 0; i < kMany; ++i) qp.post(nop());
  qp.ring();
  for (uint16_t i = 0; i < kMany; ++i) expect_done(many.await(), i);
}

TEST_P(Faults, LateCqeOfADestroyedQueueNeverComes) {
  inject(*nic, "wqe=1 fault=late_cqe ms=60000");
  a->post(write(0, 1));
  a->ring();
  ASSERT_TRUE(eventually([&] { return at_peer(0) == 1; }));
  a.reset();
  inject(*nic, "");
  a = make_qp();  // the same number, most likely
  expect_silence();
}

// A GPU that shows writes in no order: the completion is there, what was fetched is not.
TEST_P(Faults, LateDataComesBehindItsCompletionOrBeforeADump) {
  theirs->store<uint64_t>(0, 7);
  theirs->store<uint64_t>(8, 40);
  inject(*nic, "wqe=* fault=late_data ms=60000");
  expect_done(run(*a, read_into(0, theirs->key, 8, mine->key, 64)), 0);
  EXPECT_EQ(mine->load<uint64_t>(64), 0u);
  expect_done(run(*a, add(8, 2, 72)), 1);
  EXPECT_EQ(mine->load<uint64_t>(72), 0u);
  EXPECT_EQ(at_peer(8), 42u) << "the peer has acted";
  Wqe dump{.opcode = Opcode::kDump};
  expect_done(run(*a, dump.data(1, mine->key, 64)), 2);
  EXPECT_EQ(mine->load<uint64_t>(64), 7u);
  EXPECT_EQ(mine->load<uint64_t>(72), 40u);
}

TEST_P(Faults, LateDataComesInItsTimeAndBeforeTheNicReads) {
  theirs->store<uint64_t>(0, 7);
  inject(*nic, "wqe=1 fault=late_data ms=20");
  expect_done(run(*a, read_into(0, theirs->key, 8, mine->key, 64)), 0);
  EXPECT_TRUE(eventually([&] { return mine->load<uint64_t>(64) == 7; }));
  inject(*nic, "wqe=1 fault=late_data ms=60000");
  expect_done(run(*a, read_into(0, theirs->key, 8, mine->key, 128)), 1);
  EXPECT_EQ(mine->load<uint64_t>(128), 0u);
  expect_done(run(*a, write_from(32, theirs->key, 8, mine->key, 128)), 2);
  EXPECT_EQ(at_peer(32), 7u) << "a read passes no write";
}

TEST_P(Faults, LateDataOfAKeyThatHasGoneNeverComes) {
  theirs->store<uint64_t>(0, 7);
  Pages pages(4096);
  Key config{.pd = pd, .access = kEverything, .bytes = 4096, .memory = pages.data()};
  const Created key = nic->register_memory(config);
  inject(*nic, "wqe=1 fault=late_data ms=60000");
  expect_done(run(*a, read_into(0, theirs->key, 8, key.number, 0)), 0);
  EXPECT_FALSE(nic->deregister_memory(key.number).refused());
  inject(*nic, "");
  expect_silence();
  EXPECT_EQ(pages.as<uint64_t>()[0], 0u);
}

// More than the NIC keeps under way is stored, whatever the plan says.
TEST_P(Faults, LateDataOfManyBytesComesAtOnce) {
  Region from(*there, there_pd, 64 << 10);
  Region to(*nic, pd, 64 << 10);
  std::memset(from.pages.data(), 3, 64 << 10);
  inject(*nic, "wqe=1 fault=late_data ms=60000");
  expect_done(run(*a, read_into(0, from.key, 64 << 10, to.key, 0)), 0);
  EXPECT_EQ(std::memcmp(from.pages.data(), to.pages.data(), 64 << 10), 0);
}

TEST_P(Faults, AreCountedForEachQueueFromThePlanOn) {
  expect_done(run(*a, write(0, 1)), 0);
  expect_done(run(*a, write(0, 1)), 1);
  inject(*nic, "wqe=2 fault=syndrome:0x13");
  expect_done(run(*a, write(0, 1)), 2);
  expect_failed(run(*a, write(8, 1)), Syndrome::kRemoteAccess, 3);
  EXPECT_EQ(at_peer(8), 0u);
}

TEST_P(Faults, OfTheFirstLineThatFitsWin) {
  inject(*nic, "wqe=2 fault=syndrome:0x13; wqe=* fault=stall ms=1; wqe=2 fault=syndrome:0x14");
  expect_done(run(*a, write(0, 1)), 0);
  expect_failed(run(*a, write(8, 1)), Syndrome::kRemoteAccess, 1);
}

TEST_P(Faults, FollowTheSeed) {
  const auto first_hit = [&](const std::string& seed) {
    inject(*nic, "seed=" + seed + "; wqe=* percent=5 fault=syndrome:0x22");
    for (int i = 0; i < 64; ++i) a->post(nop().with(Completion::kOnFirstError));
    a->ring();
    const uint16_t hit = cq->await().counter;
    a->reset();
    a->connect(there->lid(), b->qpn);
    return hit;
  };
  std::set<uint16_t> hits;
  for (const char* seed : {"1", "2", "3", "4", "5"}) {
    const uint16_t hit = first_hit(seed);
    EXPECT_EQ(first_hit(seed), hit);
    hits.insert(hit);
  }
  EXPECT_GT(hits.size(), 1u);
}

// ---- the whole NIC

TEST_P(Faults, PortDownAndUpAgainInTimeIsForgiven) {
  inject(*nic, "wqe=2 fault=port_down ms=10");
  for (uint16_t i = 0; i < 3; ++i) a->post(add(0, 1, 8 + 8 * i));
  a->ring();
  for (uint16_t i = 0; i < 3; ++i) expect_done(cq->await(), i);
  EXPECT_EQ(at_peer(0), 3u);
}

TEST_P(Faults, PortDownForGoodIsRetryExceeded) {
  inject(*nic, "after_ms=0 fault=port_down");
  expect_failed(run(*a, write(0, 1)), Syndrome::kTransportRetryExceeded, 0);
  EXPECT_EQ(at_peer(0), 0u);
}

TEST_P(Faults, PortDownAtTheResponderIsRetryExceeded) {
  inject(*there, "after_ms=0 fault=port_down");
  expect_failed(run(*a, write(0, 1)), Syndrome::kTransportRetryExceeded, 0);
  EXPECT_EQ(at_peer(0), 0u);
}

TEST_P(Faults, StoppedNicDoesNothingUntilThePlanEnds) {
  inject(*nic, "wqe=2 fault=nic_stop");
  a->post(write(0, 1));
  a->post(write(8, 1));
  a->ring();
  expect_done(cq->await(), 0);
  expect_silence();
  EXPECT_EQ(at_peer(8), 0u);
  inject(*nic, "");
  expect_done(cq->await(), 1);
  EXPECT_EQ(at_peer(8), 1u);
}

TEST(FaultsOfAProcess, KillIt) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const std::shared_ptr<SoftwareNic> nic = SoftwareNic::open();
    nic->set_faults(parse_fault_plan("after_ms=0 fault=kill"));
    eventually([] { return false; });
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
}

class FaultSettings : public ::testing::Test {
 protected:
  void TearDown() override { unsetenv("PEAL_SOFTNIC_FAULTS"); }
};

TEST_F(FaultSettings, GiveThePlanInline) {
  setenv("PEAL_SOFTNIC_FAULTS", "wqe=1 fault=kill; seed=4", 1);
  const Settings settings = Settings::from_environment();
  ASSERT_TRUE(settings.faults);
  EXPECT_EQ(settings.faults->count, 1u);
  EXPECT_EQ(settings.faults->seed, 4u);
}

TEST_F(FaultSettings, GiveThePlanAsAFile) {
  const std::string path = ::testing::TempDir() + "/plan";
  std::ofstream(path) << "# a file\nwqe=1 fault=kill\n";
  setenv("PEAL_SOFTNIC_FAULTS", path.c_str(), 1);
  EXPECT_EQ(Settings::from_environment().faults->count, 1u);
}

TEST_F(FaultSettings, ArePartOfTheNicFromItsBeginning) {
  setenv("PEAL_SOFTNIC_FAULTS", "wqe=1 fault=syndrome:0x22", 1);
  const std::shared_ptr<SoftwareNic> nic = SoftwareNic::open();
  const uint32_t pd = nic->allocate_pd().number;
  Cq cq(*nic, {});
  Qp qp(*nic, pd, cq, cq, {});
  qp.connect(nic->lid(), qp.qpn);
  qp.post(nop());
  qp.ring();
  EXPECT_EQ(cq.await().syndrome, Syndrome::kRemoteAborted);
}

// Hazard: opening a pipe that nobody writes waits for ever.
TEST_F(FaultSettings, ThatAreWrongAreNamed) {
  const std::string pipe = ::testing::TempDir() + "/pipe";
  const std::string long_file = ::testing::TempDir() + "/long";
  unlink(pipe.c_str());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::ofstream(long_file) << std::string(65537, ' ');
  struct Wrong {
    const char* value;
    const char* part;
  };
  for (const Wrong& wrong :
       {Wrong{"/no/such/file", "readable file"}, Wrong{"wqe=1", "line 1"},
        Wrong{"/dev/zero", "no regular file"}, Wrong{pipe.c_str(), "no regular file"},
        Wrong{long_file.c_str(), "65536"}, Wrong{"/tmp", "readable file"}}) {
    setenv("PEAL_SOFTNIC_FAULTS", wrong.value, 1);
    std::string error = "accepted";
    try {
      Settings::from_environment();
    } catch (const std::invalid_argument& refused) {
      error = refused.what();
    }
    EXPECT_TRUE(error.starts_with("PEAL_SOFTNIC_FAULTS=\"")) << error;
    EXPECT_NE(error.find(wrong.part), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace peal::softnic::testing
