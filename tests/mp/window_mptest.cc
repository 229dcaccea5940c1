// SPDX-License-Identifier: Apache-2.0
//
// Memory that transfers may name beside the heap: windows of all PEs, local registrations, short
// sources on the stack; the pointer to a peer's copy; and lengths that no memory has, or none.
#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/batch.h"
#include "device/rma.h"
#include "device/signal.h"
#include "device/sync.h"
#include "device/wait.h"
#include "tests/support/error_of.h"
#include "tests/support/job.h"
#include "tests/support/shared_mapping.h"

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
// It is shared where only such can be a window.
std::byte* kept(const Runtime& pe, size_t bytes, size_t in_page) {
  static std::vector<std::vector<std::byte>> all;
  static std::vector<std::unique_ptr<SharedMapping>> shared;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (!can_share_any_memory(pe)) {
    const size_t size = bytes + 4096;
    shared.push_back(std::make_unique<SharedMapping>(size, SharedMapping::memfd()));
    return shared.back()->begin() + in_page;
  }
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
    constexpr size_t kBytes = 10'007;
    std::byte* const window = kept(pe, 3 * kBytes, 48);
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
    std::byte* const mine = kept(pe, 2 * kBytes, 3);
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
    constexpr size_t kBytes = 4096;
    std::byte* const window = kept(pe, 3 * kBytes, 0);
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

/// Where each PE has its part: at another byte of a page, and of another size.
struct Uneven {
  static size_t in_page(int pe) { return 16 + 8 * static_cast<size_t>(pe); }
  static size_t words(int pe) { return 100 + 50 * static_cast<size_t>(pe); }
};

PEAL_KERNEL fill_part(Verdict* verdict, Context ctx, WindowHandle window, uint64_t* heap,
                      uint64_t words, int peer) {
  // All of the peer's part but its last word, which is a signal's, and a word by p.
  const uint64_t most = words - 2;
  expect_ok(verdict, put(ctx, block, window.at<uint64_t>(), heap, most, peer));
  if (thread_in_block() == 0) {
    expect_ok(verdict, p(ctx, window.at<uint64_t>() + most, uint64_t{77}, peer));
  }
  expect_ok(verdict, fence(ctx, block));
  if (thread_in_block() == 0) {
    expect_ok(verdict, signal(ctx, Signal::set(window.at<uint64_t>(8 * (words - 1)), 9, peer)));
    const auto beyond = window.at<uint64_t>(8 * words);
    expect(verdict, p(ctx, beyond, uint64_t{1}, peer) == Status::kNotSymmetric);
  }
}

PEAL_KERNEL await_part(Verdict* verdict, Context ctx, uint64_t* part, uint64_t words) {
  expect_ok(verdict, wait_until(ctx, part + words - 1, Compare::kEq, uint64_t{9}));
  expect(verdict, part[words - 2] == 77);
}

TEST(Window, HandleReachesPartsOfAnySize) {
  on_every_pe([](Runtime& pe) {
    const int peer = (pe.my_pe() + 1) % pe.n_pes();
    const size_t mine = Uneven::words(pe.my_pe());
    auto* const part = reinterpret_cast<uint64_t*>(kept(pe, 8 * mine, Uneven::in_page(pe.my_pe())));
    const WindowHandle window = pe.register_window(part, 8 * mine, {.any_size = true});
    Symmetric<uint64_t> heap(pe, 1000);
    for (size_t i = 0; i < 1000; ++i) heap[i] = i * 1000 + static_cast<uint64_t>(pe.my_pe());
    const OwnedContext<Reach::kGpu> apart = pe.make_context();  // whose usage error is expected
    run({.blocks = 1, .threads = 32}, fill_part, apart.value(), window, heap.data(),
        Uneven::words(peer), peer);
    run({}, await_part, pe.context(), part, mine);
    const int n = pe.n_pes();
    const auto from = static_cast<uint64_t>((pe.my_pe() + n - 1) % n);
    for (size_t i = 0; i < mine - 2; ++i) ASSERT_EQ(part[i], i * 1000 + from);
    static_cast<void>(pe.failure());  // asked for, while its context is there
    pe.barrier();
    pe.unregister_window(window);
  });
}

TEST(Window, EndsAndItsMemoryMayBeGivenBack) {
  on_every_pe([](Runtime& pe) {
    if (!can_share_any_memory(pe)) GTEST_SKIP() << "shared_window_mptest has it";
    constexpr size_t kBytes = 4096;
    Symmetric<std::byte> heap(pe, kBytes);
    for (int round = 0; round < 20; ++round) {
      std::vector<std::byte> memory(3 * kBytes + 64);
      std::byte* const window = memory.data() + 7 * (pe.my_pe() + round) % 64;
      fill(window, kBytes, static_cast<uint64_t>(pe.my_pe() + round));
      pe.register_window(window, 3 * kBytes);
      run_clean(pe, {.blocks = 1, .threads = 32}, exchange_windows, pe.context(), window,
                heap.data(), kBytes, (pe.my_pe() + 1) % pe.n_pes());
      EXPECT_EQ(first_difference(heap.data(), kBytes, static_cast<uint64_t>(pe.my_pe() + round)),
                kBytes);
      pe.barrier();
      pe.unregister_window(window);
    }
  });
}

TEST(Window, IsFoundAmongAThousand) {
  on_every_pe([](Runtime& pe) {
    constexpr size_t kBytes = 24;
    constexpr size_t kWindows = 1000;
    std::byte* const memory = kept(pe, kWindows * kBytes, 8);
    std::vector<WindowHandle> windows;
    for (size_t i = 0; i < kWindows; ++i) {
      windows.push_back(pe.register_window(memory + i * kBytes, kBytes));
    }
    Symmetric<std::byte> heap(pe, 8);
    for (const size_t i : {size_t{0}, size_t{1}, kWindows / 2, kWindows - 1}) {
      std::byte* const window = memory + i * kBytes;
      fill(window, 8, static_cast<uint64_t>(pe.my_pe()) + i);
      run_clean(pe, {.blocks = 1, .threads = 32}, exchange_windows, pe.context(), window,
                heap.data(), 8, (pe.my_pe() + 1) % pe.n_pes());
      EXPECT_EQ(first_difference(heap.data(), 8, static_cast<uint64_t>(pe.my_pe()) + i), 8u);
      pe.barrier();
    }
    for (const WindowHandle& window : windows) pe.unregister_window(window);
  });
}

TEST(Window, LocalRegistrationEnds) {
  on_every_pe([](Runtime& pe) {
    std::vector<std::byte> memory(70'000);
    pe.register_local(memory.data(), memory.size());
    pe.unregister_local(memory.data());
    try {
      pe.unregister_local(memory.data());
      ADD_FAILURE() << "not refused";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    }
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

// Hazard: null was a crash, and a copy that was longer than its block took its neighbours along
// without a word.
TEST(Window, CopiesStayWithinOneBlockOrWindow) {
  on_every_pe([](Runtime& pe) {
    Symmetric<uint64_t> box(pe, 4);
    Symmetric<uint64_t> beside(pe, 4);
    std::vector<uint64_t> host(64, 7), own(4);
    const auto refuses = [&](const char* part, auto call) {
      expect_error(error_of(call), ErrorCode::kInvalidArgument, {part});
    };
    refuses("copy_in: the host's memory is null", [&] { pe.copy_in(box.data(), nullptr, 8); });
    refuses("copy_out: the host's memory is null", [&] { pe.copy_out(nullptr, box.data(), 8); });
    const char* const nowhere = "lie in no block of the heap and in no window";
    refuses(nowhere, [&] { pe.copy_in(nullptr, host.data(), 8); });
    refuses(nowhere, [&] { pe.copy_out(host.data(), own.data(), 8); });
    refuses("leave the block of 32 bytes", [&] { pe.copy_out(host.data(), box.data(), 33); });
    refuses("leave the block of 32 bytes", [&] { pe.copy_in(box.data() + 3, host.data(), 16); });
    refuses("leave the block of 32 bytes", [&] { pe.copy_in(box.data() + 4, host.data(), 8); });
    refuses("leave the block of 32 bytes", [&] { pe.copy_out(own.data(), box.data(), SIZE_MAX); });
    refuses("leave the block of 32 bytes", [&] { pe.save("/dev/null", box.data(), 40); });
    pe.copy_in(nullptr, nullptr, 0);
    pe.copy_out(nullptr, box.data(), 0);
    EXPECT_EQ(beside[0], 0u);
    pe.register_local(own.data(), 32);
    pe.copy_in(own.data() + 1, host.data(), 24);
    EXPECT_EQ(own[3], 7u);
    refuses(nowhere, [&] { pe.copy_in(own.data() + 1, host.data(), 32); });
    pe.unregister_local(own.data());
  });
}

TEST(Window, MemoryThatPeersCannotReachIsRefused) {
  on_every_pe([](Runtime& pe) {
    if (can_share_any_memory(pe)) GTEST_SKIP() << "they can";
    try {
      std::vector<std::byte> mine(4096);
      pe.register_window(mine.data(), mine.size());
      ADD_FAILURE() << "not refused";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
      EXPECT_NE(std::string(error.what()).find("4096 bytes cannot be mapped: private memory ("),
                std::string::npos)
          << error.what();
    }
    Symmetric<uint64_t> box(pe, 1);  // the others were told too: the job goes on
    EXPECT_EQ(box[0], 0u);
  });
}

/// Counts whose bytes 64 bits do not hold: each is 16 bytes in what they do hold.
template <class S>
PEAL_KERNEL wrapped(Verdict* verdict, Context ctx, S scope, uint64_t* to, uint64_t* from, int pe) {
  constexpr size_t kWraps = (size_t{1} << 61) + 2;
  constexpr auto kFar = ptrdiff_t{1} << 61;
  const auto refused = [&](Status status, unsigned line = __builtin_LINE()) {
    expect_eq(verdict, static_cast<unsigned>(status), static_cast<unsigned>(Status::kNotSymmetric),
              line);
  };
  refused(put(ctx, scope, to, from, kWraps, pe));
  refused(get(ctx, scope, to, from, kWraps, pe));
  refused(put_nbi(ctx, scope, to, from, kWraps, pe).status);
  refused(get_nbi(ctx, scope, to, from, kWraps, pe).status);
  refused(put(ctx, scope, to, from, ~size_t{0}, pe));
  refused(put_signal(ctx, scope, to, from, kWraps, Signal::set(to, 1, pe)));
  refused(iput(ctx, scope, to, from, {.dst = 1, .src = 1}, kWraps, pe));
  refused(iput(ctx, scope, to, from, {.dst = kFar + 1, .src = 1}, 2, pe));
  refused(iput(ctx, scope, to, from, {.dst = 1, .src = kFar + 1}, 2, pe));
  refused(iput(ctx, scope, to, from, {.dst = 1, .src = kFar / 2}, 9, pe));
  refused(iget(ctx, scope, to, from, {.dst = -kFar - 1, .src = 1}, 2, pe));
  refused(put(ctx, scope, to, from, Tile{2, kWraps, {2, 2}}, pe));
  refused(put(ctx, scope, to, from, Tile{kWraps, 2, {2, 2}}, pe));
  refused(get(ctx, scope, to, from, Tile{kWraps / 2, 4, {4, 4}}, pe));
  Batch batch(ctx);
  refused(batch.put_nbi(scope, to, from, kWraps, pe).status);
  refused(batch.get_nbi(scope, to, from, kWraps, pe).status);
  refused(batch.put_signal_nbi(scope, to, from, kWraps, Signal::set(to, 1, pe)).status);
  expect_ok(verdict, put(ctx, scope, to + 2, from, 2, pe));  // what is right still goes
  refused(quiet(ctx, scope));                                // which it tells again
}

/// A call of no elements asks nothing of its arguments, not even an address.
template <class S>
PEAL_KERNEL nothing(Verdict* verdict, Context ctx, S scope, uint64_t* words, int pe) {
  for (uint64_t* const at : {static_cast<uint64_t*>(nullptr), words}) {
    expect_ok(verdict, put(ctx, scope, at, at, 0, pe));
    expect_ok(verdict, get(ctx, scope, at, at, 0, pe));
    expect_ok(verdict, wait(ctx, scope, put_nbi(ctx, scope, at, at, 0, pe)));
    expect_ok(verdict, wait(ctx, scope, get_nbi(ctx, scope, at, at, 0, pe)));
    expect_ok(verdict, iput(ctx, scope, at, at, {.dst = 1, .src = 1}, 0, pe));
    expect_ok(verdict, iget(ctx, scope, at, at, {.dst = 3, .src = -5}, 0, pe));
    expect_ok(verdict, put(ctx, scope, at, at, Tile{0, 4, {1, 1}}, pe));
    expect_ok(verdict, get(ctx, scope, at, at, Tile{4, 0, {1, 1}}, pe));
    Batch batch(ctx);
    expect_ok(verdict, batch.put_nbi(scope, at, at, 0, pe).status);
    expect_ok(verdict, batch.get_nbi(scope, at, at, 0, pe).status);
  }
  // A signal is sent all the same.
  if (scope.rank() == 0) words[1] = 0;
  expect_ok(verdict, put_signal(ctx, scope, static_cast<uint64_t*>(nullptr), nullptr, 0,
                                Signal::add(words, 1, pe)));
  expect_ok(verdict, quiet(ctx, scope));
}

template <class S>
void run_lengths(Runtime& pe, S scope, uint32_t threads) {
  Symmetric<uint64_t> words(pe, 8);
  const int peer = (pe.my_pe() + 1) % pe.n_pes();
  const Grid grid{.blocks = 1, .threads = threads};
  run_clean(pe, grid, nothing<S>, pe.context(), scope, words.data(), peer);
  pe.barrier();
  EXPECT_EQ(words[0], 1u);
  for (size_t i = 2; i < 8; ++i) EXPECT_EQ(words[i], 0u);
  words[4] = words[5] = 7;
  pe.barrier();
  const auto spoilt = pe.make_context();
  run(grid, wrapped<S>, spoilt.value(), scope, words.data(), words.data() + 4, peer);
  EXPECT_NE(pe.failure().text.find("more bytes than there are addresses"), std::string::npos)
      << pe.failure().text;
  pe.barrier();
  EXPECT_EQ(words[0], 1u);  // of what was refused nothing moved
  EXPECT_EQ(words[2], 7u);
}

TEST(Lengths, ThatWrapAreRefusedAndNoneAsksNothing) {
  on_every_pe([](Runtime& pe) {
    run_lengths(pe, thread, 1);
    run_lengths(pe, warp, 32);
    run_lengths(pe, block, 64);
  });
}

}  // namespace
}  // namespace peal::api_test
