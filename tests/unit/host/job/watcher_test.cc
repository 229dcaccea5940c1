// SPDX-License-Identifier: Apache-2.0
//
// The watcher of peers' processes and of the channel. Hazards: a process that ended before it was
// watched was taken for one that cannot be watched, and nobody heard of its end; an error of poll()
// ended the watching without a word; where pidfds were refused nobody was watched.
#include "host/job/watcher.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "host/base/exception.h"
#include "host/job/process_stat.h"
#include "tests/support/without_pidfds.h"

namespace peal {
namespace {

/// What a watcher says, in order.
class Heard {
 public:
  Watcher::Callbacks calls(int channel = -1) {
    return {.lost =
                [this](int pe, int pid) {
                  say({"lost", pe, pid});
                },
            .message =
                [this, channel] {
                  char byte = 0;
                  while (channel >= 0 && ::read(channel, &byte, 1) == 1) say({"message", byte, 0});
                },
            .broken =
                [this](const std::string& why) {
                  say({"broken: " + why, 0, 0});
                }};
  }
  struct Said {
    std::string what;
    int a;
    int b;
    bool operator==(const Said&) const = default;
  };
  /// The first `count`, waited for; the test's own limit ends a wait that is in vain.
  std::vector<Said> first(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return said_.size() >= count; });
    return said_;
  }

