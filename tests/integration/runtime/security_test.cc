// SPDX-License-Identifier: Apache-2.0
//
// Another user of the machine: what it cannot open, map or join, and what it cannot make us use.
// Where a test needs another user it must be root to become one, and says so where it is not.
#include <arpa/inet.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <system_error>
#include <thread>

#include "bootstrap/bootstraps.h"
#include "gtest/gtest.h"
#include "host/base/error.h"
#include "host/memory/backing.h"
#include "softnic/wire/fabric.h"

namespace peal {
namespace {

namespace fs = std::filesystem;
using softnic::Fabric;
using softnic::Settings;

constexpr uid_t kNobody = 65534;

/// Runs `body` as another user, in a process of its own; what it answers.
int as_nobody(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    const bool changed = setgroups(0, nullptr) == 0 && setresgid(kNobody, kNobody, kNobody) == 0 &&
                         setresuid(kNobody, kNobody, kNobody) == 0;
    _exit(changed ? body() : 99);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

/// errno of an open(), 0 when it went well.
int error_of_open(const fs::path& path, int flags) {
  const int fd = open(path.c_str(), flags | O_CLOEXEC);
  if (fd < 0) return errno;
  close(fd);
  return 0;
}

#define NEEDS_ROOT() \
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user"

/// A folder that all users may write, as /dev/shm is.
class OtherUsers : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/peal_security_XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    directory = name;
    ASSERT_EQ(chmod(name, 01777), 0);
    settings.directory = name;
    root_ = directory / ("peal-softnic-" + std::to_string(geteuid()));
  }
  void TearDown() override { fs::remove_all(directory); }

  // The test's own, for another user too.
  const fs::path& root() const { return root_; }
  fs::path home() const { return root() / "default"; }
  /// What opening a NIC here says; empty when it opens.
  std::string complaint() const {
    try {
      const Fabric fabric(settings);
      return "";
    } catch (const std::system_error& error) {
      return error.what();
    }
  }

  fs::path directory;
  Settings settings;

 private:
  fs::path root_;
};

TEST_F(OtherUsers, CannotOpenSlotsOrLinksOfTheWire) {
  NEEDS_ROOT();
  const Fabric mine(settings);
  const Fabric other(settings);
  const auto link = mine.create_ring(other.lid(), other.generation(), 1 << 16);
  ASSERT_TRUE(link.valid());
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(home())) files.push_back(entry.path());
  ASSERT_EQ(files.size(), 3u) << "two slots and a link";
  std::ofstream(directory / "for_all") << "x";
  ASSERT_EQ(chmod((directory / "for_all").c_str(), 0666), 0);
  EXPECT_EQ(as_nobody([&] { return error_of_open(directory / "for_all", O_RDWR); }), 0)
      << "the other user gets this far";
  for (const fs::path& file : files) {
    for (const int flags : {O_RDONLY, O_RDWR, O_PATH}) {
      EXPECT_EQ(as_nobody([&] { return error_of_open(file, flags); }), EACCES) << file;
    }
    EXPECT_EQ(as_nobody([&] { return unlink(file.c_str()) == 0 ? 0 : errno; }), EACCES) << file;
  }
  EXPECT_EQ(as_nobody([&] { return error_of_open(home(), O_RDONLY | O_DIRECTORY); }), EACCES);
  EXPECT_EQ(as_nobody([&] {
              return rename(root().c_str(), (directory / "away").c_str()) == 0 ? 0 : errno;
            }),
            EPERM)
      << "the sticky bit of the folder keeps it in place";
}

TEST_F(OtherUsers, JoinAFabricOfTheirOwn) {
  NEEDS_ROOT();
  const Fabric first(settings);
  const Fabric second(settings);
  EXPECT_EQ(as_nobody([&] {
              const Fabric theirs(settings);
              const bool apart = theirs.directory() != first.directory() && theirs.lid() == 1;
              return apart && !theirs.find(second.lid()).found() ? 0 : 1;
            }),
            0);
  EXPECT_TRUE(first.find(second.lid()).found());
}

TEST_F(OtherUsers, CannotPrepareOurFolder) {
  NEEDS_ROOT();
  for (const mode_t mode : {0700u, 0777u}) {
    EXPECT_EQ(as_nobody([&] { return mkdir(root().c_str(), mode) == 0 ? 0 : errno; }), 0);
    EXPECT_NE(complaint().find(root().string() + " is not a private folder"), std::string::npos);
    fs::remove_all(root());
  }
  // A link to a folder of ours, private and all, is still their link.
  fs::create_directories(directory / "elsewhere");
  ASSERT_EQ(chmod((directory / "elsewhere").c_str(), 0700), 0);
  EXPECT_EQ(as_nobody([&] {
              return symlink((directory / "elsewhere").c_str(), root().c_str()) == 0 ? 0 : errno;
            }),
            0);
  EXPECT_NE(complaint().find("is not a private folder"), std::string::npos);
  EXPECT_TRUE(fs::is_empty(directory / "elsewhere"));
}

