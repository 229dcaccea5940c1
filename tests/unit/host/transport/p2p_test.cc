// SPDX-License-Identifier: Apache-2.0
//
// Mapping the memory of another PE: between threads, between processes, and every way to be
// refused.
#include "host/transport/p2p.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "bootstrap/bootstraps.h"
#include "host/memory/backing.h"
#include "tests/support/shared_mapping.h"

namespace peal {
namespace {

constexpr size_t kBytes = 64 << 10;

std::vector<Place> places_of(Bootstrap& group) { return gather(group, Place::here()); }

TEST(P2p, BorrowsThePointerOfAThread) {
  bootstrap::run_threads(3, [](Bootstrap& group) {
    std::vector<std::byte> mine(kBytes, std::byte(group.rank()));
    P2p p2p(group, places_of(group), nullptr);
    const PeerMemory memory = p2p.map(mine.data(), kBytes, -1);
    for (size_t pe = 0; pe < 3; ++pe) {
      ASSERT_NE(memory.direct[pe], nullptr);
      EXPECT_EQ(*memory.direct[pe], std::byte(pe));
      EXPECT_EQ(memory.how[pe],
                pe == static_cast<size_t>(group.rank()) ? "itself" : "same process");
    }
    EXPECT_EQ(memory.direct[static_cast<size_t>(group.rank())], mine.data());
    group.barrier();
  });
}

TEST(P2p, MapsTheHeapOfAProcess) {
  bootstrap::run_processes(3, [](Bootstrap& group) {
    Backing mine = make_host_backing(kBytes, "peal-test");
    P2p p2p(group, places_of(group), nullptr);
    const PeerMemory memory = p2p.map(mine.address(), mine.bytes(), mine.fd());
    int wrong = 0;
    // Everybody writes one byte at everybody, far enough in to be in another page.
    for (std::byte* begin : memory.direct) {
      if (begin == nullptr) return 100;
      begin[8192 + group.rank()] = std::byte(1 + group.rank());
    }
    group.barrier();
    for (int pe = 0; pe < 3; ++pe) wrong += mine.address()[8192 + pe] != std::byte(1 + pe);
    for (int pe = 0; pe < 3; ++pe) {
      const bool me = pe == group.rank();
      wrong += memory.how[static_cast<size_t>(pe)] != (me ? "itself" : "same host, shared memory");
    }
    group.barrier();
    return wrong;
  });
}

TEST(P2p, OutlivesTheOwnersMapping) {
  bootstrap::run_processes(2, [](Bootstrap& group) {
    PeerMemory memory;
    {
      Backing mine = make_host_backing(kBytes, "peal-test");
      std::memset(mine.address(), 7, kBytes);
      P2p p2p(group, places_of(group), nullptr);
      memory = p2p.map(mine.address(), mine.bytes(), mine.fd());
      group.barrier();
    }
    group.barrier();
    return memory.direct[static_cast<size_t>(1 - group.rank())][kBytes - 1] == std::byte{7} ? 0 : 1;
  });
}

/// What PE 0 is told of PE 1, when PE 1's place and file are as `alter` makes them.
template <class Alter>
std::string refusal(Alter alter) {
  std::string how;
  bootstrap::run_threads(2, [&](Bootstrap& group) {
    Backing mine = make_host_backing(kBytes, "peal-test");
    std::vector<Place> places = places_of(group);
    ++places[1].pid;  // another process, as far as anybody can tell
    int fd = mine.fd();
    alter(places[1], fd);
    P2p p2p(group, std::move(places), nullptr);
    const PeerMemory memory = p2p.map(mine.address(), mine.bytes(), group.rank() == 1 ? fd : -1);
    if (group.rank() == 0) {
      EXPECT_EQ(memory.direct[1], nullptr);
      how = memory.how[1];
    }
    group.barrier();
  });
  return how;
}

TEST(P2p, RefusesAnotherHost) {
  EXPECT_EQ(refusal([](Place& place, int&) { place.boot_id[0] ^= 1; }), "other host");
}

TEST(P2p, RefusesAHostThatCannotBeTold) {
  EXPECT_EQ(refusal([](Place& place, int&) { place.boot_id = {}; }), "other host");
}

TEST(P2p, RefusesAnotherPidNamespace) {
  EXPECT_EQ(refusal([](Place& place, int&) { ++place.pid_namespace; }),
            "same host, but another pid namespace; start the containers with one (--pid=host)");
}

// The memory of each PE lies elsewhere in its page, and in another kind of file.
SharedMapping shared_by(int pe) {
  switch (pe) {
    case 0:
      return SharedMapping(5 * kBytes, SharedMapping::memfd());
    case 1:
      return SharedMapping(5 * kBytes, SharedMapping::file_in(testing::TempDir()));
    default:
      return SharedMapping(5 * kBytes, SharedMapping::file_in("/dev/shm"));
  }
}

/// Of this process. Not all of its mappings: the first calls of many functions of the C library
/// make some.
int shared_mappings() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string addresses, rights, rest; maps >> addresses >> rights; std::getline(maps, rest)) {
    count += rights.ends_with('s') ? 1 : 0;
  }
  return count;
}