 private:
  void say(Said said) {
    const std::lock_guard lock(mutex_);
    said_.push_back(std::move(said));
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Said> said_;
};

/// A process that waits to be killed, and its place.
class Child {
 public:
  Child() : pid_(::fork()) {
    if (pid_ != 0) return;
    for (;;) ::pause();
  }
  ~Child() { end(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  void kill() const { ::kill(pid_, SIGKILL); }
  void end() {
    if (reaped_) return;
    kill();
    ::waitpid(pid_, nullptr, 0);
    reaped_ = true;
  }
  int pid() const { return pid_; }
  Place place() const {
    Place place = Place::here();
    place.pid = pid_;
    return place;
  }

 private:
  int pid_;
  bool reaped_ = false;
};

/// The ends of a pipe; reading does not wait.
struct Pipe {
  Pipe() { EXPECT_EQ(::pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0); }
  ~Pipe() {
    for (const int end : ends) ::close(end);
  }
  int ends[2];
};

TEST(Watcher, TellsOfEachProcessThatEnds) {
  Heard heard;
  Child one, two;
  const std::vector<Place> places = {Place::here(), one.place(), two.place()};
  const Watcher watcher(places, {}, heard.calls());
  EXPECT_FALSE(watcher.watches(0)) << "this process";
  EXPECT_TRUE(watcher.watches(1));
  two.kill();
  EXPECT_EQ(heard.first(1)[0], (Heard::Said{"lost", 2, two.pid()}));
  one.kill();
  EXPECT_EQ(heard.first(2)[1], (Heard::Said{"lost", 1, one.pid()}));
}

TEST(Watcher, TellsOfAProcessThatHadEndedBefore) {
  Heard heard;
  Child gone, alive;
  gone.end();
  const std::vector<Place> places = {gone.place(), alive.place()};
  const Watcher watcher(places, {}, heard.calls());
  EXPECT_TRUE(watcher.watches(0));
  EXPECT_EQ(heard.first(1)[0], (Heard::Said{"lost", 0, gone.pid()}));
  alive.kill();
  EXPECT_EQ(heard.first(2)[1], (Heard::Said{"lost", 1, alive.pid()}));
}

/// A process that led a group which outlives it, as a PE with children may: the kernel knows its
/// number, but no process by it.
TEST(Watcher, TellsOfAProcessWhoseGroupGoesOn) {
  Pipe member;
  ASSERT_EQ(::fcntl(member.ends[0], F_SETFL, 0), 0);
  const pid_t leader = ::fork();
  if (leader == 0) {
    ::setpgid(0, 0);
    const pid_t child = ::fork();
    if (child == 0) {
      for (;;) ::pause();
    }
    [[maybe_unused]] const ssize_t told = ::write(member.ends[1], &child, sizeof(child));
    ::_exit(0);
  }
  pid_t child = 0;
  ASSERT_EQ(::read(member.ends[0], &child, sizeof(child)), ssize_t{sizeof(child)});
  ::waitpid(leader, nullptr, 0);
  Heard heard;
  Place gone = Place::here();
  gone.pid = leader;
  {
    const Watcher watcher(std::vector<Place>{gone}, {}, heard.calls());
    EXPECT_EQ(heard.first(1)[0], (Heard::Said{"lost", 0, leader}));
  }
  ::kill(child, SIGKILL);
}

/// By a thread, whose filter ends with it.
TEST(Watcher, TellsOfProcessesOfWhichItMayHaveNoPidfd) {
  for (const int error : {EPERM, ENOSYS, EACCES}) {
    std::jthread([error] {
      if (!refuse_pidfds(error)) GTEST_SKIP() << "this process may not have filters";
      Heard heard;
      Child gone, not_reaped, one, two;
      gone.end();
      not_reaped.kill();
      siginfo_t info{};
      ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(not_reaped.pid()), &info, WEXITED | WNOWAIT), 0);
      const std::vector<Place> places = {gone.place(), one.place(), not_reaped.place(),
                                         two.place()};
      const Watcher watcher(places, {}, heard.calls());
      for (int pe = 0; pe < 4; ++pe) EXPECT_TRUE(watcher.watches(pe)) << pe;
      EXPECT_EQ(heard.first(1)[0], (Heard::Said{"lost", 0, gone.pid()}));
      EXPECT_EQ(heard.first(2)[1], (Heard::Said{"lost", 2, not_reaped.pid()}));
      two.kill();
      EXPECT_EQ(heard.first(3)[2], (Heard::Said{"lost", 3, two.pid()}));
      one.end();
      EXPECT_EQ(heard.first(4)[3], (Heard::Said{"lost", 1, one.pid()}));
    });
  }
}

/// Its number may be another's by now: birth tells them apart.
TEST(Birth, TellsProcessesOfOneNumberApart) {
  Child child;
  const std::optional<Birth> birth = stat_of_process(child.pid()).birth;
  ASSERT_TRUE(birth);
  EXPECT_FALSE(has_ended(child.pid(), birth));
  EXPECT_FALSE(has_ended(child.pid(), std::nullopt));
  EXPECT_TRUE(has_ended(child.pid(), *birth - 1));
  child.end();
  EXPECT_FALSE(stat_of_process(child.pid()).birth);
  EXPECT_TRUE(has_ended(child.pid(), std::nullopt));
}

TEST(Watcher, LeavesOutWhatItCannotSee) {
  Heard heard;
  Child child;
  Place elsewhere = child.place();
  elsewhere.boot_id[0] = elsewhere.boot_id[0] == 'x' ? 'y' : 'x';
  Place jailed = child.place();
  ++jailed.pid_namespace;
  const Watcher watcher(std::vector<Place>{elsewhere, jailed}, {}, heard.calls());
  EXPECT_FALSE(watcher.watches(0));
  EXPECT_FALSE(watcher.watches(1));
}

/// What a process sent while it lived counts: its messages come before its end.
TEST(Watcher, TellsOfMessagesBeforeEnds) {
  Heard heard;
  Pipe channel;
  Child child;
  child.end();
  const Place live = Place::here();
  Child sender;
  const Watcher watcher(std::vector<Place>{live, sender.place()}, {channel.ends[0]},
                        heard.calls(channel.ends[0]));
  ASSERT_EQ(::write(channel.ends[1], "\1", 1), 1);
  EXPECT_EQ(heard.first(1)[0], (Heard::Said{"message", 1, 0}));
  sender.kill();
  EXPECT_EQ(heard.first(2)[1], (Heard::Said{"lost", 1, sender.pid()}));
}

/// poll() refuses more descriptors than the process may have open.
TEST(Watcher, SaysThatItCanNotGoOn) {
  Heard heard;
  Pipe channel;
  Child child;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const Watcher watcher(std::vector<Place>{child.place()}, {channel.ends[0]},
                        heard.calls(channel.ends[0]));
  const rlimit few{1, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<pollfd> three(3, {-1, 0, 0});
  const bool refused = ::poll(three.data(), three.size(), 0) < 0;
  if (!refused) {
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    GTEST_SKIP() << "this kernel polls any number of descriptors";
  }
  ASSERT_EQ(::write(channel.ends[1], "\1", 1), 1);  // if it polls already: it looks, polls again
  const size_t said = heard.first(1)[0].what == "message" ? 2 : 1;
  EXPECT_EQ(heard.first(said).back().what, "broken: poll: Invalid argument");
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(Watcher, SaysThatItsChannelWasClosed) {
  Heard heard;
  const Watcher watcher({}, {1000}, heard.calls());
  EXPECT_EQ(heard.first(1)[0].what, "broken: somebody has closed a descriptor of peal's");
}

TEST(Watcher, ThatCannotBeginSaysWhy) {
  Heard heard;
  Child one, two;
  const std::vector<Place> places = {one.place(), two.place()};
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int free = ::dup(2);
  ::close(free);
  const rlimit one_more{static_cast<rlim_t>(free) + 1, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &one_more), 0);
  std::string why;
  try {
    const Watcher watcher(places, {}, heard.calls());
  } catch (const Error& error) {
    ::setrlimit(RLIMIT_NOFILE, &before);  // a sanitizer wants descriptors to look at the object
    why = error.what();
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(why.find("pidfd_open("), 0u) << why;
  EXPECT_NE(why.find("of PE 1: Too many open files"), std::string::npos) << why;
}

}  // namespace
}  // namespace peal
