// SPDX-License-Identifier: Apache-2.0
#include "host/check/segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/base/exception.h"
#include "tests/support/error_of.h"
#include "tests/unit/check/order_rig.h"

namespace peal::checking {
namespace {

constexpr Segment::Shape kShape{3, 1 << 16};

TEST(Segment, IsTheSameForWhoOpensIt) {
  const Segment made = Segment::create(kShape);
  const Segment opened = Segment::open(made.file(), kShape);
  raise(made.stamp(2), 5);
  EXPECT_EQ(opened.stamp(2).load(), 5u);
  raise(opened.knowledge(1).at(2, 0), 7);
  EXPECT_EQ(made.knowledge(1).at(2, 0).load(), 7u);
  made.cells(2)[100].store(9);
  EXPECT_EQ(opened.cells(2)[100].load(), 9u);
  EXPECT_EQ(opened.cells(1)[100].load(), 0u);
}

TEST(Segment, FileHasNoNameAndGoesWithItsUsers) {
  struct stat found {};
  const Segment made = Segment::create(kShape);
  ASSERT_EQ(::fstat(static_cast<int>(made.file().fd), &found), 0);
  EXPECT_EQ(found.st_nlink, 0u);
}

TEST(Segment, RefusesTooManyPesAndOtherShapes) {
  EXPECT_TRUE(contains(error_of([] { Segment::create({65, 1 << 16}); }), "this one has 65"));
  EXPECT_TRUE(contains(error_of([] { Segment::create({0, 1 << 16}); }), "this one has 0"));
  const Segment made = Segment::create(kShape);
  const auto other = [&] { Segment::open(made.file(), {3, 1 << 20}); };
  EXPECT_TRUE(contains(error_of(other), "PEAL_HEAP_SIZE must be alike"));
  PeerFile file = made.file();
  file.inode += 1;
  EXPECT_THROW(Segment::open(file, kShape), Error);
}

TEST(Segment, RefusesAFileThatIsNoneOfIts) {
  const Segment made = Segment::create(kShape);
  struct stat size {};
  ASSERT_EQ(::fstat(static_cast<int>(made.file().fd), &size), 0);
  const Fd file(::memfd_create("peal-test", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(file.get(), size.st_size), 0);
  struct stat found {};
  ASSERT_EQ(::fstat(file.get(), &found), 0);
  const PeerFile its{::getpid(), file.get(), found.st_dev, found.st_ino};
  EXPECT_TRUE(
      contains(error_of([&] { Segment::open(its, kShape); }), "is not the checker's memory"));
}

TEST(Segment, WordsAreFoundOnceSomethingWasReleasedOnThem) {
  const Segment made = Segment::create(kShape);
  EXPECT_FALSE(made.word(1, 64, false).found);
  raise(made.word(1, 64, true).what.at(0, 1), 3);
  EXPECT_EQ(made.word(1, 64, false).what.at(0, 1).load(), 3u);
  EXPECT_FALSE(made.word(2, 64, false).found);
  EXPECT_FALSE(made.word(1, 68, false).found);
}

TEST(Segment, WordsOfAFullTableAreOrderedWithEverything) {
  OrderRig job(2);
  const Segment& segment = job.segment();
  uint64_t word = kHeap;
  while (segment.word(0, word, true).found) word += 8;
  EXPECT_TRUE(segment.word(0, word, true).full);
  // A word that finds no room: its reader knows everything, and nothing is made up.
  uint64_t no_room = 64;
  while (!segment.word(1, no_room, true).full) no_room += 8;
  ASSERT_LT(no_room, kHeap / 2);
  job[0].put_signal(1, kHeap / 2, 1000, kHeap / 2, no_room);
  job[1].see(no_room);
  job[1].plain(1, kHeap / 2, 1000, false);
  EXPECT_TRUE(job.silent());
}

TEST(Segment, SitesRunOut) {
  const Segment made = Segment::create(kShape);
  uint16_t last = 0;
  for (int i = 0; i < (1 << 16) - 1; ++i) {
    const uint16_t next = made.new_site();
    ASSERT_GT(next, last);
    last = next;
  }
  EXPECT_TRUE(made.short_of_sites());
  EXPECT_EQ(made.new_site(), 0);
}

TEST(Segment, PesThatDieHoldUpNobody) {
  OrderRig job(2);
  for (int i = 0; i < 20; ++i) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (;;) {
        job[0].put_signal(1, 4096, 100000, 4096, 64);
        job.barrier_all();
      }
    }
    for (int calls = 0; calls < 50; ++calls) {
      job[1].see(64);
      job[1].g(1, 64);
      job[1].signal(0, 128);
    }
    ::kill(child, SIGKILL);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    job[1].put(0, 0, 200000, 0);  // returns
  }
}

}  // namespace
}  // namespace peal::checking
