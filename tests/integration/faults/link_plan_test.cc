// SPDX-License-Identifier: Apache-2.0
//
// Plans of faults towards mapped peers: what is refused and in which words, what a program sees of
// each fault, and the end of a PE that meets fault=kill. The matrix of faults and operations is
// tests/gpu/faults.cu.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <string>

#include "tests/support/error_of.h"
#include "tests/support/job.h"
#include "tests/support/require.h"

namespace peal::api_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Config mapped(const std::string& plan = "", Microseconds timeout = seconds(60)) {
  Config config = small_config();
  config.transport = TransportKind::kP2p;
  config.heap_size = 4u << 20;
  config.p2p_faults = plan;
  config.timeout = timeout;
  return config;
}

void on_two_pes(const Config& config, const std::function<void(Runtime&)>& body) {
  bootstrap::run_threads(2, [&](Bootstrap& group) {
    Runtime pe = start(group, config);
    body(pe);
  });
}

PEAL_KERNEL put_some(Context ctx, uint64_t* box, uint32_t count, Status* status) {
  for (uint32_t i = 0; i < count; ++i) status[i] = p(ctx, box, uint64_t{i} + 1, 1 - ctx.pe);
}

PEAL_KERNEL put_by_block(Context ctx, uint64_t* box, Status* status) {
  status[thread_in_block()] = put(ctx, block, box, box + 64, 64, 1 - ctx.pe);
}

PEAL_KERNEL wait_for_signal(Context ctx, uint64_t* flag, Status* status) {
  *status = wait_until(ctx, flag, Compare::kEq, 1);
}

PEAL_KERNEL put_and_tell(Context ctx, uint64_t* box, Status* status) {
  *status = put_signal(ctx, box, box + 1, 1, Signal::set(box + 2, 1, 1 - ctx.pe));
}

TEST(LinkPlan, IsRefusedInWordsThatSayWhatIsAccepted) {
  struct Wrong {
    const char* plan;
    const char* part;
  };
  constexpr Wrong kWrong[] = {
      {"op=1", "a line names its fault"},
      {"op=1 fault=melt", "a fault is one of stall, delay, link_down, kill"},
      {"fault=stall", "placed by op="},
      {"signal=1 fault=stall", "placed by op="},
      {"op=1 fault=delay ms=1", "placed by signal="},
      {"signal=1 fault=delay", "needs ms="},
      {"op=1 fault=kill ms=5", "takes no ms="},
      {"op=0 fault=stall", "from 1 to"},
      {"op=1 op=2 fault=stall", "stands twice"},
      {"op=1 fault=stall fault=kill", "a line has one fault"},
      {"op=1 fault=stall percent=101", "from 1 to 100"},
      {"pe=2 op=1 fault=stall", "from 0 to 1, or *"},
      {"on=2 op=1 fault=stall", "from 0 to 1"},
      {"pe=-1 op=1 fault=stall", "from 0 to 1, or *"},
      {"wqe=1 fault=stall", "PEAL_SOFTNIC_FAULTS"},
      {"op=1 fault=lose_request", "a link loses no store; fault=link_down"},
      {"op=1 fault=drop", "no doorbell"},
      {"op=1 fault=syndrome:0x13", "report no error"},
      {"op=1 fault=stall\n;op=9", "line 2"},
      {"op=1 seed=3 fault=stall", "stands on a line of its own"}};
  on_two_pes(mapped(), [&](Runtime& pe) {
    for (const Wrong& wrong : kWrong) {
      const std::string error = error_of([&] { pe.set_p2p_faults(wrong.plan); }).what();
      EXPECT_NE(error.find(wrong.part), std::string::npos) << wrong.plan << ": " << error;
    }
    pe.set_p2p_faults(" # nothing\n");
    pe.set_p2p_faults("on=1 pe=* op=0x2 percent=5 fault=stall ms=3; seed=9");
  });
}

TEST(LinkPlan, OfTheEnvironmentIsRefusedByName) {
  bootstrap::run_threads(2, [&](Bootstrap& group) {
    const Config config = mapped("pe=7 op=1 fault=stall");
    const std::string error = error_of([&] { start(group, config); }).what();
    EXPECT_NE(error.find("PEAL_P2P_FAULTS): line 1: \"pe=7\": a whole number from 0 to 1"),
              std::string::npos)
        << error;
  });
}

// A plan that is accepted and does nothing would let tests of faults pass.
TEST(LinkPlan, IsRefusedWhereNoPeerIsMapped) {
  bootstrap::run_threads(2, [&](Bootstrap& group) {
    Config config = mapped("op=1 fault=stall");
    config.transport = TransportKind::kIbgda;
    const std::string error = error_of([&] { start(group, config); }).what();
    EXPECT_NE(error.find("no other PE is reached by loads and stores"), std::string::npos) << error;
    EXPECT_NE(error.find("PEAL_SOFTNIC_FAULTS"), std::string::npos) << error;
  });
}

TEST(LinkPlan, OfANicIsRefusedWhereNoNicIsUsed) {
  bootstrap::run_threads(2, [&](Bootstrap& group) {
    Config config = mapped();
    config.softnic.emplace("PEAL_SOFTNIC_FAULTS", "wqe=1 fault=stall");
    const std::string error = error_of([&] { start(group, config); }).what();
    EXPECT_NE(error.find("PEAL_P2P_FAULTS"), std::string::npos) << error;
  });
}

