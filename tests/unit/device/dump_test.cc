// SPDX-License-Identifier: Apache-2.0
//
// Fetches whose completion does not vouch for their data: into memory of the host while completions
// come to the GPU, or into a GPU that shows a NIC's writes in no order. Fails at 438a779: the READ
// was the last WQE, its CQE the answer, and the data might still be on its way. Now a DUMP of the
// destination follows, fenced, and what callers wait for is the DUMP.
#include <cstring>

#include "device/atomics.h"
#include "device/rma.h"
#include "device/sync.h"
#include "gtest/gtest.h"
#include "tests/support/device_rig.h"

namespace peal {
namespace {

using namespace testing;

constexpr uint32_t kLkey = 0x51525354;
constexpr size_t kBytes = 64;

/// A PE with a window of its own, `dumped` as the host says of it.
struct WithWindow {
  explicit WithWindow(uint16_t dumped) {
    Window window{memory, sizeof memory, {mlx5::key(kLkey)}, nullptr, nullptr, nullptr};
    window.dumped = dumped;
    rig.windows().window[1] = window;
    rig.windows().count = 2;
    rig.nic(1).know(kLkey, memory);
    std::memset(rig.heap_of(1) + kSource, 7, kBytes);
  }
  DeviceRig rig;
  std::byte memory[4 * kBytes] = {};
};

TEST(Dump, FollowsAGetIntoMemoryThatItsCompletionDoesNotVouchFor) {
  WithWindow pe(1);
  const Ticket ticket =
      get_nbi(pe.rig.context(), pe.memory + kBytes, pe.rig.heap() + kSource, kBytes, 1);
  pe.rig.step_all();
  ASSERT_EQ(opcodes(pe.rig), (Ops{kRead, kDump}));
  const SeenWqe& dump = pe.rig.nic(1).seen()[1];
  // Index 1, two segments, CQE always, fence: after all READs before it; one byte of the target.
  EXPECT_EQ(dump.text(), "00000123 abc00102 00000048 00000000 00000001 51525354 00000000 00000040");
  EXPECT_EQ(ticket.index, 1u) << "what is waited for";
  EXPECT_EQ(ticket.status, Status::kOk);
  EXPECT_EQ(pe.memory[kBytes], std::byte{7});
}

TEST(Dump, IsNotPostedWhereTheCompletionVouches) {
  WithWindow pe(0);
  {
    const NicThread nics(pe.rig);
    const Context ctx = pe.rig.context();
    EXPECT_EQ(get(ctx, pe.memory, pe.rig.heap() + kSource, kBytes, 1), Status::kOk);
    EXPECT_EQ(get(ctx, pe.rig.heap() + kTarget, pe.rig.heap() + kSource, kBytes, 1), Status::kOk);
    EXPECT_EQ(g(ctx, reinterpret_cast<uint64_t*>(pe.rig.heap() + kSource), 1).status, Status::kOk);
  }
  EXPECT_EQ(opcodes(pe.rig), (Ops{kRead, kRead, kRead}));
}

TEST(Dump, FollowsEveryFetchOfAGpuThatShowsWritesInNoOrder) {
  DeviceRig rig;
  rig.windows().window[0].dumped = 1;
  auto* const word = reinterpret_cast<uint64_t*>(rig.heap() + kSource);
  *rig.remote<uint64_t>(1, kSource) = 5;
  {
    const NicThread nics(rig);
    const Context ctx = rig.context();
    EXPECT_EQ(g(ctx, word, 1).value, 5u);
    EXPECT_EQ(atomic_fetch_add(ctx, word, 2, 1).value, 5u);
    EXPECT_EQ(get(ctx, word, word, 1, 1), Status::kOk);
    EXPECT_EQ(*word, 7u);
    EXPECT_EQ(put(ctx, word, word, 1, 1), Status::kOk);
    EXPECT_EQ(atomic_add(ctx, word, 1, 1), Status::kOk);
    EXPECT_EQ(quiet(ctx), Status::kOk);
  }
  EXPECT_EQ(opcodes(rig), (Ops{kRead, kDump, kFetchAdd, kDump, kRead, kDump, kWrite, kFetchAdd}))
      << "behind what is fetched, and nothing else";
  // It reads a landing cell where the value lands in one.
  EXPECT_EQ(rig.nic(1).seen()[1].lkey(), rig.nic(1).seen()[0].lkey());
  EXPECT_EQ(rig.nic(1).seen()[1].local_address(), rig.nic(1).seen()[0].local_address());
  EXPECT_EQ(rig.complaints(), "");
}

PEAL_KERNEL get_8_each(Context ctx, std::byte* to, std::byte* from) {
  (void)get_nbi(ctx, to + 8 * thread_in_block(), from + 8 * thread_in_block(), 8, 1);
}

TEST(Dump, IsPostedByLanesTogether) {
  WithWindow pe(1);
  launch({.blocks = 1, .threads = 4}, get_8_each, pe.rig.context(), pe.memory,
         pe.rig.heap() + kSource)
      .wait();
  pe.rig.step_all();
  EXPECT_EQ(opcodes(pe.rig), (Ops{kRead, kRead, kRead, kRead, kDump, kDump, kDump, kDump}));
  EXPECT_EQ(pe.memory[31], std::byte{7});
}

TEST(Dump, IsNotPostedBehindAFetchThatWasNot) {
  WithWindow pe(1);
  pe.rig.stop(Status::kAborted);
  pe.rig.queue(1).completed = pe.rig.queue(1).reserved - kUnconnected;
  uint32_t wish = 0;
  pe.rig.queue(1).request = &wish;
  const Ticket ticket = get_nbi(pe.rig.context(), pe.memory, pe.rig.heap() + kSource, kBytes, 1);
  EXPECT_EQ(ticket.status, Status::kAborted);
  pe.rig.step_all();
  EXPECT_EQ(opcodes(pe.rig), (Ops{}));
}

}  // namespace
}  // namespace peal
