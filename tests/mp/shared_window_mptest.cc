// SPDX-License-Identifier: Apache-2.0
//
// Windows of memory that the program shares itself: of another kind on each PE, beginning elsewhere
// in its page and in its file. Peers that map another place of the file would corrupt its
// neighbours.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/atomics.h"
#include "device/collectives.h"
#include "device/rma.h"
#include "device/signal.h"
#include "device/sync.h"
#include "tests/support/error_of.h"
#include "tests/support/job.h"
#include "tests/support/shared_mapping.h"

namespace peal::api_test {
namespace {

constexpr size_t kWords = 3000;
constexpr size_t kBytes = kWords * 8;

/// What PE `pe` shares.
struct Shared {
  explicit Shared(int pe) : mapping(12 * 4096, file_of(pe)), part(mapping.begin() + begin_of(pe)) {}

  static Fd file_of(int pe) {
    if (pe % 3 == 0) return SharedMapping::file_in("/dev/shm");
    return pe % 3 == 1 ? SharedMapping::memfd() : SharedMapping::file_in(testing::TempDir());
  }
  static size_t begin_of(int pe) {
    return 4096 * static_cast<size_t>(pe) + 40 + 8 * static_cast<size_t>(pe);
  }
  uint64_t* words() const { return reinterpret_cast<uint64_t*>(part); }
  bool neighbours_untouched() const {
    const std::byte* const end = mapping.begin() + 12 * 4096;
    const auto zero = [](std::byte byte) { return byte == std::byte{0}; };
    return std::all_of(static_cast<const std::byte*>(mapping.begin()),
                       static_cast<const std::byte*>(part), zero) &&
           std::all_of(static_cast<const std::byte*>(part + kBytes), end, zero);
  }