TEST(LinkPlan, CountsOperationsOfAPeerAndAnswersPeerLostWhileALinkIsDown) {
  on_two_pes(mapped("on=0 pe=1 op=3 fault=link_down"), [](Runtime& pe) {
    const Symmetric<uint64_t> box(pe, 1);
    Status status[4];
    launch({}, put_some, pe.context(), box.data(), 4, status).wait();
    const bool mine = pe.my_pe() == 0;
    EXPECT_EQ(status[1], Status::kOk);
    EXPECT_EQ(status[2], mine ? Status::kPeerLost : Status::kOk);
    EXPECT_EQ(status[3], mine ? Status::kPeerLost : Status::kOk);
    pe.barrier();
    EXPECT_EQ(box[0], mine ? 4u : 2u);
    const Failure failure = pe.failure();
    EXPECT_EQ(failure.status, mine ? Status::kPeerLost : Status::kOk) << failure.text;
    if (mine) {
      EXPECT_EQ(failure.pe, 1);
      EXPECT_NE(failure.text.find("has taken the link to PE 1 down"), std::string::npos)
          << failure.text;
    }
    pe.barrier();
    pe.set_p2p_faults("");
    pe.recover();
    launch({}, put_some, pe.context(), box.data(), 4, status).wait();
    for (const Status each : status) EXPECT_EQ(each, Status::kOk);
    pe.check();
    pe.barrier();
  });
}

// The lanes of a scope count as one operation, and hear of its fault together.
TEST(LinkPlan, CountsAnOperationOfABlockOnce) {
  on_two_pes(mapped("op=2 fault=link_down"), [](Runtime& pe) {
    const Symmetric<uint64_t> box(pe, 128);
    Status status[64];
    for (const Status expected : {Status::kOk, Status::kPeerLost, Status::kPeerLost}) {
      launch({.threads = 64}, put_by_block, pe.context(), box.data(), status).wait();
      for (const Status each : status) EXPECT_EQ(each, expected);
    }
    pe.barrier();
  });
}

TEST(LinkPlan, TellsOfAStallThatNothingEnds) {
  on_two_pes(mapped("op=1 fault=stall", milliseconds(30)), [](Runtime& pe) {
    const Symmetric<uint64_t> box(pe, 1);
    Status status[1];
    launch({}, put_some, pe.context(), box.data(), 1, status).wait();
    EXPECT_EQ(status[0], Status::kTimeout);
    EXPECT_NE(pe.failure().text.find("which a plan of faults (PEAL_P2P_FAULTS) stalls: timeout"),
              std::string::npos)
        << pe.failure().text;
    pe.barrier();
  });
}

// One that is later than any deadline: its data is there, the signal is not, and the call says so.
TEST(LinkPlan, HoldsASignalBackBehindItsData) {
  on_two_pes(mapped("on=0 signal=1 fault=delay ms=86400000", milliseconds(30)), [](Runtime& pe) {
    const Symmetric<uint64_t> box(pe, 3);
    box[1] = 5;
    pe.barrier();
    const bool mine = pe.my_pe() == 0;
    Status status[2];
    launch({}, put_and_tell, pe.context(), box.data(), &status[0]).wait();
    pe.barrier();
    EXPECT_EQ(box[0], 5u);
    EXPECT_EQ(box[2], mine ? 1u : 0u) << "PE 0 is told, PE 1 is not";
    pe.barrier();
    launch({}, put_and_tell, pe.context(), box.data(), &status[1]).wait();
    pe.barrier();
    EXPECT_EQ(status[0], mine ? Status::kTimeout : Status::kOk);
    EXPECT_EQ(status[1], Status::kOk);
    EXPECT_EQ(box[2], 1u);
    pe.barrier();
  });
}

// The PE that meets it ends itself, and the other hears of it as of any PE that has ended.
TEST(LinkPlan, KillsItsOwnPeAndOthersHearOfIt) {
  std::string text = "no error";
  try {
    bootstrap::run_processes(2,
                             [&](Bootstrap& group) {
                               Runtime pe = start(group, mapped("on=1 op=3 fault=kill"));
                               auto* const box = pe.allocate<uint64_t>(2);
                               Status status[3];
                               if (pe.my_pe() == 1) {
                                 launch({}, put_some, pe.context(), box, 3, status).wait();
                                 return 7;
                               }
                               launch({}, wait_for_signal, pe.context(), box + 1, status).wait();
                               require(status[0] == Status::kPeerLost, to_string(status[0]));
                               require(pe.failure().pe == 1, pe.failure().text);
                               require(box[0] == 2, "the second put came, the third did not");
                               return 0;
                             },
                             {.deadline = seconds(60), .job = seconds(200)});
  } catch (const Error& error) {
    text = error.what();
  }
  EXPECT_EQ(text, "rank 1 of 2 was killed by signal 9 (Killed)");
}

}  // namespace
}  // namespace peal::api_test

int main(int argc, char** argv) { return peal::api_test::run_tests(argc, argv); }
