// SPDX-License-Identifier: Apache-2.0
//
// Descriptors between PEs: more than a message and a socket hold, of PEs that send nothing, and of
// one that never comes.
#include "host/transport/descriptor_exchange.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bootstrap/bootstraps.h"

namespace peal {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kLong{60'000};

/// Files of those sizes.
std::vector<Fd> files(size_t count, size_t first_size) {
  std::vector<Fd> made;
  for (size_t i = 0; i < count; ++i) {
    made.emplace_back(::memfd_create("hand-over", MFD_CLOEXEC));
    EXPECT_EQ(::ftruncate(made.back().get(), static_cast<off_t>(first_size + i)), 0);
  }
  return made;
}

bool are(const std::vector<Fd>& got, size_t count, size_t first_size) {
  if (got.size() != count) return false;
  for (size_t i = 0; i < count; ++i) {
    struct stat file {};
    if (::fstat(got[i].get(), &file) != 0) return false;
    if (static_cast<size_t>(file.st_size) != first_size + i) return false;
  }
  return true;
}

// 200 take four messages to each PE; three PEs send at once, into sockets that hold ten messages on
// many machines.
TEST(DescriptorExchange, BringsAllInOrderToAll) {
  constexpr int kPes = 4;
  constexpr size_t kEach = 200;
  bootstrap::run_processes(kPes, [&](Bootstrap& group) {
    DescriptorExchange exchanger(group, kLong);
    const int me = group.rank();
    // The last one takes, and has nothing to give.
    const std::vector<Fd> mine = files(me == kPes - 1 ? 0 : kEach, 1000 * (1 + size_t(me)));
    std::vector<int> to;
    std::vector<size_t> expected(kPes);
    for (int pe = 0; pe < kPes; ++pe) {
      if (pe == me) continue;
      to.push_back(pe);
      if (pe != kPes - 1) expected[static_cast<size_t>(pe)] = kEach;
    }
    for (int round = 0; round < 3; ++round) {
      const auto got = exchanger.exchange(mine, to, expected);
      for (size_t pe = 0; pe < kPes; ++pe) {
        if (!are(got[pe], expected[pe], 1000 * (1 + pe))) return 1 + round;
      }
      group.barrier();
    }
    return 0;
  });
}

TEST(DescriptorExchange, AnswersWhatCameUntilTheDeadline) {
  bootstrap::run_threads(2, [&](Bootstrap& group) {
    DescriptorExchange exchanger(group, milliseconds(20));
    const std::vector<Fd> mine = files(1, 10);
    // PE 1 was said to send three and sends one, before PE 0 begins to wait.
    if (group.rank() == 1) exchanger.exchange(mine, {0}, {0, 0});
    group.barrier();
    if (group.rank() == 0) {
      EXPECT_TRUE(are(exchanger.exchange({}, {}, {0, 3})[1], 1, 10));
    }
    group.barrier();
  });
}

TEST(DescriptorExchange, DropsWhatIsOfAnEarlierCall) {
  bootstrap::run_threads(2, [&](Bootstrap& group) {
    DescriptorExchange exchanger(group, kLong);
    if (group.rank() == 1) exchanger.exchange(files(2, 10), {0}, {0, 0});
    if (group.rank() == 0) exchanger.exchange({}, {}, {0, 0});  // does not want them
    group.barrier();
    const auto got = group.rank() == 1 ? exchanger.exchange(files(1, 99), {0}, {0, 0})
                                       : exchanger.exchange({}, {}, {0, 1});
    if (group.rank() == 0) {
      EXPECT_TRUE(are(got[1], 1, 99));
    }
    group.barrier();
  });
}

TEST(DescriptorExchange, LeavesAPeThatHasEnded) {
  bootstrap::run_threads(2, [&](Bootstrap& group) {
    std::optional<DescriptorExchange> exchanger(std::in_place, group, kLong);
    if (group.rank() == 1) exchanger.reset();
    group.barrier();
    if (group.rank() == 0) {
      const auto got = exchanger->exchange(files(100, 1), {1}, {0, 0});
      EXPECT_TRUE(got[1].empty());
    }
    group.barrier();
  });
}

}  // namespace
}  // namespace peal