  SharedMapping mapping;
  std::byte* part;
};

/// Words 0 to 999 go to the next PE's 1000 to 1999 and come back; the last three are words of
/// signals and atomics.
PEAL_KERNEL use_window(Verdict* verdict, Context ctx, uint64_t* part, uint64_t* heap) {
  const int next = (my_pe(ctx) + 1) % n_pes(ctx);
  const auto mine = static_cast<uint64_t>(my_pe(ctx)) + 1;
  expect_ok(verdict, put(ctx, block, part + 1000, part, 1000, next));
  expect_ok(verdict, quiet(ctx, block));
  expect_ok(verdict, get(ctx, block, heap, part + 1000, 1000, next));
  if (thread_in_block() == 0) {
    for (int pe = 0; pe < n_pes(ctx); ++pe) {
      expect_ok(verdict, atomic_add(ctx, part + kWords - 1, mine, pe));
    }
    expect_ok(verdict, atomic_fetch_add(ctx, part + kWords - 2, mine, next).status);
    expect_ok(verdict, signal(ctx, Signal::set(part + kWords - 3, mine, next)));
    expect_ok(verdict, quiet(ctx));
  }
  expect_ok(verdict, barrier_all(ctx, block));
}

PEAL_KERNEL broadcast_part(Verdict* verdict, Context ctx, Team team, uint64_t* part, int root) {
  expect_ok(verdict, broadcast(ctx, block, team, part + 1000, part, 1000, root));
}

/// Members hand on what they fetched, in units that fit parts which begin elsewhere at each.
TEST(SharedWindow, ALongBroadcastReachesThePartOfEachPe) {
  on_every_pe([](Runtime& pe) {
    const Shared shared(pe.my_pe());
    fill(shared.words(), 8000, static_cast<uint64_t>(pe.my_pe()));
    const WindowHandle window = pe.register_window(shared.part, kBytes);
    const int root = pe.n_pes() - 1;
    run_clean(pe, {.blocks = 1, .threads = 32}, broadcast_part, pe.context(), pe.world(),
              shared.words(), root);
    EXPECT_EQ(first_difference(shared.words() + 1000, 8000, static_cast<uint64_t>(root)), 8000u);
    EXPECT_TRUE(shared.neighbours_untouched());
    pe.unregister_window(window);
  });
}

TEST(SharedWindow, TransfersReachThePartOfEachPe) {
  on_every_pe([](Runtime& pe) {
    const Shared shared(pe.my_pe());
    const auto n = static_cast<uint64_t>(pe.n_pes());
    const auto me = static_cast<uint64_t>(pe.my_pe());
    const uint64_t before = (me + n - 1) % n;
    fill(shared.words(), 8000, me);
    const WindowHandle window = pe.register_window(shared.part, kBytes);
    Symmetric<uint64_t> heap(pe, 1000);
    run_clean(pe, {.blocks = 1, .threads = 32}, use_window, pe.context(), shared.words(),
              heap.data());
    EXPECT_EQ(first_difference(shared.words() + 1000, 8000, before), 8000u);
    EXPECT_EQ(first_difference(heap.data(), 8000, me), 8000u);
    EXPECT_EQ(shared.words()[kWords - 1], n * (n + 1) / 2);
    EXPECT_EQ(shared.words()[kWords - 2], before + 1);
    EXPECT_EQ(shared.words()[kWords - 3], before + 1);
    EXPECT_TRUE(shared.neighbours_untouched());
    pe.barrier();
    pe.unregister_window(window);
  });
}

TEST(SharedWindow, HandleAndHostReachIt) {
  on_every_pe([](Runtime& pe) {
    const Shared shared(pe.my_pe());
    const WindowHandle window = pe.register_window(shared.part, kBytes);
    const int next = (pe.my_pe() + 1) % pe.n_pes();
    Symmetric<uint64_t> source(pe, 1);
    source[0] = 100 + static_cast<uint64_t>(pe.my_pe());
    pe.host().put(window.at<uint64_t>(kBytes - 8), source.data(), 1, next);
    pe.barrier();
    EXPECT_EQ(pe.host().g(window.at<uint64_t>(kBytes - 8), next), source[0]);
    EXPECT_EQ(pe.ptr(shared.part, next) != nullptr, without_nic(pe) || pe.n_pes() == 1);
    EXPECT_TRUE(shared.neighbours_untouched());
    pe.barrier();
    pe.unregister_window(window);
  });
}

// Its memory may go at once, and its descriptor: the next window of that address is another file.
TEST(SharedWindow, EndsAndItsMemoryMayBeGivenBack) {
  on_every_pe([](Runtime& pe) {
    Symmetric<uint64_t> heap(pe, 1000);
    for (int round = 0; round < 20; ++round) {
      const Shared shared(pe.my_pe() + round % 4);
      fill(shared.words(), 8000, static_cast<uint64_t>(round));
      const WindowHandle window = pe.register_window(shared.part, kBytes);
      run_clean(pe, {.blocks = 1, .threads = 32}, use_window, pe.context(), shared.words(),
                heap.data());
      EXPECT_EQ(first_difference(heap.data(), 8000, static_cast<uint64_t>(round)), 8000u);
      pe.barrier();
      pe.unregister_window(window);
    }
  });
}

// What one PE has wrong, all are told.
TEST(SharedWindow, ReasonOfOnePeReachesAll) {
  on_every_pe([](Runtime& pe) {
    if (can_share_any_memory(pe)) GTEST_SKIP() << "the NIC takes any memory";
    const Shared shared(pe.my_pe());
    const int last = pe.n_pes() - 1;
    const off_t size = pe.my_pe() == last ? 4096 : 12 * 4096;
    ASSERT_EQ(::ftruncate(shared.mapping.file().get(), size), 0);
    expect_error(error_of([&] { pe.register_window(shared.part, kBytes); }),
                 ErrorCode::kUnsupported,
                 {"PE " + std::to_string(last) + " is reached by loads and stores",
                  "it ends at byte ", "which has 4096", "ftruncate"});
    Symmetric<uint64_t> box(pe, 1);  // the job goes on
    EXPECT_EQ(box[0], 0u);
  });
}

}  // namespace
}  // namespace peal::api_test
