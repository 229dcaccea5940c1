// SPDX-License-Identifier: Apache-2.0
//
// What other processes could map of memory of any kind, and every reason why they could not. A
// wrong answer would let a peer read and write another file.
#include "host/memory/shared_pages.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/error_of.h"

namespace peal {
namespace {

const size_t kPage = static_cast<size_t>(::sysconf(_SC_PAGESIZE));

/// Pages of this process, unmapped at the end.
class Mapped {
 public:
  Mapped(size_t bytes, int flags, int fd, size_t offset = 0, int access = PROT_READ | PROT_WRITE,
         void* at = nullptr)
      : bytes_(bytes),
        begin_(static_cast<std::byte*>(
            ::mmap(at, bytes, access, flags, fd, static_cast<off_t>(offset)))) {
    EXPECT_NE(static_cast<void*>(begin_), MAP_FAILED) << std::strerror(errno);
  }
  ~Mapped() { ::munmap(begin_, bytes_); }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  std::byte* begin() const { return begin_; }

 private:
  size_t bytes_;
  std::byte* begin_;
};

Fd sized(Fd file, size_t bytes) {
  EXPECT_EQ(::ftruncate(file.get(), static_cast<off_t>(bytes)), 0);
  return file;
}

Fd memfd(size_t bytes) { return sized(Fd(::memfd_create("shared_pages", MFD_CLOEXEC)), bytes); }

std::string name_in(const std::string& folder) {
  return folder + "/peal-shared-pages-" + std::to_string(::getpid());
}

Fd created(const std::string& path, size_t bytes) {
  return sized(Fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)), bytes);
}

/// Takes all descriptors that the process may still open.
class NoDescriptors {
 public:
  NoDescriptors() {
    for (Fd one(::dup(STDERR_FILENO)); one; one = Fd(::dup(STDERR_FILENO))) {
      taken_.push_back(std::move(one));
    }
  }

 private:
  std::vector<Fd> taken_;
};

/// A byte that is written here is there in what was found.
void expect_found(std::byte* address, size_t bytes) {
  const SharedPages pages = find_shared_pages(address, bytes);
  for (const size_t at : {size_t{0}, bytes - 1}) {
    const auto mark = static_cast<std::byte>(1 + at % 251);
    address[at] = mark;
    std::byte seen{};
    ASSERT_EQ(::pread(pages.file.get(), &seen, 1, static_cast<off_t>(pages.offset + at)), 1);
    EXPECT_EQ(seen, mark) << at;
    address[at] = std::byte{0};
  }
  EXPECT_NE(::fcntl(pages.file.get(), F_GETFD) & FD_CLOEXEC, 0);
}

void expect_refused(const std::byte* address, size_t bytes, const std::vector<std::string>& why) {
  expect_error(error_of([&] { find_shared_pages(address, bytes); }), ErrorCode::kUnsupported, why);
}

/// map_files opens for this user; elsewhere what has neither name nor descriptor is refused.
bool privileged() {
  const Mapped memory(kPage, MAP_SHARED | MAP_ANONYMOUS, -1);
  try {
    find_shared_pages(memory.begin(), 1);
    return true;
  } catch (const Error&) {
    return false;
  }
}

TEST(SharedPages, FindsAMemfdByItsDescriptor) {
  const Fd file = memfd(4 * kPage);
  const Mapped memory(4 * kPage, MAP_SHARED, file.get());
  expect_found(memory.begin(), 4 * kPage);
}

TEST(SharedPages, FindsTheBytesBehindAnOffset) {
  const Fd file = memfd(8 * kPage);
  const Mapped memory(4 * kPage, MAP_SHARED, file.get(), 3 * kPage);
  const SharedPages pages = find_shared_pages(memory.begin() + kPage + 13, 17);
  EXPECT_EQ(pages.offset, 4 * kPage + 13);
  expect_found(memory.begin() + kPage - 5, 2 * kPage + 10);
}

TEST(SharedPages, KeepsADescriptorOfItsOwn) {
  Fd file = memfd(kPage);
  const Mapped memory(kPage, MAP_SHARED, file.get());
  const SharedPages pages = find_shared_pages(memory.begin(), kPage);
  file = Fd();
  EXPECT_EQ(::fcntl(pages.file.get(), F_GETFL) & O_ACCMODE, O_RDWR);
}

