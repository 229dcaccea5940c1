// SPDX-License-Identifier: Apache-2.0
//
// Programs that are wrong: each mistake is told, with both accesses and a remedy.
#include <gtest/gtest.h>

#include "tests/unit/check/order_rig.h"

namespace peal::checking {
namespace {

// ---- what an operation under way still needs

TEST(OrderMistakes, SourceOfAPutIsWrittenByAGetBeforeItIsComplete) {
  OrderRig job(2);
  job[0].put_nbi(1, kData, kBytes, kData);
  job[0].get(1, kOther, 8, kData + 8);
  EXPECT_TRUE(job.says("its source (byte 4096, 1000 bytes) is written by PE 0: "));
  EXPECT_TRUE(job.says("order_rig.h:"));
  EXPECT_TRUE(job.says("wait(ticket) or quiet between the two"));
}

TEST(OrderMistakes, SourceOfAPutChangesByAStoreThatNobodySaw) {
  OrderRig job(2);
  const CallNote ticket = job[0].put_nbi(1, kData, kBytes, kData);
  *job[0].at(kData + kBytes - 1) = std::byte{7};
  job[0].wait(ticket);
  EXPECT_TRUE(job.says("changed before it was complete, as PE 0: "));
  EXPECT_TRUE(job.says("wait(ticket) or quiet before it is written"));
}

TEST(OrderMistakes, SourceOfAPutChangesBeforeABarrier) {
  OrderRig job(2);
  job[0].put_nbi(1, kData, kBytes, kData);
  *job[0].at(kData) = std::byte{7};
  job.barrier_all();
  EXPECT_TRUE(job.says("changed before it was complete"));
}

TEST(OrderMistakes, SourceChangesBetweenTwoPutsThatAreAlike) {
  OrderRig job(2);
  job[0].put_nbi(1, kData, kBytes, kData);
  *job[0].at(kData) = std::byte{7};
  job[0].put_nbi(1, kData, kBytes, kData);
  EXPECT_TRUE(job.says("changed before it was complete"));
}

TEST(OrderMistakes, SourceOfAPutIsWrittenByAPlainStore) {
  OrderRig job(2);
  job[0].put_nbi(1, kData, kBytes, kData);
  job[0].plain(0, kData, 4, true);
  EXPECT_TRUE(job.says("a plain store"));
}

TEST(OrderMistakes, SourceOfAPutIsWrittenByACollectiveCall) {
  OrderRig job(2);
  job[0].put_nbi(1, kData, kBytes, kData);
  job[0].enter(job[0].of_team(Call::kAllReduce, 0, kData, kOther, 64));
  EXPECT_TRUE(job.says("block 0, thread 0, all_reduce before it is complete"));
}

TEST(OrderMistakes, SourceIsWrittenBehindAQuietOfAnotherContext) {
  OrderRig job(2);
  job[0].put_nbi(1, kData, kBytes, kData);
  job[0].enter_other(Call::kQuiet).end();
  job[0].get(1, kOther, 8, kData);
  EXPECT_TRUE(job.says("is written by"));
}

TEST(OrderMistakes, SourceIsWrittenBehindAFence) {
  OrderRig job(2);
  job[0].put_nbi(1, kData, kBytes, kData);
  job[0].fence();
  job[0].get(1, kOther, 8, kData);
  EXPECT_TRUE(job.says("is written by"));
}

TEST(OrderMistakes, DestinationOfAGetIsSentBeforeItArrived) {
  OrderRig job(2);
  job[0].get_nbi(1, kData, kBytes, kData);
  job[0].put(1, kOther, 16, kData + 16);
  EXPECT_TRUE(job.says("its destination (byte 4096, 1000 bytes) is read by PE 0: "));
}

TEST(OrderMistakes, DestinationOfAGetIsReadBeforeItArrived) {
  OrderRig job(2);
  job[0].get_nbi(1, kData, kBytes, kData);
  job[0].plain(0, kData + 996, 4, false);
  EXPECT_TRUE(job.says("block 0, thread 0, a plain load before it is complete"));
}

TEST(OrderMistakes, DestinationOfAFetchIsWrittenBeforeItArrived) {
  OrderRig job(2);
  job[0].fetch_nbi(1, kFlag, kData);
  job[0].put(0, kData, 8, kOther);
  EXPECT_TRUE(job.says("is written by"));
}

TEST(OrderMistakes, DestinationOfAGetIsOfferedToAnotherPeBeforeItArrived) {
  OrderRig job(3);
  const CallNote ticket = job[0].get_nbi(1, kData, kBytes, kData);
  job[0].signal(2, kFlag);
  job[2].see(kFlag);
  job[2].get(0, kData, kBytes, kOther);
  job[0].wait(ticket);
  EXPECT_TRUE(job.says("nothing orders the two"));
}

// ---- two PEs, the same bytes

TEST(OrderMistakes, TwoPesPutToTheSameBytes) {
  OrderRig job(3);
  job[0].put(2, kData, kBytes, kData);
  job[1].put(2, kData + kBytes - 1, kBytes, kData);
  EXPECT_TRUE(job.says("PE 1: order_rig.h:"));
  EXPECT_TRUE(job.says("writes 1 bytes of PE 2, byte 5095, that PE 0: order_rig.h:"));
  EXPECT_TRUE(job.says("nothing orders the two"));
  EXPECT_TRUE(job.says("a signal that PE 0 sends"));
}

TEST(OrderMistakes, TwoPesPutTheSameMegabyte) {
  OrderRig job(2);
  job[0].put(1, 0, kHeap / 2, kHeap / 2);
  job[1].put(1, 8, kHeap / 2, kHeap / 2);
  EXPECT_TRUE(job.says("524280 bytes of PE 1, byte 8,"));
}

TEST(OrderMistakes, GetReadsWhatAnotherPuts) {
  OrderRig job(3);
  job[1].put(0, kData, kBytes, kData);
  job[2].get(0, kData, kBytes, kData);
  EXPECT_TRUE(job.says("reads 1000 bytes of PE 0, byte 4096, that PE 1: "));
}

TEST(OrderMistakes, PutOverwritesWhatAnotherStillReads) {
  OrderRig job(2);
  job[0].put_signal(1, kData, kBytes, kData, kFlag);
  job[1].see(kFlag);
  job[1].put(1, kOther, kBytes, kData);  // reads what came
  job[0].put(1, kData, kBytes, kData);   // and has not heard that it was read
  EXPECT_TRUE(job.says("block 0, thread 0, put, writes 1000 bytes"));
  EXPECT_TRUE(job.says("a signal that PE 1 sends"));
}

TEST(OrderMistakes, PlainLoadReadsWhatAnotherPuts) {
  OrderRig job(2);
  job[0].put(1, kData, kBytes, kData);
  job[1].plain(1, kData + 3, 1, false);
  EXPECT_TRUE(job.says("a plain load"));
}

TEST(OrderMistakes, PlainStoresIntoMappedMemoryOverlapAPut) {
  OrderRig job(3);
  job[0].plain(2, kData, 8, true);
  job[1].put(2, kData, kBytes, kData);
  EXPECT_TRUE(job.says("block 0, thread 0, a plain store, writes"));
}

TEST(OrderMistakes, AtomicsMeetAPutToTheirWord) {
  OrderRig job(3);
  job[0].add(2, kFlag);
  job[1].put(2, kFlag - 8, 64, kData);
  EXPECT_TRUE(job.says(", atomic_add"));
}

// ---- words that vouch for nothing, and meetings that say too little

TEST(OrderMistakes, FlagByPWithoutAFence) {
  OrderRig job(2);
  job[0].put(1, kData, kBytes, kData);
  job[0].p(1, kFlag);
  job[1].see(kFlag);
  job[1].put(1, kOther, kBytes, kData);
  EXPECT_TRUE(job.says("PE 0 told of it before it was complete"));
  EXPECT_TRUE(job.says("fence or quiet before the p or atomic"));
}

// Where the reader loads the data itself nothing is said of it, and what is not seen must be known.
TEST(OrderMistakes, AWaitForAFlagWithoutAFenceIsRemembered) {
  OrderRig job(2);
  job[0].put(1, kData, kBytes, kData);
  job[0].fence();
  job[0].p(1, kFlag);
  job[1].see(kFlag);
  EXPECT_EQ(job[1].checker->unordered_wait(), "");
  job[0].put(1, kData, kBytes, kData);
  job[0].p(1, kFlag);
  EXPECT_EQ(job[1].checker->unordered_wait(), "");
  job[1].see(kFlag);
  const std::string told = job[1].checker->unordered_wait();
  EXPECT_NE(told.find("held for a flag of PE 0, whose put before it nothing orders"), told.npos)
      << told;
  EXPECT_TRUE(job.silent());
}

TEST(OrderMistakes, FlagByAnAtomicWithoutAFence) {
  OrderRig job(2);
  job[0].put(1, kData, kBytes, kData);
  job[0].fetch_add(1, kFlag);
  job[1].see(kFlag);
  job[1].plain(1, kData, 4, false);
  EXPECT_TRUE(job.says("PE 0 told of it before it was complete"));
}

/// nvshmemx_signal_op.
TEST(OrderMistakes, FlagByARelaxedSignalWithoutAFence) {
  OrderRig job(2);
  job[0].put(1, kData, kBytes, kData);
  job[0].relaxed_signal(1, kFlag);
  job[1].see(kFlag);
  job[1].plain(1, kData, 4, false);
  EXPECT_TRUE(job.says("PE 0 told of it before it was complete"));
}

TEST(OrderMistakes, FenceAheadOfThePutAndNotBehindIt) {
  OrderRig job(2);
  job[0].fence();
  job[0].put(1, kData, kBytes, kData);
  job[0].p(1, kFlag);
  job[1].see(kFlag);
  job[1].plain(1, kData, 4, false);
  EXPECT_TRUE(job.says("PE 0 told of it before it was complete"));
}

TEST(OrderMistakes, SignalOfOnePeDoesNotVouchForThePutToAnother) {
  OrderRig job(3);
  job[0].put(2, kData, kBytes, kData);
  job[0].signal(1, kFlag);
  job[1].see(kFlag);
  job[1].get(2, kData, kBytes, kOther);
  EXPECT_TRUE(job.says("PE 0 told of it before it was complete"));
}

TEST(OrderMistakes, FenceDoesNotOrderTowardsAThirdPe) {
  OrderRig job(3);
  job[0].put(2, kData, kBytes, kData);
  job[0].fence();
  job[0].p(1, kFlag);
  job[1].see(kFlag);
  job[1].get(2, kData, kBytes, kOther);
  EXPECT_TRUE(job.says("quiet"));
}

TEST(OrderMistakes, WordIsLookedAtInVain) {
  OrderRig job(2);
  job[0].put_signal(1, kData, kBytes, kData, kFlag);
  job[1].look_in_vain(kFlag);
  job[1].plain(1, kData, 4, false);
  EXPECT_TRUE(job.says("nothing orders the two"));
}

TEST(OrderMistakes, SyncAllWhereBarrierAllWasNeeded) {
  OrderRig job(2);
  job[0].put(1, kData, kBytes, kData);
  job.sync_all();
  job[1].put(0, kOther, kBytes, kData);
  EXPECT_TRUE(job.says("barrier_all in place of sync_all"));
}

TEST(OrderMistakes, BarrierOfATeamWithoutTheWriter) {
  OrderRig job(3);
  job[0].put(2, kData, kBytes, kData);
  job.meet(Call::kBarrier, {1, 2}, 77);
  job[2].plain(2, kData, 4, false);
  EXPECT_TRUE(job.says("nothing orders the two"));
}

TEST(OrderMistakes, WriterIsInTheNextBarrierAlready) {
  OrderRig job(2);
  job.barrier_all();
  std::vector<BegunCall> calls;
  calls.push_back(job[0].enter(Call::kBarrierAll));
  calls.push_back(job[1].enter(Call::kBarrierAll));
  calls[0].end();
  job[0].put(1, kData, kBytes, kData);
  job[0].enter(Call::kBarrierAll);  // waits for PE 1
  calls[1].end();
  job[1].plain(1, kData, 4, false);
  EXPECT_TRUE(job.says("nothing orders the two"));
}

// ---- free()

TEST(OrderMistakes, FreeWhileAnotherPeStillPutsThere) {
  OrderRig job(2);
  job[0].put(1, kData, kBytes, kOther);
  job.host_meeting([](RiggedPe& pe) { pe.checker->freed(pe.at(kData), 2048); });
  EXPECT_TRUE(job.says("block 0, thread 0, free(), of PE 1's copy"));
  EXPECT_TRUE(job.says("quiet or barrier_all on PE 0 before free()"));
}

TEST(OrderMistakes, FreeOfTheSourceOfAPut) {
  OrderRig job(2);
  job[0].put_nbi(1, kOther, kBytes, kData);
  job.host_meeting([](RiggedPe& pe) { pe.checker->freed(pe.at(kData), 2048); });
  EXPECT_TRUE(job.says("free()"));
  EXPECT_TRUE(job.says("wait(ticket) or quiet before free()"));
  EXPECT_TRUE(job[1].reports.empty());
}

// ---- what is told

TEST(OrderMistakes, ThePairOfPlacesIsToldOnce) {
  OrderRig job(3);
  for (int i = 0; i < 3; ++i) {
    job[0].put(2, kData, kBytes, kData);
    job[1].put(2, kData, kBytes, kData);
  }
  EXPECT_EQ(job[1].reports.size(), 1u) << job.told();
  EXPECT_LE(job[0].reports.size(), 1u) << job.told();
}

}  // namespace
}  // namespace peal::checking
