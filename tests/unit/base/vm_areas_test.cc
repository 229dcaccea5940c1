// SPDX-License-Identifier: Apache-2.0
//
// Both ways to find out what is mapped, beside what the test has mapped itself.
#include "base/vm_areas.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <string>

namespace peal {
namespace {

const uintptr_t kPage = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));

std::optional<VmAreas> by_query(uintptr_t begin, uintptr_t end) {
  return vm_areas_detail::asked(Fd(::open(kMaps, O_RDONLY | O_CLOEXEC)), begin, end);
}

/// Six pages: private, none, a memfd's third and fourth page to be read alone, none, not to be
/// read.
class Pages : public ::testing::Test {
 protected:
  Pages() {
    void* const all =
        ::mmap(nullptr, 6 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(all, MAP_FAILED);
    begin = reinterpret_cast<uintptr_t>(all);
    EXPECT_EQ(::ftruncate(file.get(), static_cast<off_t>(4 * kPage)), 0);
    EXPECT_NE(::mmap(page(2), 2 * kPage, PROT_READ, MAP_SHARED | MAP_FIXED, file.get(),
                     static_cast<off_t>(2 * kPage)),
              MAP_FAILED);
    EXPECT_EQ(::munmap(page(1), kPage), 0);
    EXPECT_EQ(::munmap(page(4), kPage), 0);
    EXPECT_EQ(::mprotect(page(5), kPage, PROT_NONE), 0);
  }
  ~Pages() override { ::munmap(page(0), 6 * kPage); }

  void* page(uintptr_t number) const { return reinterpret_cast<void*>(begin + number * kPage); }

  void expect_all(const std::optional<VmAreas>& found) const {
    ASSERT_TRUE(found) << std::strerror(errno);
    ASSERT_EQ(found->size(), 3u);
    const VmArea& memory = (*found)[0];
    EXPECT_LE(memory.begin, begin);
    EXPECT_EQ(memory.end, begin + kPage);
    EXPECT_STREQ(memory.access, "rw-p");
    EXPECT_EQ(memory.inode, 0u);
    EXPECT_EQ(memory.path, "");

    const VmArea& shared = (*found)[1];
    struct stat info {};
    ::fstat(file.get(), &info);
    EXPECT_EQ(shared.begin, begin + 2 * kPage);
    EXPECT_EQ(shared.end, begin + 4 * kPage);
    EXPECT_STREQ(shared.access, "r--s");
    EXPECT_EQ(shared.offset, 2 * kPage);
    EXPECT_EQ(shared.inode, info.st_ino);
    EXPECT_EQ(shared.path, "/memfd:areas (deleted)");

    EXPECT_EQ((*found)[2].begin, begin + 5 * kPage);
    EXPECT_STREQ((*found)[2].access, "---p");
  }

  const Fd file{::memfd_create("areas", MFD_CLOEXEC)};
  uintptr_t begin = 0;
};

TEST_F(Pages, AreFoundByReading) {
  expect_all(vm_areas_detail::read(begin, begin + 6 * kPage));
  expect_all(vm_areas_of(begin, begin + 6 * kPage));
}

TEST_F(Pages, AreFoundByAsking) {
  if (!by_query(begin, begin + 1)) GTEST_SKIP() << "PROCMAP_QUERY: " << std::strerror(errno);
  expect_all(by_query(begin, begin + 6 * kPage));
}

TEST_F(Pages, AreThoseThatSomeOfTheRangeLiesIn) {
  const auto count = [](uintptr_t from, uintptr_t end) { return vm_areas_of(from, end)->size(); };
  EXPECT_EQ(count(begin + kPage, begin + 2 * kPage), 0u);
  EXPECT_EQ(count(begin + kPage, begin + 2 * kPage + 1), 1u);
  EXPECT_EQ(count(begin + kPage - 1, begin + kPage), 1u);
  EXPECT_EQ(count(begin + 3 * kPage, begin + 3 * kPage + 1), 1u);
  EXPECT_EQ(count(begin, begin), 0u);
  EXPECT_EQ(count(UINTPTR_MAX - 1, UINTPTR_MAX), 0u);
}

/// Code, constants, data, the heap, libraries and stacks.
TEST(VmAreas, AreTheSameEitherWay) {
  const auto asked = by_query(0, UINTPTR_MAX);
  if (!asked) GTEST_SKIP() << "PROCMAP_QUERY: " << std::strerror(errno);
  const auto read = vm_areas_detail::read(0, UINTPTR_MAX);
  ASSERT_TRUE(read);
  size_t same = 0;
  for (const VmArea& a : *asked) {
    for (const VmArea& b : *read) {
      same += a.begin == b.begin && a.end == b.end && std::strcmp(a.access, b.access) == 0 &&
              a.offset == b.offset && a.same_file(b) && a.path == b.path;
    }
  }
  EXPECT_GT(same, 10u);
  EXPECT_GE(same + 4, asked->size());  // the heap may have grown, and [vsyscall] is not answered
}

}  // namespace
}  // namespace peal