// The inode is the same in another file system; the pages, by a descriptor that cannot write.
TEST(SharedPages, TakesNoDescriptorThatOnlyReads) {
  const std::string path = name_in("/dev/shm");
  created(path, kPage);
  const Fd reads(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  Fd writes(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  const Mapped memory(kPage, MAP_SHARED, writes.get());
  writes = Fd();
  expect_found(memory.begin(), kPage);
  ::unlink(path.c_str());
}

TEST(SharedPages, FindsFilesByTheirNames) {
  for (const std::string& folder : {std::string("/dev/shm"), testing::TempDir()}) {
    const std::string path = name_in(folder) + " with a space";
    Fd file = created(path, 3 * kPage);
    const Mapped memory(2 * kPage, MAP_SHARED, file.get(), kPage);
    file = Fd();
    expect_found(memory.begin() + 1, 2 * kPage - 1);
    ::unlink(path.c_str());
  }
}

TEST(SharedPages, FindsShmOpen) {
  const std::string name = "/peal-shm-" + std::to_string(::getpid());
  Fd file = sized(Fd(::shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600)), 2 * kPage);
  const Mapped memory(2 * kPage, MAP_SHARED, file.get());
  file = Fd();
  expect_found(memory.begin(), 2 * kPage);
  ::shm_unlink(name.c_str());
}

TEST(SharedPages, TakesNoOtherFileOfThatName) {
  const std::string path = name_in("/dev/shm");
  Fd file = created(path, kPage);
  const Mapped memory(kPage, MAP_SHARED, file.get());
  file = Fd();
  ::unlink(path.c_str());
  const Fd other = created(path, kPage);
  if (privileged()) {
    expect_found(memory.begin(), kPage);
  } else {
    expect_refused(memory.begin(), kPage, {"no descriptor of", "map_files", "keep one open"});
  }
  ::unlink(path.c_str());
}

TEST(SharedPages, FindsADeletedFileThatIsStillOpen) {
  const std::string path = name_in("/dev/shm");
  const Fd file = created(path, kPage);
  ::unlink(path.c_str());
  const Mapped memory(kPage, MAP_SHARED, file.get());
  expect_found(memory.begin(), kPage);
}

TEST(SharedPages, FindsWhatHasNoNameWhereItMay) {
  Fd file = memfd(2 * kPage);
  const Mapped memory(2 * kPage, MAP_SHARED, file.get());
  file = Fd();
  const Mapped anonymous(2 * kPage, MAP_SHARED | MAP_ANONYMOUS, -1);
  for (std::byte* begin : {memory.begin(), anonymous.begin()}) {
    if (privileged()) {
      expect_found(begin + 7, kPage);
    } else {
      expect_refused(begin, kPage, {"(deleted) is open", "Operation not permitted", "use a memfd"});
    }
  }
}

TEST(SharedPages, TakesMappingsThatFollowOneAnotherForOne) {
  const Fd file = memfd(4 * kPage);
  const Mapped memory(4 * kPage, MAP_SHARED, file.get());
  // The kernel splits it in three, and shows them so.
  ASSERT_EQ(::madvise(memory.begin() + kPage, kPage, MADV_DONTFORK), 0);
  expect_found(memory.begin() + 100, 3 * kPage);
}

TEST(SharedPages, RefusesMappingsThatDoNot) {
  const Fd file = memfd(4 * kPage);
  const Fd other = memfd(4 * kPage);
  const Mapped memory(3 * kPage, MAP_SHARED, file.get());
  for (const Fd* second : {&file, &other}) {
    const Mapped over(kPage, MAP_SHARED | MAP_FIXED, second->get(), 3 * kPage,
                      PROT_READ | PROT_WRITE, memory.begin() + kPage);
    expect_refused(memory.begin(), 2 * kPage, {"two mappings", "register two windows"});
    expect_found(memory.begin() + kPage, kPage);
  }
}

TEST(SharedPages, RefusesHoles) {
  const Fd file = memfd(3 * kPage);
  const Mapped memory(3 * kPage, MAP_SHARED, file.get());
  ASSERT_EQ(::munmap(memory.begin() + kPage, kPage), 0);
  expect_refused(memory.begin() + 1, 3 * kPage - 1,
                 {"nothing is mapped at its byte " + std::to_string(kPage - 1)});
  expect_refused(memory.begin() + kPage, 1, {"nothing is mapped at its byte 0"});
  expect_refused(memory.begin(), ~size_t{0}, {"are no memory"});
}

TEST(SharedPages, RefusesPrivateMemoryWithTheRemedy) {
  std::vector<std::byte> allocated(1 << 20);
  expect_refused(allocated.data(), allocated.size(),
                 {"private memory (anonymous memory)", "HeapKind::kHost", "MAP_SHARED"});
  const Fd file = memfd(kPage);
  const Mapped memory(kPage, MAP_PRIVATE, file.get());
  expect_refused(memory.begin(), kPage, {"private memory (/memfd:shared_pages"});
}

TEST(SharedPages, RefusesWhatCannotBeWritten) {
  const Fd file = memfd(kPage);
  const Mapped memory(kPage, MAP_SHARED, file.get(), 0, PROT_READ);
  expect_refused(memory.begin(), kPage, {"is mapped r--s", "PROT_WRITE"});
}

TEST(SharedPages, RefusesFilesThatEndBeforeIt) {
  const Fd file = memfd(kPage + 100);
  const Mapped memory(4 * kPage, MAP_SHARED, file.get());
  expect_found(memory.begin(), kPage + 100);
  expect_refused(memory.begin() + 10, 2 * kPage,
                 {"ends at byte " + std::to_string(2 * kPage + 10),
                  "which has " + std::to_string(kPage + 100), "ftruncate"});
}

TEST(SharedPages, ShowsLongPathsByTheirEnds) {
  const std::string path = name_in("/dev/shm") + std::string(150, 'x') + "end";
  const Fd file = created(path, kPage);
  ::unlink(path.c_str());
  const Mapped memory(kPage, MAP_PRIVATE, file.get());
  const Error error = error_of([&] { find_shared_pages(memory.begin(), kPage); });
  EXPECT_TRUE(contains(error, "xxxend (deleted)")) << error.what();
  EXPECT_LT(std::strlen(error.what()), 240u);
}

// Hazard: a process with as many files open as it may was told that "nothing is mapped".
TEST(SharedPages, SayThatNoFileCanBeOpened) {
  const Fd file = memfd(kPage);
  const Mapped mine(kPage, MAP_SHARED, file.get());
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{64, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::string why;
  {
    const NoDescriptors none;
    why = refusal(ErrorCode::kUnsupported, [&] { find_shared_pages(mine.begin(), kPage); });
  }
  ::setrlimit(RLIMIT_NOFILE, &before);
  expect_in(why, {"open(/proc/self/maps): Too many open files", "ulimit -n"});
}

}  // namespace
}  // namespace peal
