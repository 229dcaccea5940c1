// SPDX-License-Identifier: Apache-2.0
//
// One file and host memory. Hazard: a short read taken for the whole, a tail that O_DIRECT refuses,
// an end of file that leaves old memory looking like data.
#include "host/storage/file.h"

#include <cstring>

#include "tests/support/error_of.h"
#include "tests/unit/host/storage/faults.h"

namespace peal::storage {
namespace {

/// Memory at a place relative to a block.
class Room {
 public:
  Room(size_t bytes, size_t skew) : storage_(bytes + 2 * kBlock, std::byte{0}) {
    const auto begin = reinterpret_cast<uintptr_t>(storage_.data());
    at_ = storage_.data() + (kBlock - begin % kBlock) + skew;
  }
  std::byte* at() { return at_; }
  std::string text(size_t bytes) const { return {reinterpret_cast<const char*>(at_), bytes}; }

 private:
  std::vector<std::byte> storage_;
  std::byte* at_;
};

using FileOf = Storage;

void expect_ranges_read(const std::string& path, const std::string& bytes) {
  File file(Faults::calls(), path, File::Use::kRead, true);
  EXPECT_EQ(file.bytes(), bytes.size());
  for (const size_t offset : {0, 1, 4095, 4096, 5000, 8192}) {
    for (const size_t count : {0, 1, 511, 4096, 4097, 12288, 20000}) {
      for (const size_t skew : {size_t{0}, size_t{7}, offset % kBlock}) {
        Room room(count, skew);
        file.read(offset, room.at(), count);
        ASSERT_EQ(room.text(count), bytes.substr(offset, count)) << offset << " " << count;
      }
    }
  }
}

TEST_F(FileOf, ReadsEveryRangeWhateverItsAlignment) {
  const std::string bytes = pattern(30001);
  put_file(path(), bytes);
  expect_ranges_read(path(), bytes);
}

TEST_F(FileOf, GoesOnAfterShortReadsAndInterruptions) {
  const std::string bytes = pattern(30001);
  put_file(path(), bytes);
  Faults::interrupt_every = 3;
  for (const size_t longest : {700, 4096, 5000}) {
    Faults::longest = longest;
    expect_ranges_read(path(), bytes);
  }
}

TEST_F(FileOf, GoesThroughThePageCacheWhereDirectIsRefused) {
  const std::string bytes = pattern(30001);
  put_file(path(), bytes);
  Faults::direct_error = EINVAL;
  expect_ranges_read(path(), bytes);
  const File file(Faults::calls(), path(), File::Use::kRead, true);
  EXPECT_FALSE(file.direct());
  EXPECT_EQ(file.describe(), "through the page cache (open with O_DIRECT: Invalid argument)");
}

TEST_F(FileOf, GoesThroughThePageCacheWhereDirectTransfersAreRefused) {
  const std::string bytes = pattern(30001);
  put_file(path(), bytes);
  Faults::direct_transfer_error = EINVAL;
  expect_ranges_read(path(), bytes);
}

TEST_F(FileOf, LeavesThePageCacheOutForWholeBlocks) {
  put_file(path(), pattern(5 * kBlock));
  File file(Faults::calls(), path(), File::Use::kRead, true);
  if (!file.direct()) GTEST_SKIP() << file.describe();
  Room room(3 * kBlock, 0);
  file.read(kBlock, room.at(), 3 * kBlock);
  EXPECT_EQ(Faults::direct_moves, 1);
  EXPECT_EQ(Faults::moves, 1);
}

TEST_F(FileOf, NamesWhatItFoundWhereTheFileEnds) {
  put_file(path(), pattern(10));
  File file(Faults::calls(), path(), File::Use::kRead, true);
  Room room(100, 0);
  expect_error(error_of([&] { file.read(4, room.at(), 20); }), ErrorCode::kInvalidArgument,
               {path(), "20 bytes at offset 4", "6 found", "ends at 10"});
}

TEST_F(FileOf, NamesOffsetAndCauseOfFailures) {
  put_file(path(), pattern(3 * kBlock));
  File file(Faults::calls(), path(), File::Use::kWrite, false);
  Room room(3 * kBlock, 0);
  Faults::read_error = EIO;
  expect_error(error_of([&] { file.read(0, room.at(), kBlock); }), ErrorCode::kSystem,
               {"read of 4096 bytes at offset 0", path(), "Input/output error", "kernel's log"});
  Faults::write_error = ENOSPC;
  expect_error(error_of([&] { file.write(kBlock, room.at(), 10); }), ErrorCode::kSystem,
               {"write of 10 bytes at offset 4096", path(), "No space left", "free space"});
  Faults::sync_error = EDQUOT;
  expect_error(error_of([&] { file.sync(); }), ErrorCode::kSystem, {"fsync", path(), "quota"});
}

TEST_F(FileOf, WritesEveryRangeAndNothingBeside) {
  Faults::longest = 5000;
  Faults::interrupt_every = 5;
  for (const size_t offset : {0, 1, 4096, 5000}) {
    for (const size_t count : {0, 1, 4096, 12289}) {
      for (const size_t skew : {size_t{0}, size_t{9}, offset % kBlock}) {
        const std::string before = pattern(20000, 1);
        const std::string part = pattern(count, 2);
        put_file(path(), before);
        Room room(count, skew);
        std::memcpy(room.at(), part.data(), count);
        File(Faults::calls(), path(), File::Use::kWrite, true).write(offset, room.at(), count);
        std::string wanted = before;
        wanted.replace(offset, count, part);
        ASSERT_EQ(file_at(path()), wanted) << offset << " " << count;
      }
    }
  }
}

TEST_F(FileOf, ReadsHolesAsZeros) {
  put_file(path(), "begin");
  std::filesystem::resize_file(path(), 50000);
  Room room(50000, 0);
  File(Faults::calls(), path(), File::Use::kRead, true).read(0, room.at(), 50000);
  EXPECT_EQ(room.text(50000), "begin" + std::string(49995, '\0'));
}

// Tests may run as root, who may read everything.
TEST_F(FileOf, NamesTheRightThatIsMissing) {
  SystemCalls calls = Faults::calls();
  calls.open = [](const char*, int, mode_t) { return errno = EACCES, -1; };
  expect_error(error_of([&] { File(calls, path(), File::Use::kRead, true); }),
               ErrorCode::kInvalidArgument, {"open of " + path(), "Permission denied", "right"});
  expect_error(error_of([&] { File(calls, path(), File::Use::kWrite, true); }),
               ErrorCode::kInvalidArgument, {"open for writing of " + path()});
}

TEST_F(FileOf, RefusesWhatCannotBeOpened) {
  const auto opened = [&](const std::string& name, File::Use use) {
    return error_of([&] { File(Faults::calls(), name, use, true); });
  };
  expect_error(opened(path("none"), File::Use::kRead), ErrorCode::kInvalidArgument,
               {path("none"), "No such file"});
  expect_error(opened(path("none"), File::Use::kWrite), ErrorCode::kInvalidArgument,
               {path("none"), "No such file"});
  expect_error(opened(path("no/such"), File::Use::kWrite), ErrorCode::kInvalidArgument,
               {"does every folder in it exist"});
  expect_error(opened(path(""), File::Use::kRead), ErrorCode::kInvalidArgument,
               {"no regular file"});
  expect_error(opened("", File::Use::kRead), ErrorCode::kInvalidArgument, {"empty"});
  expect_error(opened("/dev/null", File::Use::kRead), ErrorCode::kInvalidArgument,
               {"/dev/null", "no regular file"});
  put_file(path("target"), "target");
  ASSERT_EQ(::symlink(path("target").c_str(), path("link").c_str()), 0);
  EXPECT_STREQ(opened(path("link"), File::Use::kRead).what(), "no error");
  expect_error(opened(path("link"), File::Use::kWrite), ErrorCode::kInvalidArgument,
               {path("link"), "symbolic links"});
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  expect_error(opened(path("pipe"), File::Use::kRead), ErrorCode::kInvalidArgument,
               {"no regular file"});
}

}  // namespace
}  // namespace peal::storage
