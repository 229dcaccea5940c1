// SPDX-License-Identifier: Apache-2.0
//
// Who closes a descriptor, and whose descriptor of another process is taken.
#include "base/fd.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "base/peer_file.h"

namespace peal {
namespace {

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

Fd new_file() { return Fd(::memfd_create("peal-test", MFD_CLOEXEC)); }

TEST(Fd, ClosesOnceAndWhenReplaced) {
  Fd first = new_file();
  const int number = first.get();
  Fd second = std::move(first);
  EXPECT_FALSE(first);
  EXPECT_TRUE(is_open(number));
  Fd third = new_file();
  third = std::move(second);
  EXPECT_EQ(third.get(), number);
  third = Fd();
  EXPECT_FALSE(is_open(number));
}

TEST(PeerFile, IsTheFileThatWasMeant) {
  const Fd file = new_file();
  struct stat info {};
  ASSERT_EQ(::fstat(file.get(), &info), 0);
  const PeerFile meant{::getpid(), file.get(), info.st_dev, info.st_ino};
  EXPECT_TRUE(open_peer_file(meant, O_RDWR));
}

// The process closed its file and has another under that number.
TEST(PeerFile, RefusesAnotherFileUnderTheSameNumber) {
  const Fd file = new_file();
  struct stat info {};
  ASSERT_EQ(::fstat(file.get(), &info), 0);
  const Fd other = new_file();
  EXPECT_FALSE(open_peer_file({::getpid(), other.get(), info.st_dev, info.st_ino}, O_RDONLY));
  EXPECT_EQ(errno, ESTALE);
  EXPECT_FALSE(open_peer_file({::getpid(), -1, info.st_dev, info.st_ino}, O_RDONLY));
  EXPECT_EQ(errno, ENOENT);
}

}  // namespace
}  // namespace peal
