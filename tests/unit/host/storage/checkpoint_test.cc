// SPDX-License-Identifier: Apache-2.0
//
// Checkpoints of several PEs, which are threads. Hazard: a PE that fails alone, a damaged file that
// loads, an old checkpoint that a failed save has spoiled.
#include "host/storage/checkpoint.h"

#include <sys/wait.h>

#include <functional>
#include <optional>

#include "bootstrap/bootstraps.h"
#include "tests/support/error_of.h"
#include "tests/unit/host/storage/faults.h"

namespace peal::storage {
namespace {

using Names = std::vector<std::string>;
constexpr int kPes = 3;
constexpr size_t kBytes = 21000;  // three pieces of two blocks, the last one short

class Checkpoint : public Storage {
 protected:
  using Body = std::function<void(Engine&, Bootstrap&)>;

  /// The error of the PEs, all of whom have the same.
  Error together_on(int n_pes, const Body& body) {
    std::vector<std::optional<Error>> errors(static_cast<size_t>(n_pes));
    bootstrap::run_threads(n_pes, [&](Bootstrap& group) {
      Engine engine({.threads = 2, .piece_bytes = 2 * kBlock, .calls = &Faults::calls()});
      errors[static_cast<size_t>(group.rank())] = error_of([&] { body(engine, group); });
    });
    for (const auto& error : errors) EXPECT_STREQ(error->what(), errors[0]->what());
    return *errors[0];
  }
  Error save(unsigned seed, size_t bytes = kBytes, int n_pes = kPes) {
    return together_on(n_pes, [&](Engine& engine, Bootstrap& group) {
      std::string mine = part(bytes, seed, group.rank());
      save_checkpoint(engine, group, path(),
                      {reinterpret_cast<std::byte*>(mine.data()), mine.size()});
    });
  }
  /// Loads, and compares with what save() saved.
  Error load(unsigned seed, size_t bytes = kBytes, int n_pes = kPes) {
    return together_on(n_pes, [&](Engine& engine, Bootstrap& group) {
      std::string mine(bytes, 'x');
      load_checkpoint(engine, group, path(),
                      {reinterpret_cast<std::byte*>(mine.data()), mine.size()});
      if (mine != part(bytes, seed, group.rank())) fail(ErrorCode::kInternal, "other bytes");
    });
  }
  static std::string part(size_t bytes, unsigned seed, int pe) {
    return pattern(bytes, seed * 100 + static_cast<unsigned>(pe));
  }
  /// Changes a bit of the file.
  void damage(uint64_t offset) {
    std::string bytes = file_at(path());
    bytes.at(offset) = static_cast<char>(bytes.at(offset) ^ 0x10);
    put_file(path(), bytes);
  }
  static CheckpointLayout layout() {
    CheckpointHeader header;
    header.n_pes = kPes;
    header.part_bytes = kBytes;
    header.piece_bytes = 2 * kBlock;
    return CheckpointLayout(header);
  }
};

constexpr const char* kGood = "no error";

TEST_F(Checkpoint, ComesBackAsItWasSaved) {
  for (const int n_pes : {1, 2, 3}) {
    for (const size_t bytes : {size_t{0}, size_t{1}, kBlock, kBytes}) {
      EXPECT_STREQ(save(7, bytes, n_pes).what(), kGood);
      EXPECT_STREQ(load(7, bytes, n_pes).what(), kGood);
      EXPECT_EQ(names(), Names{"file"});
    }
  }
}

TEST_F(Checkpoint, LiesInTheFileAsItsFormatSays) {
  EXPECT_STREQ(save(1).what(), kGood);
  const std::string bytes = file_at(path());
  // 1 block; 3 parts of 6 blocks; 3 times 4 sums, in a block each.
  ASSERT_EQ(bytes.size(), 22u * 4096);
  const std::string begin{"peal ckp\1\0\0\0\3\0\0\0\x08\x52\0\0\0\0\0\0\0\x20\0\0\0\0\0\0", 32};
  EXPECT_EQ(bytes.substr(0, 32), begin);
  for (size_t pe = 0; pe < 3; ++pe) {
    EXPECT_EQ(bytes.substr(4096 + pe * 6 * 4096, kBytes), part(kBytes, 1, static_cast<int>(pe)));
  }
}

TEST_F(Checkpoint, TellsWhichPartAndWhichBytesAreDamaged) {
  EXPECT_STREQ(save(1).what(), kGood);
  damage(layout().part(1) + 9000);
  damage(layout().part(1) + 20999);
  expect_error(
      load(1), ErrorCode::kSystem,
      {path(), "part of PE 1", "2 of 3 pieces", "bytes 8192 to 16383", "offset 36864 of the file"});
}

TEST_F(Checkpoint, TellsOfDamagedSumsAndHeaders) {
  EXPECT_STREQ(save(1).what(), kGood);
  damage(layout().sums(2) + 8);
  expect_error(load(1), ErrorCode::kSystem, {path(), "checksums of PE 2"});
  EXPECT_STREQ(save(1).what(), kGood);
  damage(13);
  expect_error(load(1), ErrorCode::kInvalidArgument, {path(), "header", "damaged"});
}

TEST_F(Checkpoint, NoticesPiecesInEachOthersPlace) {
  EXPECT_STREQ(save(1).what(), kGood);
  std::string bytes = file_at(path());
  std::swap_ranges(&bytes[layout().part(0)], &bytes[layout().part(0) + 8192],
                   &bytes[layout().part(0) + 8192]);
  put_file(path(), bytes);
  expect_error(load(1), ErrorCode::kSystem, {"part of PE 0", "2 of 3 pieces"});
}

TEST_F(Checkpoint, RefusesWhatIsNone) {
  expect_error(load(1), ErrorCode::kInvalidArgument, {path(), "No such file"});
  put_file(path(), "text");
  expect_error(load(1), ErrorCode::kInvalidArgument, {path(), "no checkpoint", "4 bytes"});
  put_file(path(), pattern(50000));
  expect_error(load(1), ErrorCode::kInvalidArgument, {path(), "no checkpoint", "begin"});
  EXPECT_STREQ(save(1).what(), kGood);
  std::filesystem::resize_file(path(), 22 * 4096 - 1);
  expect_error(load(1), ErrorCode::kInvalidArgument, {path(), "cut short", "90111 of 90112"});
  std::string other = file_at(path());
  other[8] = 2;
  put_file(path(), other);
  expect_error(load(1), ErrorCode::kInvalidArgument, {path(), "version 2", "version 1"});
}

TEST_F(Checkpoint, RefusesAnotherNumberOfPesOrBytes) {
  EXPECT_STREQ(save(1).what(), kGood);
  expect_error(load(1, kBytes, 2), ErrorCode::kInvalidArgument, {"3 PEs", "has 2", "start 3"});
  expect_error(load(1, kBytes + 1), ErrorCode::kInvalidArgument, {"21000 bytes", "21001"});
}

TEST_F(Checkpoint, KeepsTheOneBeforeWhateverFails) {
  EXPECT_STREQ(save(1).what(), kGood);
  for (auto* const fault : {&Faults::write_error, &Faults::sync_error, &Faults::rename_error}) {
    // From the beginning, in the part of PE 1 alone and those behind it, in the last sums.
    for (const uint64_t at : {uint64_t{0}, layout().part(1), layout().sums(2)}) {
      Faults::clear();
      Faults::error_at = static_cast<off_t>(at) + 1;
      *fault = ENOSPC;
      expect_error(save(2), ErrorCode::kSystem, {path(), "No space left", "free space"});
      Faults::clear();
      EXPECT_EQ(names(), Names{"file"});
      EXPECT_STREQ(load(1).what(), kGood);
    }
  }
}

TEST_F(Checkpoint, IsTheOldOneOrTheNewOneWhereverTheSaversAreKilled) {
  int killed = 0;
  for (bool ended = false; !ended; ++killed) {
    ASSERT_LT(killed, 1000);
    EXPECT_STREQ(save(1).what(), kGood);  // which takes over what a killed one has left
    const pid_t child = ::fork();
    if (child == 0) {
      Faults::clear();
      Faults::kill_at = killed + 1;
      save(2);
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ended = WIFEXITED(status);
    Faults::clear();
    const bool old_one = std::string(load(1).what()) == kGood;
    const bool new_one = std::string(load(2).what()) == kGood;
    EXPECT_TRUE(old_one != new_one) << killed;
    EXPECT_TRUE(new_one || !ended);
  }
  EXPECT_GT(killed, 15);
}

// Saves that are killed, and what the same save does then. Hazard: bytes of a killed saver that are
// taken for those of this one.
TEST_F(Checkpoint, IsNotWrittenAgainAsFarAsAKilledSaverCame) {
  EXPECT_STREQ(save(2).what(), kGood);
  const int all = Faults::changes;
  int least = all;
  for (int kill_at = 1; kill_at < all; ++kill_at) {
    for (const unsigned seed : {2u, 3u}) {
      EXPECT_STREQ(save(1).what(), kGood);
      const pid_t child = ::fork();
      if (child == 0) {
        Faults::clear();
        Faults::kill_at = kill_at;
        save(2);
        ::_exit(0);
      }
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      ASSERT_TRUE(WIFSIGNALED(status));
      Faults::clear();
      EXPECT_STREQ(save(seed).what(), kGood);
      if (seed == 2) least = std::min<int>(least, Faults::changes);
      EXPECT_STREQ(load(seed).what(), kGood) << kill_at;
      EXPECT_EQ(names(), Names{"file"});
    }
  }
  EXPECT_LE(least, all - 9);  // none of nine pieces
}

TEST_F(Checkpoint, IsWrittenWhereWhatWasLeftCannotBeRead) {
  put_file(path("file.partial"), pattern(100000));
  Faults::read_error = EIO;
  Faults::error_at = static_cast<off_t>(layout().part(0));  // the name is read before
  EXPECT_STREQ(save(1).what(), kGood);
  Faults::clear();
  EXPECT_STREQ(load(1).what(), kGood);
}

// Another file was overwritten, and the checkpoint was a link to it.
TEST_F(Checkpoint, FollowsNoLinkInItsWay) {
  for (const auto link : {::symlink, ::link}) {
    put_file(path("other"), "other");
    ASSERT_EQ(link(path("other").c_str(), path("file.partial").c_str()), 0);
    EXPECT_STREQ(save(1).what(), kGood);
    EXPECT_TRUE(file_at(path("other")) == "other");
    EXPECT_FALSE(std::filesystem::is_symlink(path()));
    EXPECT_STREQ(load(1).what(), kGood);
    EXPECT_EQ(names(), (Names{"file", "other"}));
  }
}

// A PE that ends in the middle; the others hear of it by their bootstrap.
TEST_F(Checkpoint, KeepsTheOneBeforeWhereAPeEnds) {
  struct Ended {};
  EXPECT_STREQ(save(1).what(), kGood);
  SystemCalls calls = Faults::calls();
  calls.pwrite = [](int, const void*, size_t, off_t) -> ssize_t { throw Ended{}; };
  std::vector<Error> errors(kPes, {ErrorCode::kInternal, "ended"});
  const auto body = [&](Bootstrap& group) {
    const bool ends = group.rank() == 2;
    Engine engine({.calls = ends ? &calls : &Faults::calls()});
    std::string bytes = pattern(kBytes);
    const auto save_it = [&] {
      save_checkpoint(engine, group, path(),
                      {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()});
    };
    errors[static_cast<size_t>(group.rank())] = error_of(save_it);
  };
  EXPECT_THROW(bootstrap::run_threads(kPes, body), Error);
  for (const size_t pe : {0, 1}) expect_error(errors[pe], ErrorCode::kPeerLost, {"rank 2"});
  EXPECT_EQ(names(), Names{"file"});
  EXPECT_STREQ(load(1).what(), kGood);
}

TEST_F(Checkpoint, RefusesPesThatAskDifferently) {
  const auto ask = [&](const Body& body) { return together_on(2, body); };
  std::string bytes = pattern(100);
  auto* const at = reinterpret_cast<std::byte*>(bytes.data());
  const Error sizes = ask([&](Engine& engine, Bootstrap& group) {
    save_checkpoint(engine, group, path(), {at, 100 - static_cast<size_t>(group.rank())});
  });
  expect_error(sizes, ErrorCode::kInvalidArgument, {path(), "PE 1 has 99 bytes and PE 0 100"});
  const Error paths = ask([&](Engine& engine, Bootstrap& group) {
    save_checkpoint(engine, group, path(std::to_string(group.rank())), {at, 100});
  });
  expect_error(paths, ErrorCode::kInvalidArgument, {"PE 1 names another path"});
  EXPECT_EQ(names(), Names{});
}

thread_local std::string elsewhere;  // what this PE opens in place of any path; empty: that path

// A PE on a host with a disk of its own: the path names another file there, or none.
TEST_F(Checkpoint, RefusesPesThatDoNotSeeTheSameFile) {
  SystemCalls calls = Faults::calls();
  calls.open = [](const char* path, int flags, mode_t mode) {
    const bool mine = elsewhere.empty() || std::string_view(path).starts_with("/proc");
    return ::open(mine ? path : elsewhere.c_str(), flags, mode);
  };
  put_file(path("another"), pattern(10000));
  for (const char* const there : {"none", "another"}) {
    const Error error = together_on(2, [&](Engine&, Bootstrap& group) {
      elsewhere = group.rank() == 1 ? path(there) : "";
      Engine engine({.calls = &calls});
      std::string bytes = pattern(100);
      save_checkpoint(engine, group, path(),
                      {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()});
    });
    expect_error(error, ErrorCode::kConfiguration,
                 {"PE 1: ", path() + ".partial", "file system that all hosts share"});
    EXPECT_EQ(names(), Names{"another"});
  }
}

}  // namespace
}  // namespace peal::storage