TEST(P2p, MapsAnySharedMemoryOfAProcess) {
  bootstrap::run_processes(3, [](Bootstrap& group) {
    const SharedMapping shared = shared_by(group.rank());
    std::byte* const mine = shared.begin() + 4096 * (1 + group.rank()) + 100 * group.rank() + 3;
    P2p p2p(group, places_of(group), nullptr);
    const int before = shared_mappings();
    int wrong = 0;
    {
      const PeerMemory memory = p2p.map(mine, kBytes, -1);
      for (std::byte* begin : memory.direct) {
        if (begin == nullptr) return 100;
        begin[group.rank()] = std::byte(1 + group.rank());
        begin[kBytes - 1 - static_cast<size_t>(group.rank())] = std::byte(11 + group.rank());
      }
      group.barrier();
      for (int pe = 0; pe < 3; ++pe) {
        wrong += mine[pe] != std::byte(1 + pe);
        wrong += mine[kBytes - 1 - static_cast<size_t>(pe)] != std::byte(11 + pe);
      }
      wrong += mine[-1] != std::byte{0} || mine[kBytes] != std::byte{0};
      wrong +=
          memory.how[static_cast<size_t>((group.rank() + 1) % 3)] != "same host, shared memory";
      wrong += shared_mappings() != before + 2;
      group.barrier();
    }
    wrong += shared_mappings() != before;
    return wrong;
  });
}

// The window lies across the border of two pages.
TEST(P2p, MapsHugePagesOfAProcess) {
  constexpr size_t kHuge = SharedMapping::kHugePage;
  const auto share = [] { return SharedMapping(2 * kHuge, SharedMapping::huge()); };
  try {
    const SharedMapping both[] = {share(), share()};
  } catch (const Error& error) {
    GTEST_SKIP() << "no four huge pages: " << error.what() << "; sysctl vm.nr_hugepages=4";
  }
  bootstrap::run_processes(2, [&](Bootstrap& group) {
    const SharedMapping shared = share();
    const auto me = static_cast<size_t>(group.rank());
    std::byte* const mine = shared.begin() + kHuge - 100 - 7 * me;
    P2p p2p(group, places_of(group), nullptr);
    const PeerMemory memory = p2p.map(mine, kBytes, -1);
    std::byte* const peers = memory.direct[1 - me];
    if (peers == nullptr) return 100;
    peers[0] = std::byte(1 + me);
    peers[kBytes - 1] = std::byte(11 + me);
    group.barrier();
    int wrong = mine[0] != std::byte(2 - me);
    wrong += mine[kBytes - 1] != std::byte(12 - me);
    wrong += mine[-1] != std::byte{0} || mine[kBytes] != std::byte{0};
    group.barrier();
    return wrong;
  });
}

TEST(P2p, SaysWhyMemoryOfAProcessCannotBeMapped) {
  bootstrap::run_processes(2, [](Bootstrap& group) {
    std::vector<std::byte> mine(kBytes);
    P2p p2p(group, places_of(group), nullptr);
    const PeerMemory memory = p2p.map(mine.data(), kBytes, -1);
    const auto me = static_cast<size_t>(group.rank());
    if (memory.direct[me] != mine.data() || memory.direct[1 - me] != nullptr) return 1;
    const std::string& why = memory.how[1 - me];
    return why.starts_with("private memory (") && why.ends_with("with MAP_SHARED") ? 0 : 2;
  });
}

TEST(P2p, NamesTheMappingThatFailed) {
  bootstrap::run_processes(2, [](Bootstrap& group) {
    const SharedMapping shared(kBytes, SharedMapping::memfd());
    // A seal that its owner's mapping does not mind.
    if (::fcntl(shared.file().get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE) != 0) return 1;
    P2p p2p(group, places_of(group), nullptr);
    const PeerMemory memory = p2p.map(shared.begin(), kBytes, -1);
    group.barrier();  // nobody ends its part before all have tried
    const std::string& why = memory.how[1 - static_cast<size_t>(group.rank())];
    return why.starts_with("mmap(/proc/") && why.ends_with("Operation not permitted") ? 0 : 2;
  });
}

TEST(P2p, NamesTheCallThatFailed) {
  const std::string how = refusal([](Place& place, int&) { place.pid = 1 << 30; });
  EXPECT_TRUE(how.starts_with("open(/proc/1073741824/fd/")) << how;
  EXPECT_TRUE(how.ends_with("No such file or directory")) << how;
}

TEST(P2p, RefusesAFileThatIsNotTheOneOffered) {
  // PE 0 looks the number that PE 1 offers up in its own descriptors, where it means another file.
  bootstrap::run_processes(2, [](Bootstrap& group) {
    Backing mine = make_host_backing(kBytes, "peal-test");
    for (int i = 0; i < 64; ++i) {
      if (::dup(mine.fd()) < 0) return 3;
    }
    std::vector<Place> places = places_of(group);
    const Place me = places[0];
    if (group.rank() == 0) {
      places[0].pid = 0;
      places[1].pid = me.pid;
    }
    P2p p2p(group, std::move(places), nullptr);
    const PeerMemory memory = p2p.map(mine.address(), mine.bytes(), mine.fd());
    group.barrier();
    if (group.rank() == 1) return memory.direct[0] != nullptr ? 0 : 1;
    return memory.direct[1] == nullptr && memory.how[1].ends_with("is not what the PE offered") ? 0
                                                                                                : 2;
  });
}

TEST(Place, CountsTheRankOnItsHost) {
  Place here = Place::here();
  Place there = here;
  there.boot_id[3] ^= 1;
  const std::vector<Place> places{here, there, here, there, there};
  EXPECT_EQ(rank_on_host(places, 0), 0);
  EXPECT_EQ(rank_on_host(places, 1), 0);
  EXPECT_EQ(rank_on_host(places, 2), 1);
  EXPECT_EQ(rank_on_host(places, 4), 2);
  EXPECT_TRUE(same_process(here, places[2]));
  EXPECT_FALSE(same_pids(here, there));
}

}  // namespace
}  // namespace peal
