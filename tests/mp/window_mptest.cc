// SPDX-License-Identifier: Apache-2.0
//
// Memory that transfers may name beside the heap: windows of all PEs, local registrations, short
// sources on the stack; and the pointer to a peer's copy.
#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

#include "device/rma.h"
#include "tests/support/job.h"

namespace peal::api_test {
namespace {

PEAL_KERNEL ask_ptr(Verdict* verdict, Context ctx, uint64_t* box, bool direct) {
  expect(verdict, ptr(ctx, box, my_pe(ctx)) == box);
  expect(verdict, ptr(ctx, box, -1) == nullptr);
  expect(verdict, ptr(ctx, box, n_pes(ctx)) == nullptr);
  for (int pe = 0; pe < n_pes(ctx); ++pe) {
    if (pe == my_pe(ctx)) continue;
    uint64_t* const there = ptr(ctx, box, pe);
    expect(verdict, (there != nullptr) == direct);
    if (direct) expect_eq(verdict, *there, static_cast<uint64_t>(pe));
  }
}

TEST(Window, PtrAnswersForPeersThatAreReachedDirectly) {
  on_every_pe([](Runtime& pe) {
    Symmetric<uint64_t> box(pe, 1);
    box[0] = static_cast<uint64_t>(pe.my_pe());
    pe.barrier();
    run_clean(pe, {}, ask_ptr, pe.context(), box.data(), without_nic(pe));
    pe.barrier();
  });
}

// Data far below the queue's own registration: small sources need no window.
PEAL_KERNEL put_from_stack(Verdict* verdict, Context ctx, uint32_t* to, int peer) {
  const uint32_t seven[7] = {1, 2, 3, 4, 5, 6, 7};
  expect_ok(verdict, put(ctx, to, seven, 7, peer));
  expect_ok(verdict, quiet(ctx));
}

TEST(Window, UpTo28BytesTravelFromUnregisteredMemory) {
  on_every_pe([](Runtime& pe) {
    Symmetric<uint32_t> to(pe, 8);
    run_clean(pe, {}, put_from_stack, pe.context(), to.data(), (pe.my_pe() + 1) % pe.n_pes());
    pe.barrier();
    for (uint32_t i = 0; i < 7; ++i) EXPECT_EQ(to[i], i + 1);
    EXPECT_EQ(to[7], 0u);
    pe.barrier();
  });
}

// The same registered memory must serve several tests of one Runtime: it stays until its end.
std::byte* kept(size_t bytes, size_t in_page) {
  static std::vector<std::vector<std::byte>> all;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  auto& memory = all.emplace_back(bytes + 2 * 4096);
  const auto page = (reinterpret_cast<uintptr_t>(memory.data()) + 4095) / 4096 * 4096;
  return memory.data() + (page + in_page - reinterpret_cast<uintptr_t>(memory.data()));
}

PEAL_KERNEL exchange_windows(Verdict* verdict, Context ctx, std::byte* window, std::byte* heap,
                             size_t bytes, int peer) {
  // Into the peer's window from here, out of it into the heap, and heap to window.
  expect_ok(verdict,
            put<Reach::kGpu, Block, void>(ctx, block, window + bytes, window, bytes, peer));
  expect_ok(verdict, quiet(ctx, block));
  expect_ok(verdict, get<Reach::kGpu, Block, void>(ctx, block, heap, window + bytes, bytes, peer));
  expect_ok(verdict,
            put<Reach::kGpu, Block, void>(ctx, block, window + 2 * bytes, heap, bytes, peer));
  expect_ok(verdict, quiet(ctx, block));
}

TEST(Window, UserBufferIsAWindowWhereverEachPeHasIt) {
  on_every_pe([](Runtime& pe) {
    if (!can_share_any_memory(pe)) GTEST_SKIP() << "see the last test";
    constexpr size_t kBytes = 10'007;
    std::byte* const window = kept(3 * kBytes, 48);
    const auto me = static_cast<uint64_t>(pe.my_pe());
    fill(window, kBytes, me);
    pe.register_window(window, 3 * kBytes);
    Symmetric<std::byte> heap(pe, kBytes);
    run_clean(pe, {.blocks = 1, .threads = 64}, exchange_windows, pe.context(), window, heap.data(),
              kBytes, (pe.my_pe() + 1) % pe.n_pes());
    pe.barrier();
    const auto n = static_cast<uint64_t>(pe.n_pes());
    EXPECT_EQ(first_difference(heap.data(), kBytes, me), kBytes);
    EXPECT_EQ(first_difference(window + kBytes, kBytes, (me + n - 1) % n), kBytes);
    EXPECT_EQ(first_difference(window + 2 * kBytes, kBytes, (me + n - 1) % n), kBytes);
    pe.barrier();
  });
}

PEAL_KERNEL use_local(Verdict* verdict, Context ctx, std::byte* mine, std::byte* heap, size_t bytes,
                      int peer) {
  expect_ok(verdict, put<Reach::kGpu, Warp, void>(ctx, warp, heap, mine, bytes, peer));
  expect_ok(verdict, quiet(ctx, warp));
  expect_ok(verdict, get<Reach::kGpu, Warp, void>(ctx, warp, mine + bytes, heap, bytes, peer));
}

TEST(Window, LocalRegistrationServesAsSourceAndDestination) {
  on_every_pe([](Runtime& pe) {
    constexpr size_t kBytes = 70'001;
    std::byte* const mine = kept(2 * kBytes, 3);
    fill(mine, kBytes, static_cast<uint64_t>(pe.my_pe()));
    pe.register_local(mine, 2 * kBytes);
    Symmetric<std::byte> heap(pe, kBytes);
    run_clean(pe, {.blocks = 1, .threads = 32}, use_local, pe.context(), mine, heap.data(), kBytes,
              (pe.my_pe() + 1) % pe.n_pes());
    EXPECT_EQ(first_difference(mine + kBytes, kBytes, static_cast<uint64_t>(pe.my_pe())), kBytes);
    pe.barrier();
  });
}

TEST(Window, LocalRegistrationDoesNotHideAWindowOfTheSameMemory) {
  on_every_pe([](Runtime& pe) {
    if (!can_share_any_memory(pe)) GTEST_SKIP() << "see the last test";
    constexpr size_t kBytes = 4096;
    std::byte* const window = kept(3 * kBytes, 0);
    fill(window, kBytes, static_cast<uint64_t>(pe.my_pe()));
    pe.register_local(window, 3 * kBytes);
    pe.register_window(window, 3 * kBytes);
    Symmetric<std::byte> heap(pe, kBytes);
    run_clean(pe, {.blocks = 1, .threads = 32}, exchange_windows, pe.context(), window, heap.data(),
              kBytes, (pe.my_pe() + 1) % pe.n_pes());
    EXPECT_EQ(first_difference(heap.data(), kBytes, static_cast<uint64_t>(pe.my_pe())), kBytes);
    pe.barrier();
  });
}

TEST(Window, CopyInAndCopyOutReachThisPesSymmetricMemory) {
  on_every_pe([](Runtime& pe) {
    Symmetric<uint64_t> box(pe, 4);
    const uint64_t in[4] = {1, 2, 3, 4};
    uint64_t out[4] = {};
    pe.copy_in(box.data(), in, sizeof(in));
    pe.copy_out(out, box.data(), sizeof(out));
    EXPECT_TRUE(std::equal(std::begin(in), std::end(in), std::begin(out)));
  });
}

TEST(Window, MemoryThatPeersCannotReachIsRefused) {
  on_every_pe([](Runtime& pe) {
    if (can_share_any_memory(pe)) GTEST_SKIP() << "they can";
    try {
      pe.register_window(kept(4096, 0), 4096);
      ADD_FAILURE() << "not refused";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
      EXPECT_NE(std::string(error.what()).find("cannot be mapped: memory that its process"),
                std::string::npos)
          << error.what();
    }
    Symmetric<uint64_t> box(pe, 1);  // the others were told too: the job goes on
    EXPECT_EQ(box[0], 0u);
  });
}

}  // namespace
}  // namespace peal::api_test

int main(int argc, char** argv) { return peal::api_test::run_tests(argc, argv); }
