// SPDX-License-Identifier: Apache-2.0
//
// Programs that are right, by docs/memory_model.md: nothing is told of them.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/unit/check/order_rig.h"

namespace peal::checking {
namespace {

constexpr uint64_t kBack = 128;

void read(RiggedPe& pe, uint64_t at = kData) { pe.plain(pe.context.fields.pe, at, 8, false); }

TEST(OrderRight, PutSignalVouchesForItsDataAndForEarlierPuts) {
  OrderRig job(2);
  job[0].put_nbi(1, kOther, kBytes, kOther);
  job[0].put_signal(1, kData, kBytes, kData, kFlag);
  job[1].see(kFlag);
  read(job[1]);
  read(job[1], kOther + 100);
  EXPECT_TRUE(job.silent());
}

TEST(OrderRight, SignalVouchesForPuts) {
  OrderRig job(2);
  job[0].put(1, kData, kBytes, kData);
  job[0].signal(1, kFlag);
  job[1].see(kFlag);
  job[1].put(0, kOther, kBytes, kData);
  EXPECT_TRUE(job.silent());
}

TEST(OrderRight, FlagByPOrAnAtomicBehindAFenceOrAQuiet) {
  for (const bool quiet : {false, true}) {
    for (const bool atomic : {false, true}) {
      OrderRig job(2);
      job[0].put(1, kData, kBytes, kData);
      quiet ? job[0].quiet(1) : job[0].fence(1);
      atomic ? job[0].add(1, kFlag) : job[0].p(1, kFlag);
      job[1].see(kFlag);
      read(job[1]);
      EXPECT_TRUE(job.silent());
    }
  }
}

TEST(OrderRight, FlagByAnAtomicThatReleases) {
  for (const Call which : {Call::kAtomicAdd, Call::kAtomicFetchAdd}) {
    OrderRig job(2);
    job[0].put(1, kData, kBytes, kData);
    CallNote note = job[0].transfer(which, 1, kFlag, 8, 0);
    note.here = nullptr;
    note.releases = 1;
    job[0].enter(note).end();
    job[1].see(kFlag);
    read(job[1]);
    EXPECT_TRUE(job.silent());
  }
}

TEST(OrderRight, FlagAtTheEndOfAPutBehindAFence) {
  for (const uint64_t bytes : {8, 64}) {
    OrderRig job(2);
    job[0].put(1, kData, kBytes, kData);
    job[0].fence();
    job[0].put(1, kOther, bytes, kOther);
    job[1].see(kOther + bytes - 8);
    read(job[1]);
    EXPECT_TRUE(job.silent());
  }
}

TEST(OrderRight, FlagThatIsPolledByAFetchOrAG) {
  for (const bool fetch : {false, true}) {
    OrderRig job(3);
    job[0].put(1, kData, kBytes, kData);
    job[0].quiet();
    job[0].p(2, kFlag);
    fetch ? job[1].fetch_add(2, kFlag) : job[1].g(2, kFlag);
    read(job[1]);
    EXPECT_TRUE(job.silent());
  }
}

TEST(OrderRight, QuietAndAWordToAThirdPe) {
  OrderRig job(3);
  job[0].put(2, kData, kBytes, kData);
  job[0].quiet();
  job[0].signal(1, kFlag);
  job[1].see(kFlag);
  job[1].get(2, kData, kBytes, kOther);
  EXPECT_TRUE(job.silent());
}

TEST(OrderRight, WhatASignalSaidIsPassedOn) {
  OrderRig job(3);
  job[0].put_signal(1, kData, kBytes, kData, kFlag);
  job[1].see(kFlag);
  job[1].signal(2, kFlag);
  job[2].see(kFlag);
  job[2].get(1, kData, kBytes, kData);
  EXPECT_TRUE(job.silent());
}

TEST(OrderRight, PingPongReusesItsSourceOnceTheAnswerIsThere) {
  OrderRig job(2);
  for (int i = 0; i < 10; ++i) {
    CallNote there = job[0].transfer(Call::kPut, 1, kData, kBytes, kData);
    there.word = job[0].at(kFlag);
    job[0].start(there);
    *job[1].at(kFlag) = std::byte{1};
    job[1].see(kFlag);
    read(job[1]);
    CallNote back = job[1].transfer(Call::kPut, 0, kOther, kBytes, kOther);
    back.word = job[1].at(kBack);
    job[1].start(back);
    *job[0].at(kBack) = std::byte{1};
    job[0].see(kBack);
    read(job[0], kOther);
    job[0].plain(0, kData, 8, true);
    *job[0].at(kData) = static_cast<std::byte>(i);
  }
  EXPECT_TRUE(job.silent());
}

TEST(OrderRight, TicketsAndQuietGiveTheSourceBack) {
  for (const bool quiet : {false, true}) {
    OrderRig job(2);
    job[0].put_nbi(1, kData, kBytes, kData);
    const CallNote last = job[0].put_nbi(1, kOther, kBytes, kOther);
    quiet ? job[0].quiet() : job[0].wait(last);
    job[0].plain(0, kData, 8, true);
    job[0].get(1, 0, 8, kOther);
    *job[0].at(kData) = std::byte{9};
    job[0].quiet();
    EXPECT_TRUE(job.silent());
  }
}

TEST(OrderRight, TicketsAndQuietBringWhatWasFetched) {
  for (const bool quiet : {false, true}) {
    OrderRig job(2);
    const CallNote get = job[0].get_nbi(1, kData, kBytes, kData);
    const CallNote fetch = job[0].fetch_nbi(1, kFlag, kOther);
    if (quiet) job[0].quiet();
    if (!quiet) job[0].wait(get), job[0].wait(fetch);
    read(job[0]);
    job[0].put(1, kBack, 8, kOther);
    EXPECT_TRUE(job.silent());
  }
}

TEST(OrderRight, SourceMayBeReadWhileItIsSent) {
  OrderRig job(3);
  job[0].put_nbi(1, kData, kBytes, kData);
  job[0].put_nbi(2, kData, kBytes, kData);
  read(job[0]);
  job[1].get(0, kData, kBytes, kOther);
  EXPECT_TRUE(job.silent());
}

TEST(OrderRight, PutsThatFailedLeaveNothing) {
  OrderRig job(2);
  CallNote note = job[0].transfer(Call::kPut, 1, kData, kBytes, kOther);
  note.starts = 1;
  BegunCall(*job[0].checker, job[0].context, note).end(Status::kMistake);
  job[0].plain(0, kOther, 8, true);
  EXPECT_TRUE(job.silent());
}

TEST(OrderRight, BarrierAllOrdersEverything) {
  OrderRig job(3);
  for (int i = 0; i < 4; ++i) {
    job[i % 3].put(0, kData, kBytes, kData);
    job.barrier_all();
    job[(i + 1) % 3].get(0, kData, kBytes, kOther);
    job.barrier_all();
  }
  EXPECT_TRUE(job.silent());
}

TEST(OrderRight, QuietAndSyncAllDoWhatBarrierAllDoes) {
  OrderRig job(2);
  job[0].put(1, kData, kBytes, kData);
  job[0].quiet();
  job.sync_all();
  read(job[1]);
  EXPECT_TRUE(job.silent());
}

TEST(OrderRight, SyncAllIsEnoughBehindReads) {
  OrderRig job(2);
  job[0].put(1, kOther, kBytes, kData);
  job[0].get(1, kData, kBytes, kData);
  job.sync_all();
  job[1].plain(1, kData, 8, true);
  EXPECT_TRUE(job.silent());
}

TEST(OrderRight, BarrierOfTheTeamThatHasTheWriter) {
  OrderRig job(3);
  job[0].put(2, kData, kBytes, kData);
  job.meet(Call::kBarrier, {0, 2}, 77);
  read(job[2]);
  EXPECT_TRUE(job.silent());
}

TEST(OrderRight, CollectiveCallsOrderWhatTheirMembersHave) {
  OrderRig job(2);
  for (int i = 0; i < 5; ++i) {
    std::vector<BegunCall> calls;
    for (int pe = 0; pe < 2; ++pe) {
      job[pe].plain(pe, kData, 8, true);
      calls.push_back(job[pe].enter(job[pe].of_team(Call::kAllReduce, 0, kOther, kData, 512)));
    }
    for (BegunCall& call : calls) call.end();
    for (int pe = 0; pe < 2; ++pe) job[pe].get(1 - pe, kOther, 64, kBack);
    job.sync_all();
  }
  EXPECT_TRUE(job.silent());
}

TEST(OrderRight, RingAllReduce) {
  constexpr int kPes = 4;
  OrderRig job(kPes);
  for (int round = 0; round < 3; ++round) {
    for (int step = 0; step < 2 * (kPes - 1); ++step) {
      const uint64_t landing = kOther + 1024 * static_cast<uint64_t>(step);
      const uint64_t word = kFlag + 8 * static_cast<uint64_t>(step);
      for (int pe = 0; pe < kPes; ++pe) {
        job[pe].put_signal((pe + 1) % kPes, landing, 1024, kData, word);
      }
      for (int pe = 0; pe < kPes; ++pe) {
        job[pe].see(word);
        job[pe].plain(pe, landing, 1024, false);
        job[pe].plain(pe, kData, 1024, true);
      }
    }
    job.sync_all();
  }
  EXPECT_TRUE(job.silent());
}

TEST(OrderRight, DoubleBufferingWithCredits) {
  OrderRig job(2);
  for (uint64_t i = 0; i < 20; ++i) {
    const uint64_t buffer = kData + 1024 * (i % 2);
    const uint64_t full = kFlag + 8 * (i % 2);
    const uint64_t credit = kBack + 8 * (i % 2);
    if (i >= 2) job[0].see(credit);
    job[0].plain(0, buffer, 1024, true);
    job[0].put_signal(1, buffer, 1024, buffer, full);
    job[1].see(full);
    job[1].plain(1, buffer, 1024, false);
    job[1].signal(0, credit);
  }
  EXPECT_TRUE(job.silent());
}

TEST(OrderRight, OneWordThatSeveralSignalsAddTo) {
  OrderRig job(4);
  for (int pe = 1; pe < 4; ++pe) {
    job[pe].put_signal(0, kData + 1024 * static_cast<uint64_t>(pe), 1024, kData, kFlag);
  }
  job[0].see(kFlag);
  job[0].plain(0, kData + 1024, 3 * 1024, false);
  EXPECT_TRUE(job.silent());
}

TEST(OrderRight, SetOfWordsThatAreWaitedForTogether) {
  OrderRig job(3);
  job[1].put_signal(0, kData, 512, kData, kFlag);
  job[2].put_signal(0, kData + 512, 512, kData, kFlag + 8);
  job[0].see(kFlag, 2);
  job[0].plain(0, kData, 1024, false);
  EXPECT_TRUE(job.silent());
}

TEST(OrderRight, WordsAreNotDataForOneAnother) {
  OrderRig job(3);
  job[0].add(2, kFlag);
  job[1].fetch_add(2, kFlag);
  job[0].p(2, kFlag);
  job[1].g(2, kFlag);
  job[2].see(kFlag);
  job[1].put(2, kFlag, 8, kOther);
  job[0].g(2, kFlag);
  EXPECT_TRUE(job.silent());
}

TEST(OrderRight, NeighboursInAGranule) {
  OrderRig job(3);
  job[0].put(2, kData, 4, kData);
  job[1].put(2, kData + 4, 4, kData);
  job[0].put(2, kData + 13, 3, kData);
  job[1].put(2, kData + 16, 100, kData);
  EXPECT_TRUE(job.silent());
}

TEST(OrderRight, FlagThatWasStoredWithoutACall) {
  OrderRig job(2);
  job[0].put(1, kData, kBytes, kData);
  job[0].quiet();
  *job[1].at(kFlag) = std::byte{1};  // by ptr()
  job[1].see(kFlag);
  job[1].get(1, kData, kBytes, kOther);
  EXPECT_TRUE(job.silent());
}

TEST(OrderRight, AtomicStoresAndLoadsOrder) {
  OrderRig job(2);
  job[0].plain(1, kData, 64, true);
  job[0].plain(1, kFlag, 8, true, true);
  job[1].plain(1, kFlag, 8, false, true);
  job[1].plain(1, kData, 64, false);
  EXPECT_TRUE(job.silent());
}

TEST(OrderRight, CollectiveCallsOfTheHostOrder) {
  OrderRig job(2);
  job[0].put_nbi(1, kData, kBytes, kData);
  job.host_meeting();
  read(job[1]);
  job[0].plain(0, kData, 8, true);
  EXPECT_TRUE(job.silent());
}

TEST(OrderRight, EverybodyMetAloneIsEnough) {
  OrderRig job(2);
  job[0].put(1, kData, kBytes, kData);
  job[0].checker->everybody_met();
  job[1].checker->everybody_met();
  read(job[1]);
  EXPECT_TRUE(job.silent());
}

TEST(OrderRight, FreeBehindAQuiet) {
  OrderRig job(2);
  job[0].put_nbi(1, kData, kBytes, kData);
  job[0].quiet();
  job[1].get(0, kData, kBytes, kOther);
  job.host_meeting([](RiggedPe& pe) { pe.checker->freed(pe.at(kData), 2048); });
  job[1].put(0, kData, kBytes, kOther);  // the memory belongs to another block now
  EXPECT_TRUE(job.silent());
}

TEST(OrderRight, FreeOfANeighbour) {
  OrderRig job(2);
  job[0].put_nbi(1, kData, 1024, kData);
  job.host_meeting([](RiggedPe& pe) { pe.checker->freed(pe.at(kData + 1024), 2048); });
  EXPECT_TRUE(job.silent());
}

TEST(OrderRight, AfterRecoverNothingIsUnderWay) {
  OrderRig job(2);
  job[0].put_nbi(1, kData, kBytes, kData);
  job[0].checker->recovered();
  job[0].plain(0, kData, 8, true);
  EXPECT_TRUE(job.silent());
}

TEST(OrderRight, MemoryOutsideOfTheHeapIsNotLookedAt) {
  OrderRig job(2);
  std::vector<std::byte> local(4096);
  CallNote note = job[0].transfer(Call::kPut, 1, kData, 64, kData);
  note.here = local.data();
  const CallNote ticket = job[0].start(note);
  job[0].wait(ticket);
  job[0].checker->plain({local.data(), 8, true, false, 0, 0});
  EXPECT_TRUE(job.silent());
}

TEST(OrderRight, OfOtherHostsMuchIsTakenForOrdered) {
  OrderRig job(2, 4);
  EXPECT_NE(job[0].checker->unseen(), "");
  job[0].put(1, kData, kBytes, kData);
  job[0].p(3, kFlag);  // and PE 3 tells PE 1, which nobody sees here
  *job[1].at(kBack) = std::byte{1};
  job[1].see(kBack);
  read(job[1]);
  EXPECT_TRUE(job.silent());
}

// One lane of PE 0 puts, waits for its ticket and stores anew, over and over; a lane of PE 1 reads.
void send_and_receive(OrderRig& job, uint64_t lane) {
  const uint64_t data = kData + 4096 * lane;
  const uint64_t flag = kFlag + 16 * lane;
  for (uint64_t i = 0; i < 200; ++i) {
    RiggedPe& sender = job[0];
    CallNote put = sender.transfer(Call::kPut, 1, data, kBytes, data);
    put.word = sender.at(flag);
    put.starts = 1;
    BegunCall started = sender.enter(put);
    started.note.queue = sender.at(flag);
    started.note.index = i;
    started.end();
    CallNote wait;
    wait.call = Call::kWait;
    wait.queue = sender.at(flag);
    wait.index = i;
    sender.enter(wait).end();
    job[1].see(flag);
    job[1].plain(1, data, kBytes, false);
    job[1].signal(0, flag + 8);
    sender.see(flag + 8);
    sender.plain(0, data, kBytes, true);
  }
}

TEST(OrderRight, LanesOfAPeCallAtATime) {
  OrderRig job(2);
  std::vector<std::thread> lanes;
  for (uint64_t lane = 0; lane < 4; ++lane) {
    lanes.emplace_back([&job, lane] { send_and_receive(job, lane); });
  }
  for (std::thread& lane : lanes) lane.join();
  EXPECT_TRUE(job.silent());
}

TEST(OrderRight, FailedMeetingsDoNotCountForever) {
  OrderRig job(2);
  job[0].enter(Call::kSyncAll).end(Status::kTimeout);  // alone
  for (int i = 0; i < 4; ++i) {
    job[i % 2].put(0, kData, kBytes, kData);
    job.barrier_all();
  }
  EXPECT_TRUE(job.silent());
}

}  // namespace
}  // namespace peal::checking
