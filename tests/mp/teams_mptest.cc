// SPDX-License-Identifier: Apache-2.0
//
// Teams: who is in them, where they lie, what their kernels see; and sync and barrier of teams that
// overlap.
#include "device/collectives.h"
#include "tests/support/error_of.h"
#include "tests/support/job.h"

namespace peal::api_test {
namespace {

PEAL_KERNEL numbers(Verdict* verdict, Context ctx, Team team, const int* pes) {
  expect_eq(verdict, static_cast<unsigned long long>(world_pe(team, my_pe(team))),
            static_cast<unsigned long long>(my_pe(ctx)));
  for (int i = 0; i < n_pes(team); ++i) {
    expect_eq(verdict, static_cast<unsigned long long>(world_pe(team, i)),
              static_cast<unsigned long long>(pes[i]));
    expect(verdict, translate(team, i, team) == i);
  }
  expect(verdict, world_pe(team, -1) == -1 && world_pe(team, n_pes(team)) == -1);
}

void expect_members(Runtime& pe, const Team& team, const std::vector<int>& pes) {
  ASSERT_GE(team.rank, 0);
  EXPECT_EQ(pe.team_pes(team), pes);
  run_clean(pe, {}, numbers, pe.context(), team, pes.data());
}

TEST(Teams, TheWorldHasAllPes) {
  on_every_pe([](Runtime& pe) {
    std::vector<int> all;
    for (int i = 0; i < pe.n_pes(); ++i) all.push_back(i);
    expect_members(pe, pe.world(), all);
  });
}

TEST(Teams, SplitOrdersByKeyThenNumber) {
  on_every_pe([](Runtime& pe) {
    const int me = pe.my_pe();
    const Team mine = pe.split_team(pe.world(), me % 2, -me);
    std::vector<int> pes;
    for (int i = pe.n_pes() - 1; i >= 0; --i) {
      if (i % 2 == me % 2) pes.push_back(i);
    }
    expect_members(pe, mine, pes);
    const Team same = pe.split_team(mine, 0);
    expect_members(pe, same, pes);
    pe.free_team(same);
    pe.free_team(mine);
  });
}

TEST(Teams, NegativeColorMakesNone) {
  on_every_pe([](Runtime& pe) {
    const Team one = pe.split_team(pe.world(), pe.my_pe() == 0 ? 7 : -1);
    EXPECT_EQ(one.rank, pe.my_pe() == 0 ? 0 : -1);
    if (pe.my_pe() == 0) pe.free_team(one);
  });
}

TEST(Teams, StridedAnd2d) {
  on_every_pe([](Runtime& pe) {
    const int n = pe.n_pes();
    const Team back = pe.split_team_strided(pe.world(), n - 1, -1, n);
    std::vector<int> pes;
    for (int i = n - 1; i >= 0; --i) pes.push_back(i);
    expect_members(pe, back, pes);
    const auto [row, column] = pe.split_team_2d(pe.world(), 2);
    EXPECT_EQ(row.rank, pe.my_pe() % 2);
    EXPECT_EQ(column.rank, pe.my_pe() / 2);
    EXPECT_THROW((void)pe.split_team_strided(pe.world(), 0, 1, n + 1), Error);
    // Members that an int does not count to.
    EXPECT_THROW((void)pe.split_team_strided(pe.world(), 0, 1 << 30, 5), Error);
    EXPECT_THROW((void)pe.split_team_strided(pe.world(), 0, 65536, 65537), Error);
    EXPECT_THROW((void)pe.split_team_strided(pe.world(), 0, -(1 << 30), 5), Error);
    for (const Team& team : {back, row, column}) pe.free_team(team);
  });
}

PEAL_KERNEL meet(Verdict* verdict, Context ctx, Team team, uint64_t* slots, uint64_t rounds) {
  for (uint64_t round = 1; round <= rounds; ++round) {
    for (int i = 0; i < n_pes(team); ++i) {
      expect_ok(verdict, p(ctx, slots + my_pe(ctx), round, world_pe(team, i)));
    }
    expect_ok(verdict, barrier(ctx, thread, team));
    for (int i = 0; i < n_pes(team); ++i) {
      expect_eq(verdict, slots[world_pe(team, i)], round);
    }
    expect_ok(verdict, sync(ctx, thread, team));
  }
}

TEST(Teams, BarriersOfTheirOwn) {
  on_every_pe([](Runtime& pe) {
    Symmetric<uint64_t> slots(pe, static_cast<size_t>(pe.n_pes()));
    const Team half = pe.split_team(pe.world(), pe.my_pe() % 2);
    run_clean(pe, {}, meet, pe.context(), half, slots.data(), uint64_t{50});
    pe.barrier();
    run_clean(pe, {}, meet, pe.context(), pe.world(), slots.data(), uint64_t{100});
    pe.free_team(half);
  });
}

TEST(Teams, HundredsAtOnce) {
  on_every_pe([](Runtime& pe) {
    const TeamOptions small{.contexts = 1, .blocks = 1, .workspace = 0};
    Symmetric<uint64_t> slots(pe, static_cast<size_t>(pe.n_pes()));
    std::vector<Team> teams;
    for (int i = 0; i < 200; ++i) {
      teams.push_back(pe.split_team(pe.world(), pe.my_pe() < 1 + i % pe.n_pes() ? 0 : 1, 0, small));
    }
    for (const Team& team : teams) {
      run_clean(pe, {}, meet, pe.context(), team, slots.data(), uint64_t{1});
      pe.barrier();
    }
    for (const Team& team : teams) pe.free_team(team);
  });
}

TEST(Teams, UsedUpMemoryIsAnErrorAtAllMembers) {
  on_every_pe([](Runtime& pe) {
    const TeamOptions large{.contexts = 1, .blocks = 1, .workspace = pe.config().team_memory};
    expect_error(error_of([&] { (void)pe.split_team(pe.world(), 0, 0, large); }),
                 ErrorCode::kOutOfMemory, {"raise PEAL_TEAM_MEMORY"});
    const TeamOptions none{.contexts = 0};
    EXPECT_THROW((void)pe.split_team(pe.world(), 0, 0, none), Error);
    TeamOptions different;
    different.blocks += static_cast<uint32_t>(pe.my_pe());
    if (pe.n_pes() > 1) {
      EXPECT_THROW((void)pe.split_team(pe.world(), 0, 0, different), Error);
    }
    Team freed = pe.split_team(pe.world(), 0);
    pe.free_team(freed);
    EXPECT_THROW(pe.free_team(freed), Error);
    EXPECT_THROW(pe.free_team(pe.world()), Error);
    EXPECT_THROW((void)pe.split_team(freed, 0), Error);
  });
}

PEAL_KERNEL refused(Verdict* verdict, Context ctx, Team team, Status wanted) {
  expect(verdict, sync(ctx, thread, team) == wanted);
}

TEST(Teams, CallsOfOthersAreRefused) {
  on_every_pe([](Runtime& pe) {
    run(Grid{}, refused, pe.context(), Team{}, Status::kBadTeam);
    EXPECT_EQ(pe.failure().status, Status::kBadTeam);
    const std::string text = pe.failure().text;
    EXPECT_NE(text.find("this PE is not in the team"), std::string::npos) << text;
    EXPECT_EQ(text.find("bytes"), std::string::npos) << text;
    pe.recover();
  });
}

}  // namespace
}  // namespace peal::api_test