TEST_F(OtherUsers, AreNoPeersEvenWithAFileInOurFolder) {
  NEEDS_ROOT();
  const Fabric mine(settings);
  const Fabric other(settings);
  ASSERT_TRUE(mine.find(other.lid()).found());
  const fs::path slot = home() / ("slot-" + std::to_string(other.lid() - 1));
  ASSERT_EQ(chown(slot.c_str(), kNobody, kNobody), 0);
  EXPECT_FALSE(mine.find(other.lid()).found());
  const auto link = other.create_ring(mine.lid(), mine.generation(), 1 << 16);
  ASSERT_TRUE(mine.open_ring(other.lid(), other.generation()).valid());
  for (const auto& entry : fs::directory_iterator(home())) {
    if (!entry.path().filename().string().starts_with("ring-")) continue;
    ASSERT_EQ(chown(entry.path().c_str(), kNobody, kNobody), 0);
  }
  EXPECT_FALSE(mine.open_ring(other.lid(), other.generation()).valid());
  ASSERT_EQ(chown(slot.c_str(), 0, 0), 0);
}

TEST_F(OtherUsers, CannotMapOurMemory) {
  NEEDS_ROOT();
  const Backing heap = make_host_backing(1 << 16, "heap");
  const fs::path file = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(heap.fd());
  EXPECT_EQ(error_of_open(file, O_RDWR), 0) << "peers of the same user can";
  EXPECT_EQ(as_nobody([&] { return error_of_open(file, O_RDWR); }), EACCES);
  EXPECT_EQ(as_nobody([&] { return error_of_open(file, O_RDONLY); }), EACCES);
}

// ---- what any user can get wrong, or be tricked into

TEST_F(OtherUsers, AFolderThatOthersMayReadIsRefused) {
  for (const mode_t mode : {0750u, 0705u, 0710u, 0701u}) {
    fs::create_directories(root());
    ASSERT_EQ(chmod(root().c_str(), mode), 0);
    EXPECT_NE(complaint().find("is not a private folder"), std::string::npos) << mode;
    ASSERT_EQ(chmod(root().c_str(), 0700), 0);
    fs::create_directories(home());
    ASSERT_EQ(chmod(home().c_str(), mode), 0);
    EXPECT_NE(complaint().find("default is not a private folder"), std::string::npos) << mode;
    fs::remove_all(root());
  }
  EXPECT_EQ(complaint(), "");
}

TEST_F(OtherUsers, LinksAreNotFollowed) {
  fs::create_directories(directory / "elsewhere" / "default");
  ASSERT_EQ(chmod((directory / "elsewhere").c_str(), 0700), 0);
  ASSERT_EQ(chmod((directory / "elsewhere" / "default").c_str(), 0700), 0);
  fs::create_symlink(directory / "elsewhere", root());
  EXPECT_NE(complaint().find("is not a private folder"), std::string::npos);
  fs::remove(root());
  const Fabric mine(settings);
  const Fabric other(settings);
  fs::create_symlink(home() / "slot-1", home() / "slot-7");
  EXPECT_FALSE(mine.find(8).found());
  ASSERT_EQ(mkfifo((home() / "slot-8").c_str(), 0600), 0);
  EXPECT_FALSE(mine.find(9).found());
  fs::create_directories(home() / "slot-9");
  EXPECT_FALSE(mine.find(10).found());
  EXPECT_TRUE(mine.find(other.lid()).found());
}

TEST(Bootstrap, AnswersNoStrangerOnceAllHaveCome) {
  using namespace peal::bootstrap;
  constexpr Deadline kPatient = std::chrono::seconds(60);
  TcpRoot root;
  const UniqueId id = root.id();
  std::jthread member([&] { make_tcp(id, 1, 2, kPatient)->barrier(); });
  const auto star = make_tcp(std::move(root), 2, kPatient);
  // The door stays open for those who know the secret, and are told why they cannot join.
  const Fd late(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(id.port);
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::connect(late.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
  const timeval soon{.tv_sec = 30, .tv_usec = 0};
  ASSERT_EQ(::setsockopt(late.get(), SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon), 0);
  const std::array<char, 32> guess{};
  EXPECT_EQ(::send(late.get(), guess.data(), guess.size(), MSG_NOSIGNAL), 32);
  char answer = 0;
  const ssize_t heard = ::recv(late.get(), &answer, 1, 0);
  EXPECT_TRUE(heard == 0 || (heard < 0 && errno == ECONNRESET)) << heard;  // not a word
  star->barrier();
}

TEST(Bootstrap, SecretsDiffer) {
  using namespace peal::bootstrap;
  const UniqueId one = make_unique_id();
  const UniqueId other = make_unique_id();
  EXPECT_NE(one.secret, other.secret);
  EXPECT_NE(one.secret, decltype(one.secret){});
}

}  // namespace
}  // namespace peal
