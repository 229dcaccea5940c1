// SPDX-License-Identifier: Apache-2.0
//
// Collective calls by each scope, in teams of several shapes, of every type with every operation.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "simt/lanes/launch.h"
#include "tests/support/collective_cases.h"
#include "tests/support/job.h"

namespace peal::api_test {
namespace {

const TeamOptions kSmall{.contexts = 1, .blocks = 4, .workspace = 4096};

template <class S>
class CollectivesBy : public testing::Test {};
using Scopes = testing::Types<Thread, Warp, Block, WholeGrid>;
TYPED_TEST_SUITE(CollectivesBy, Scopes);

template <class S, class Op, class T>
void run_in(Runtime& pe, const Team& team) {
  EXPECT_EQ((run_sizes<S, Op, T>(pe, team, grid_for<S>())), "");
  pe.check();
  pe.free_team(team);
}

TYPED_TEST(CollectivesBy, AllPes) {
  on_every_pe([](Runtime& pe) {
    run_in<TypeParam, op::Sum, int32_t>(pe, pe.split_team(pe.world(), 0, 0, kSmall));
  });
}

TYPED_TEST(CollectivesBy, OddAndEvenPes) {
  on_every_pe([](Runtime& pe) {
    run_in<TypeParam, op::Max, double>(
        pe, pe.split_team(pe.world(), pe.my_pe() % 2, -pe.my_pe(), kSmall));
  });
}

// A team whose PEs are not evenly spaced, beside others of one.
TYPED_TEST(CollectivesBy, AllButOne) {
  on_every_pe([](Runtime& pe) {
    const int color = pe.my_pe() == 1 ? 1 : 0;
    run_in<TypeParam, op::Min, Half>(pe, pe.split_team(pe.world(), color, 0, kSmall));
  });
}

template <class S>
PEAL_KERNEL broadcast_bytes(Context ctx, S scope, Team team, uint8_t* dst, const uint8_t* src,
                            size_t bytes, int root, Status* answer) {
  const Status status = broadcast(ctx, scope, team, dst, src, bytes, root);
  if (status != Status::kOk) *answer = status;
}

/// Long ones, whose parts the members that are not the root hand on: in units that fit all of them.
TYPED_TEST(CollectivesBy, ABroadcastMayBeginAtAnyByte) {
  on_every_pe([](Runtime& pe) {
    constexpr size_t kBytes = 5003;
    constexpr size_t kRoom = kBytes + 32;
    const Team team = pe.split_team(pe.world(), 0, 0, kSmall);
    auto* const dst = pe.allocate<uint8_t>(kRoom);
    auto* const src = pe.allocate<uint8_t>(kRoom);
    auto* const answer = pe.allocate<Status>(1);
    const std::pair<size_t, size_t> places[] = {{16, 0}, {1, 1}, {0, 3}, {4, 4}, {8, 4}};
    int root = 0;
    for (const auto& [to, from] : places) {
      for (size_t i = 0; i < kRoom; ++i) src[i] = static_cast<uint8_t>(i * 7 + to + from + 1);
      if (pe.my_pe() != root) std::fill_n(src, kRoom, uint8_t{0});
      std::fill_n(dst, kRoom, uint8_t{0});
      launch(grid_for<TypeParam>(), broadcast_bytes<TypeParam>, pe.context(), TypeParam{}, team,
             dst + to, src + from, kBytes, root, answer)
          .wait();
      ASSERT_EQ(*answer, Status::kOk);
      for (size_t i = 0; i < kRoom; ++i) {
        const bool within = i >= to && i < to + kBytes;
        const auto sent = static_cast<uint8_t>((i - to + from) * 7 + to + from + 1);
        ASSERT_EQ(dst[i], within ? sent : 0) << i << " of a broadcast to " << to << " by " << root;
      }
      pe.barrier();
      root = (root + 1) % pe.n_pes();
    }
    pe.free_team(team);
  });
}

/// Member i sends (i + j) % 5 elements to member j, whose block begins at 8 * i there.
int count_of(int from, int to) { return (from + to) % 5; }

template <class S>
PEAL_KERNEL uneven(Verdict* verdict, Context ctx, S scope, Team team, uint64_t* dst, uint64_t* src,
                   Blocks<int> received, Blocks<int> sent, Status wanted) {
  const Status status = all_to_all_v(ctx, scope, team, dst, received, src, sent);
  expect_eq(verdict, static_cast<unsigned>(status), static_cast<unsigned>(wanted));
}

/// Memory that no call may name: where, and of how many elements.
struct Wrong {
  const char* name;
  bool of_src;
  int32_t* at;  // in place of dst or src; null: the null pointer
  size_t count;
};

std::vector<Wrong> wrongs(const Runtime& pe, int32_t* right) {
  static int32_t outside[64];
  const Window heap = pe.context().heap;
  auto* const end = reinterpret_cast<int32_t*>(heap.base + heap.bytes);
  std::vector<Wrong> all;
  for (const bool of_src : {false, true}) {
    all.push_back({"null", of_src, nullptr, 4});
    all.push_back({"memory of the program's own", of_src, outside, 4});
    all.push_back({"over the end of the heap", of_src, end - 2, 4});
    all.push_back({"a handle", of_src, WindowHandle{.number = 0}.at<int32_t>(), 4});
  }
  all.push_back({"as much as the heap", false, right, heap.bytes / sizeof(int32_t)});
  all.push_back({"a length that is 16 in 64 bits", false, right, (size_t{1} << 62) + 4});
  all.push_back({"a length that 64 bits do not hold", false, right, ~size_t{0}});
  return all;
}

/// Hazard: a kernel's call looked at team and root only, and then loaded and stored at whatever
/// address it had been given, or moved what was left of a length that had wrapped, with kOk.
TYPED_TEST(CollectivesBy, MemoryThatIsNotThereIsRefused) {
  on_every_pe([](Runtime& pe) {
    const Team team = pe.split_team(pe.world(), 0, 0, kSmall);
    CaseMemory<int32_t> memory(pe, team, 64);
    const auto answer_of = [&](const Case& c, int32_t* dst, int32_t* src) {
      *memory.answer = Status::kOk;
      launch(grid_for<TypeParam>(), call_case<TypeParam, op::Sum, int32_t>, pe.context(),
             TypeParam{}, team, c, dst, src, memory.answer)
          .wait();
      return *memory.answer;
    };
    for (const Call call : kCalls) {
      for (const Wrong& wrong : wrongs(pe, memory.dst)) {
        const Case c{call, wrong.count, false, 0, 0};
        const Status status = answer_of(c, wrong.of_src ? memory.dst : wrong.at,
                                        wrong.of_src ? wrong.at : memory.src);
        EXPECT_EQ(status, Status::kNotSymmetric)
            << to_string(call) << (wrong.of_src ? ", src: " : ", dst: ") << wrong.name;
        pe.barrier();
      }
      EXPECT_EQ(answer_of({call, 0, false, 0, 0}, nullptr, nullptr), Status::kOk);
      const std::string said = std::string(": ") + to_string(call) + " used PE";
      EXPECT_NE(pe.failure().text.find(said), std::string::npos) << pe.failure().text;
      pe.recover();
    }
    run_in<TypeParam, op::Sum, int32_t>(pe, team);  // and the team goes on
  });
}

/// Who refuses has told nobody: the others end by their deadline.
TEST(Collectives, OnePesMistakeDoesNotHoldTheOthersForEver) {
  on_every_pe([](Runtime& pe) {
    if (pe.n_pes() == 1) return;
    const auto hasty = pe.make_context({.timeout = std::chrono::milliseconds(20)});
    const TeamOptions more{.contexts = 16, .blocks = 4, .workspace = 4096};
    const Team team = pe.split_team(pe.world(), 0, 0, more);
    CaseMemory<int32_t> memory(pe, team, 64);
    pe.barrier();
    launch(grid_for<Block>(), call_case<Block, op::Sum, int32_t>, hasty.value(), Block{}, team,
           Case{Call::kAllReduce, 4, false, 0, 0}, memory.dst,
           team.rank == 0 ? nullptr : memory.src, memory.answer)
        .wait();
    EXPECT_EQ(*memory.answer, team.rank == 0 ? Status::kNotSymmetric : Status::kTimeout);
    pe.barrier();
    pe.recover();
    run_in<Block, op::Sum, int32_t>(pe, team);
  });
}

/// Hazard: the words behind a workspace of 100 bytes, those of the next context, were misaligned.
TEST(Collectives, AWorkspaceMayHaveAnySize) {
  on_every_pe([](Runtime& pe) {
    const auto second = pe.make_context();
    for (const size_t bytes : {size_t{1}, size_t{100}, size_t{4097}}) {
      const TeamOptions odd{
          .contexts = 2, .blocks = 1, .workspace = bytes, .grid_workspace = bytes};
      const Team team = pe.split_team(pe.world(), 0, 0, odd);
      CaseMemory<int32_t> memory(pe, team, 2000);
      for (const size_t count : {size_t{3}, size_t{2000}}) {
        const Case c{Call::kAllReduce, count, false, 0, 0};
        const auto answer = [&](int32_t* dst, int32_t* src) {
          launch(grid_for<Block>(), call_case<Block, op::Sum, int32_t>, second.value(), Block{},
                 team, c, dst, src, memory.answer)
              .wait();
          return *memory.answer;
        };
        EXPECT_EQ((run_case_by<op::Sum>(memory, c, answer)), "")
            << bytes << ": " << pe.failure().text;
      }
      pe.barrier();
      pe.free_team(team);
    }
    pe.check();
  });
}

/// What a PE gives and gets in a call with counts of its own for each member.
struct Uneven {
  Uneven(Runtime& pe, const Team& of)
      : team(of),
        n(static_cast<size_t>(of.size)),
        lists(pe, 4 * n),
        dst(pe, 8 * n),
        src(pe, 8 * n) {
    for (size_t i = 0; i < n; ++i) {
      const int other = static_cast<int>(i);
      lists[i] = count_of(other, team.rank);
      lists[n + i] = 8 * other;
      lists[2 * n + i] = count_of(team.rank, other);
      lists[3 * n + i] = 8 * (team.size - 1 - other);
      for (size_t k = 0; k < 8; ++k) {
        src[8 * (n - 1 - i) + k] = static_cast<uint64_t>(team.rank * 100 + other * 10) + k;
      }
    }
  }
  /// Member `wrong` has another count of what it receives from the one before it.
  void spoil(int wrong) {
    if (wrong == team.rank) lists[(static_cast<size_t>(team.rank) + n - 1) % n] += 1;
  }
  Blocks<int> received() { return {lists.data(), lists.data() + n}; }
  Blocks<int> sent() { return {lists.data() + 2 * n, lists.data() + 3 * n}; }
  void expect_right() {
    for (size_t i = 0; i < n; ++i) {
      const int from = static_cast<int>(i);
      for (size_t k = 0; k < 8; ++k) {
        const bool came = static_cast<int>(k) < count_of(from, team.rank);
        const uint64_t value = static_cast<uint64_t>(from * 100 + team.rank * 10) + k;
        EXPECT_EQ(dst[8 * i + k], came ? value : 0);
      }
    }
  }

