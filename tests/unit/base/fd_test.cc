// SPDX-License-Identifier: Apache-2.0
//
// Who closes a descriptor, which numbers it may have, and whose descriptor of another process is
// taken. Hazard: in a program without standard error a heap got number 2, and was printed into.
#include "base/fd.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <filesystem>
#include <functional>
#include <memory>

#include "base/files.h"
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

/// What `body` answers in a process whose standard descriptors are closed.
bool without_standard(const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (int fd = 0; fd <= STDERR_FILENO; ++fd) ::close(fd);
    ::_exit(body() ? 0 : 1);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool is_private(int fd) { return fd > STDERR_FILENO && ::fcntl(fd, F_GETFD) == FD_CLOEXEC; }

bool none_is_open(int first, int last) {
  while (first <= last && !is_open(first)) ++first;
  return first > last;
}

TEST(Fd, IsNeverAStandardDescriptor) {
  EXPECT_TRUE(without_standard([] {
    const Fd first = new_file();
    const Fd second = new_file();
    int ends[2] = {};
    if (::pipe2(ends, O_CLOEXEC) != 0) return false;
    const Fd read(ends[0]);
    const Fd write(ends[1]);
    const bool works = ::write(write.get(), "x", 1) == 1 && ::read(read.get(), ends, 4) == 1;
    return works && is_private(first.get()) && is_private(second.get()) && is_private(read.get()) &&
           is_private(write.get()) && none_is_open(0, STDERR_FILENO);
  }));
}

TEST(Fd, IsNoneWhereItCanNotMove) {
  EXPECT_TRUE(without_standard([] {
    const rlimit only_standard{3, 3};
    if (::setrlimit(RLIMIT_NOFILE, &only_standard) != 0) return false;
    const int taken = ::memfd_create("peal-test", MFD_CLOEXEC);
    errno = 0;
    const Fd moved(taken);
    return taken == 0 && !moved && errno != 0 && errno != EBADF && !is_open(taken);
  }));
}

TEST(Fd, FilesAreNoStandardDescriptors) {
  const std::string path = ::testing::TempDir() + "peal-fd-test";
  EXPECT_TRUE(
      without_standard([&] { return write_file(path, "text") && bytes_of(path) == "text"; }));
  std::filesystem::remove(path);
}

TEST(Fd, OfOtherCodeIsClosedByExec) {
  const int theirs = ::dup(STDERR_FILENO);
  ASSERT_EQ(::fcntl(theirs, F_GETFD), 0);
  const Fd ours = closed_by_exec(theirs);
  EXPECT_EQ(ours.get(), theirs);
  EXPECT_TRUE(is_private(ours.get()));
  EXPECT_FALSE(closed_by_exec(-1));
}

/// A standard descriptor that is open stays what it is.
TEST(StandardDescriptors, AreTakenByTheNullDeviceWhereClosed) {
  EXPECT_TRUE(without_standard([] {
    const int kept = ::memfd_create("peal-test", 0);
    if (kept != 0 || ::dup2(kept, STDOUT_FILENO) != STDOUT_FILENO || ::close(kept) != 0)
      return false;
    occupy_standard_descriptors();
    const std::filesystem::path open = "/proc/self/fd";
    const int next = ::memfd_create("peal-test", MFD_CLOEXEC);
    return std::filesystem::read_symlink(open / "0") == "/dev/null" &&
           std::filesystem::read_symlink(open / "1") != "/dev/null" &&
           std::filesystem::read_symlink(open / "2") == "/dev/null" && next == 3;
  }));
}

// A child that lives must not hold open what tells of its parent's end.
TEST(Fd, IsClosedInAChild) {
  const Fd file = new_file();
  const int number = file.get();
  const pid_t child = ::fork();
  if (child == 0) ::_exit(is_open(number) || file ? 1 : 0);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(is_open(number));
}

// What the child opens under the number that a copy of its parent's had is the child's own.
TEST(Fd, OfAParentClosesNothingInAChild) {
  auto file = std::make_unique<Fd>(new_file());
  const int number = file->get();
  const pid_t child = ::fork();
  if (child == 0) {
    const int own = ::fcntl(STDIN_FILENO, F_DUPFD, number);
    file.reset();
    ::_exit(own == number && is_open(own) ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(Fd, GoesOnInAChildThatIsPartOfTheProgram) {
  const Fd file = new_file();
  const pid_t child = Forks::fork_whole();
  if (child == 0) ::_exit(is_open(file.get()) ? 0 : 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(OfProcess, IsLeftAloneByAChild) {
  struct Noisy {
    ~Noisy() { ::_exit(1); }
  };
  OfProcess<Noisy> noisy(std::make_unique<Noisy>());
  const pid_t child = ::fork();
  if (child == 0) {
    if (noisy.here()) ::_exit(2);
    noisy = OfProcess<Noisy>();
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  static_cast<void>(noisy.take().release());
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
