// SPDX-License-Identifier: Apache-2.0
//
// A file that takes the place of another. Hazard: half of the new one where the old one was, after
// a full disk or a killed writer; litter that stops the next writer; a link in the way, through
// which another file was overwritten.
#include "host/storage/replacement.h"

#include <sys/stat.h>
#include <sys/wait.h>

#include <functional>

#include "host/storage/whole_files.h"
#include "tests/support/error_of.h"
#include "tests/unit/host/storage/faults.h"

namespace peal::storage {
namespace {

using Names = std::vector<std::string>;

class ReplacementOf : public Storage {
 protected:
  EngineOptions options() const {
    return {.threads = 2, .piece_bytes = kBlock, .calls = &Faults::calls()};
  }
  void save(std::string bytes) {
    Engine engine(options());
    storage::save(engine, path(), {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()});
  }
};

TEST_F(ReplacementOf, PutsNewBytesInPlaceOfOldOnes) {
  for (const size_t bytes : {50000, 0, 10, 8192}) {
    const std::string saved = pattern(bytes, static_cast<unsigned>(bytes));
    save(saved);
    EXPECT_EQ(file_at(path()), saved);
    EXPECT_EQ(names(), Names{"file"});
  }
}

TEST_F(ReplacementOf, KeepsTheOldFileAndNoOtherWhateverFails) {
  put_file(path(), "old");
  for (auto* const fault : {&Faults::write_error, &Faults::sync_error, &Faults::rename_error}) {
    for (const off_t at : {0, 20000}) {
      Faults::clear();
      Faults::error_at = at;
      *fault = ENOSPC;
      expect_error(error_of([&] { save(pattern(30000)); }), ErrorCode::kSystem,
                   {path(), "No space left", "free space"});
      EXPECT_EQ(file_at(path()), "old");
      EXPECT_EQ(names(), Names{"file"});
    }
  }
}

TEST_F(ReplacementOf, IsTheOldFileOrTheNewOneWhereverTheWriterIsKilled) {
  const std::string saved = pattern(30000);
  put_file(path(), "old");
  int killed = 0;
  for (bool ended = false; !ended; ++killed) {
    ASSERT_LT(killed, 1000);
    const pid_t child = ::fork();
    if (child == 0) {
      Faults::clear();
      Faults::kill_at = killed + 1;
      save(saved);
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ended = WIFEXITED(status);
    const std::string found = file_at(path());
    EXPECT_TRUE(found == "old" || found == saved) << killed << ": " << found.size() << " bytes";
    if (!ended && found == "old") {
      // The next one takes over what it left.
      save("next");
      EXPECT_EQ(file_at(path()), "next");
    }
    EXPECT_EQ(names(), Names{"file"}) << killed;
    put_file(path(), ended ? saved : "old");
  }
  EXPECT_GT(killed, 10);  // one for each write, at least
}

TEST_F(ReplacementOf, RefusesASecondWriter) {
  Replacement first(Faults::calls(), path(), true);
  expect_error(error_of([&] { save("second"); }), ErrorCode::kInvalidArgument,
               {path(), "another process is writing", ".partial"});
  EXPECT_EQ(names(), Names{"file.partial"});
  first.commit();
  save("second");
  EXPECT_EQ(file_at(path()), "second");
}

TEST_F(ReplacementOf, FollowsNoLinkInItsWay) {
  const std::string partial = path("file.partial");
  const std::string other = path("other");
  const std::function<int()> links[] = {
      [&] { return ::symlink(other.c_str(), partial.c_str()); },
      [&] { return ::link(other.c_str(), partial.c_str()); },
      [&] { return ::symlink(path("nowhere").c_str(), partial.c_str()); }};
  for (const auto& link : links) {
    put_file(other, "other");
    ASSERT_EQ(link(), 0);
    save("new");
    EXPECT_EQ(file_at(other), "other");
    EXPECT_EQ(file_at(path()), "new");
    EXPECT_FALSE(std::filesystem::is_symlink(path()));
    EXPECT_EQ(std::filesystem::hard_link_count(path()), 1u);
    EXPECT_EQ(names(), (Names{"file", "other"}));
  }
}

TEST_F(ReplacementOf, TakesOverNoFileOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make one";
  const std::string partial = path("file.partial");
  put_file(partial, "theirs");
  ASSERT_EQ(::chown(partial.c_str(), 65534, 65534), 0);
  std::ifstream theirs(partial);
  save("new");
  EXPECT_EQ(file_at(path()), "new");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(theirs), {}), "theirs");
}

TEST_F(ReplacementOf, PutsNothingElseInPlace) {
  put_file(path(), "old");
  put_file(path("other"), "other");
  {
    Replacement replacement(Faults::calls(), path(), true);
    ASSERT_EQ(::unlink(path("file.partial").c_str()), 0);
    ASSERT_EQ(::symlink("other", path("file.partial").c_str()), 0);
    expect_error(error_of([&] { replacement.commit(); }), ErrorCode::kSystem,
                 {path(), "put another file there"});
  }
  EXPECT_EQ(file_at(path()), "old");
  EXPECT_EQ(file_at(path("other")), "other");
  EXPECT_EQ(names(), (Names{"file", "file.partial", "other"}));
}

TEST_F(ReplacementOf, KeepsTheRightsOfTheOldFile) {
  put_file(path(), "old");
  ASSERT_EQ(::chmod(path().c_str(), 0640), 0);
  save("new");
  struct stat told = {};
  ASSERT_EQ(::stat(path().c_str(), &told), 0);
  EXPECT_EQ(told.st_mode & 07777, 0640u);
}

TEST_F(ReplacementOf, RefusesWhatIsNoFile) {
  std::filesystem::create_directory(path());
  expect_error(error_of([&] { save("new"); }), ErrorCode::kInvalidArgument,
               {path(), "no regular file"});
  EXPECT_EQ(names(), Names{"file"});
  expect_error(error_of([&] { Replacement(Faults::calls(), "", true); }),
               ErrorCode::kInvalidArgument, {"empty"});
  expect_error(error_of([&] { Replacement(Faults::calls(), path("no/such"), true); }),
               ErrorCode::kInvalidArgument, {path("no/such")});
}

}  // namespace
}  // namespace peal::storage