  const Team team;
  const size_t n;
  Symmetric<int> lists;
  Symmetric<uint64_t> dst;
  Symmetric<uint64_t> src;
};

/// `wrong`: as spoil() has it; -1: none.
template <class S>
void run_uneven(Runtime& pe, int wrong) {
  Uneven call(pe, pe.world());
  call.spoil(wrong);
  pe.barrier();
  run(grid_for<S>(), uneven<S>, pe.context(), S{}, call.team, call.dst.data(), call.src.data(),
      call.received(), call.sent(), wrong < 0 ? Status::kOk : Status::kMismatch);
  if (wrong < 0) call.expect_right();
}

TYPED_TEST(CollectivesBy, UnevenBlocks) {
  on_every_pe([](Runtime& pe) { run_uneven<TypeParam>(pe, -1); });
}

TYPED_TEST(CollectivesBy, UnevenBlocksThatDisagree) {
  on_every_pe([](Runtime& pe) { run_uneven<TypeParam>(pe, pe.n_pes() - 1); });
}

/// As uneven(), in the worst order: block 0 of member 0 starts when a block of member n - 2, which
/// sends to the spoilt list, has failed. Over a NIC nothing is held back.
PEAL_KERNEL uneven_late(Verdict* verdict, Context ctx, Team team, uint64_t* dst, uint64_t* src,
                        Blocks<int> received, Blocks<int> sent) {
  const collective::ChannelCounters* const counters =
      ptr(ctx, &collective::Part::of(team, ctx.slot).counters(0), world_pe(team, n_pes(team) - 2));
  if (all_mapped(team) && my_pe(team) == 0 && block_in_grid() == 0 && counters != nullptr) {
    const Status waited = detail::spin(
        ctx,
        [&] {
          return load_relaxed<Reach::kSystem>(&counters->failed) +
                     load_relaxed<Reach::kSystem>(&counters->outcome) !=
                 0;
        },
        detail::WaitOf<WaitKind::kGrid>{});
    expect_eq(verdict, static_cast<unsigned>(waited), static_cast<unsigned>(Status::kOk));
  }
  const Status status = all_to_all_v(ctx, whole_grid, team, dst, received, src, sent);
  expect_eq(verdict, static_cast<unsigned>(status), static_cast<unsigned>(Status::kMismatch));
}

/// Hazard: a block of a grid that heard of another's failure while it met the others made a meeting
/// less than they did, and the next call waited for it.
TEST(Collectives, ATeamGoesOnAfterBlocksOfGridsThatDisagree) {
  on_every_pe([](Runtime& pe) {
    if (pe.n_pes() == 1) return;
    const Team team = pe.split_team(pe.world(), 0, 0, kSmall);
    EXPECT_EQ((run_sizes<Block, op::Sum, int32_t>(pe, team, grid_for<Block>())), "");
    {
      Uneven call(pe, team);
      call.spoil(pe.n_pes() - 1);
      pe.barrier();
      run(grid_for<WholeGrid>(), uneven_late, pe.context(), team, call.dst.data(), call.src.data(),
          call.received(), call.sent());
      pe.barrier();
    }
    run_in<WholeGrid, op::Sum, int32_t>(pe, team);
  });
}

/// Lists that lead out of the memory that the buffers lie in.
template <class S>
void run_bad_lists(Runtime& pe) {
  const Team team = pe.world();
  const auto n = static_cast<size_t>(team.size);
  const int far = 1 << 30;
  Symmetric<int> lists(pe, 4 * n);
  Symmetric<uint64_t> dst(pe, 8 * n);
  Symmetric<uint64_t> src(pe, 8 * n);
  const Blocks<int> received{lists.data(), lists.data() + n};
  const Blocks<int> sent{lists.data() + 2 * n, lists.data() + 3 * n};
  const auto expect = [&](const char* what, uint64_t* to, const Blocks<int>& in,
                          const Blocks<int>& out, Status wanted) {
    SCOPED_TRACE(what);
    pe.barrier();
    run(grid_for<S>(), uneven<S>, pe.context(), S{}, team, to, src.data(), in, out, wanted);
    pe.barrier();
  };
  const auto with = [&](const char* what, size_t list, int value) {
    std::fill_n(lists.data(), 4 * n, 0);
    for (size_t i = 0; i < n; ++i) lists[i] = lists[2 * n + i] = 2;
    lists[list * n + n - 1] = value;
    expect(what, dst.data(), received, sent, Status::kNotSymmetric);
  };
  std::fill_n(lists.data(), 4 * n, 0);
  expect("nothing, to nowhere", nullptr, received, sent, Status::kOk);
  const char* const kNames[] = {"counts received", "where to", "counts sent", "where from"};
  for (size_t list = 0; list < 4; ++list) {
    with(kNames[list], list, far);
    with(kNames[list], list, -1);
    with(kNames[list], list, -far);
  }
  std::fill_n(lists.data(), 4 * n, 0);
  int outside[2] = {};
  expect("no lists received", dst.data(), {nullptr, nullptr}, sent, Status::kNotSymmetric);
  expect("own memory", dst.data(), {outside, outside}, sent, Status::kNotSymmetric);
  expect("no lists sent", dst.data(), received, {nullptr, nullptr}, Status::kNotSymmetric);
  lists[0] = lists[2 * n] = 1;
  expect("something, to nowhere", nullptr, received, sent, Status::kNotSymmetric);
  pe.recover();
}

TYPED_TEST(CollectivesBy, UnevenBlocksThatLeadOutsideAreRefused) {
  on_every_pe([](Runtime& pe) { run_bad_lists<TypeParam>(pe); });
}

PEAL_KERNEL different_counts(Verdict* verdict, Context ctx, Team team, int* dst, int* src) {
  const size_t count = 5000 + (my_pe(team) == 0 ? 1 : 0);
  const Status status = all_reduce(ctx, block, team, dst, src, count, op::sum);
  const Status wanted = n_pes(team) > 1 ? Status::kMismatch : Status::kOk;
  expect_eq(verdict, static_cast<unsigned>(status), static_cast<unsigned>(wanted));
}

TEST(Collectives, CountsThatDifferAreRefusedByAllBeforeDataMoves) {
  on_every_pe([](Runtime& pe) {
    const Team team = pe.split_team(pe.world(), 0, 0, kSmall);
    Symmetric<int> dst(pe, 6000);
    Symmetric<int> src(pe, 6000);
    std::fill_n(src.data(), 6000, 1);
    pe.barrier();
    run({.blocks = 1, .threads = 64}, different_counts, pe.context(), team, dst.data(), src.data());
    if (pe.n_pes() > 1) {
      EXPECT_EQ(std::count(dst.data(), dst.data() + 6000, 0), 6000);
    }
    // And the team goes on.
    EXPECT_EQ((run_sizes<Block, op::Sum, int>(pe, team, grid_for<Block>())), "");
  });
}

PEAL_KERNEL different_sums(Verdict* verdict, Context ctx, Team team, int* mine, int* src) {
  const bool odd = my_pe(team) % 2 == 1;
  const Status status = all_reduce(ctx, block, team, mine, src, odd ? 5 : 3, op::sum);
  const Status wanted = n_pes(team) > 1 ? Status::kMismatch : Status::kOk;
  expect_eq(verdict, static_cast<unsigned>(status), static_cast<unsigned>(wanted));
}

// Short calls compare, too: two that meet by accident are no sum of either.
TEST(Collectives, ShortCallsThatDifferAreRefusedByAll) {
  on_every_pe([](Runtime& pe) {
    const Team team = pe.split_team(pe.world(), 0, 0, kSmall);
    Symmetric<int> dst(pe, 64);
    Symmetric<int> src(pe, 64);
    for (int round = 0; round < 3; ++round) {
      pe.barrier();
      run({.blocks = 1, .threads = 32}, different_sums, pe.context(), team, dst.data(), src.data());
    }
    EXPECT_EQ((run_sizes<Block, op::Sum, int>(pe, team, grid_for<Block>())), "");
  });
}

PEAL_KERNEL long_call(Verdict* verdict, Context ctx, Team team, int* dst, int* src, Status wanted) {
  const Status status = all_reduce(ctx, whole_grid, team, dst, src, 5000, op::sum);
  expect_eq(verdict, static_cast<unsigned>(status), static_cast<unsigned>(wanted));
}

PEAL_KERNEL sum_by_grid(Context ctx, Team team, int* dst, int* src) {
  (void)all_reduce(ctx, whole_grid, team, dst, src, 100, op::sum);
}

// It would wait for blocks that begin once those that wait have ended.
TEST(Collectives, AGridThatIsNotResidentAsAWholeIsRefused) {
  on_every_pe([](Runtime& pe) {
    const simt::Limits before = simt::limits();
    simt::Limits few = before;
    few.max_lanes = 64;
    few.workers = 2;
    few.stall_ms = 1000;
    Symmetric<int> dst(pe, 100);
    Symmetric<int> src(pe, 100);
    simt::set_limits(few);
    std::string error;
    try {
      peal::launch({.blocks = 5, .threads = 32}, sum_by_grid, pe.context(), pe.world(), dst.data(),
                   src.data())
          .wait();
    } catch (const simt::LaneError& refused) {
      error = refused.what();
    }
    simt::set_limits(before);
    EXPECT_NE(error.find("all_reduce by a grid needs all of its 5 blocks of 32 threads"),
              std::string::npos)
        << error;
    pe.barrier();
  });
}

// The third block of one member has no partner at the others: it must not wait for one.
TEST(Collectives, GridsThatDifferAreRefusedByAll) {
  on_every_pe([](Runtime& pe) {
    const Team team = pe.split_team(pe.world(), 0, 0, kSmall);
    Symmetric<int> dst(pe, 5000);
    Symmetric<int> src(pe, 5000);
    // By NICs one block does all, however many there are.
    const bool differs = pe.n_pes() > 1 && all_mapped(team);
    Context ctx = pe.context();
    ctx.timeout_ns = 0;  // else the deadline would hide who waits for nobody
    run({.blocks = team.rank == 0 ? 3 : 2, .threads = 2}, long_call, ctx, team, dst.data(),
        src.data(), differs ? Status::kMismatch : Status::kOk);
    pe.barrier();
    // And the team goes on, by as many blocks as no call before had at all members.
    run_in<WholeGrid, op::Sum, int32_t>(pe, team);
  });
}

}  // namespace
}  // namespace peal::api_test
