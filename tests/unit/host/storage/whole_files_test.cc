// SPDX-License-Identifier: Apache-2.0
//
// Files into memory and back, and the parts of PEs. Hazard: a part that overlaps another or leaves
// bytes out, memory beside it that changes.
#include "host/storage/whole_files.h"

#include "tests/support/error_of.h"
#include "tests/unit/host/storage/faults.h"

namespace peal::storage {
namespace {

class WholeFiles : public Storage {
 protected:
  Engine engine_{{.threads = 3, .piece_bytes = 2 * kBlock, .calls = &Faults::calls()}};
};

MemoryRange memory_of(std::string& text) {
  return {reinterpret_cast<std::byte*>(text.data()), text.size()};
}

TEST_F(WholeFiles, LoadAnyRange) {
  const std::string bytes = pattern(70001);
  put_file(path(), bytes);
  for (const size_t offset : {0, 1, 5000, 8192, 70001}) {
    std::string got(70001 - offset, 'x');
    load(engine_, path(), offset, memory_of(got));
    EXPECT_EQ(got, bytes.substr(offset));
  }
}

TEST_F(WholeFiles, RefuseToLoadWhatIsNotThereAndLeaveMemoryAlone) {
  put_file(path(), pattern(100));
  std::string got(200, 'x');
  expect_error(error_of([&] { load(engine_, path(), 0, memory_of(got)); }),
               ErrorCode::kInvalidArgument, {path(), "200 bytes at offset 0", "has 100 bytes"});
  expect_error(error_of([&] { load(engine_, path(), ~uint64_t{0}, memory_of(got)); }),
               ErrorCode::kInvalidArgument, {"has 100 bytes"});
  expect_error(error_of([&] { load(engine_, path("none"), 0, memory_of(got)); }),
               ErrorCode::kInvalidArgument, {path("none"), "No such file"});
  EXPECT_EQ(got, std::string(200, 'x'));
}

TEST_F(WholeFiles, TellOfADiskThatFails) {
  put_file(path(), pattern(70000));
  std::string got(70000, 'x');
  Faults::read_error = EIO;
  Faults::error_at = 40000;
  expect_error(error_of([&] { load(engine_, path(), 0, memory_of(got)); }), ErrorCode::kSystem,
               {path(), "Input/output error"});
  Faults::clear();
  load(engine_, path(), 0, memory_of(got));
  EXPECT_EQ(got, pattern(70000));
}

TEST_F(WholeFiles, AreDividedAmongPes) {
  const std::string bytes = pattern(4 * 5003);
  put_file(path(), bytes);
  for (const int n_pes : {1, 2, 3, 7}) {
    std::string together;
    for (int pe = 0; pe < n_pes; ++pe) {
      std::string got(bytes.size() + 10, 'x');
      const Shard mine = load_shard(engine_, path(), 4, pe, n_pes, memory_of(got));
      EXPECT_EQ(mine.offset, together.size());
      EXPECT_EQ(mine.bytes % 4, 0u);
      EXPECT_LE(mine.bytes, bytes.size() / static_cast<size_t>(n_pes) + 4);
      EXPECT_EQ(got.substr(mine.bytes), std::string(got.size() - mine.bytes, 'x'));
      together += got.substr(0, mine.bytes);
    }
    EXPECT_EQ(together, bytes);
  }
}

TEST_F(WholeFiles, HaveEmptyPartsWhereThereAreMorePesThanUnits) {
  EXPECT_EQ(shard_of(8, 4, 1, 5).bytes, 4u);
  EXPECT_EQ(shard_of(8, 4, 4, 5).bytes, 0u);
  EXPECT_EQ(shard_of(8, 4, 4, 5).offset, 8u);
}

TEST_F(WholeFiles, RefuseWrongParts) {
  put_file(path(), pattern(1001));
  std::string got(400, 'x');
  const auto part = [&](size_t unit, int pe, int n_pes) {
    return error_of([&] { load_shard(engine_, path(), unit, pe, n_pes, memory_of(got)); });
  };
  expect_error(part(4, 0, 2), ErrorCode::kInvalidArgument, {"1001 bytes", "units of 4"});
  expect_error(part(0, 0, 2), ErrorCode::kInvalidArgument, {"units of 0"});
  expect_error(part(1, 2, 2), ErrorCode::kInvalidArgument, {"no PE 2 of 2"});
  expect_error(part(1, 0, 2), ErrorCode::kInvalidArgument, {path(), "501 bytes", "400"});
}

TEST_F(WholeFiles, AreSavedFromMemoryOfAnyAlignment) {
  for (const size_t skew : {0, 1, 100}) {
    std::string bytes = pattern(50000);
    save(engine_, path(), {reinterpret_cast<std::byte*>(bytes.data()) + skew, bytes.size() - skew});
    EXPECT_EQ(file_at(path()), bytes.substr(skew));
  }
}

}  // namespace
}  // namespace peal::storage
