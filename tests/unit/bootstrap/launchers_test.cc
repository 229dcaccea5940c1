// SPDX-License-Identifier: Apache-2.0
//
// Jobs of torchrun and of a PMI launcher, whose side is played here. (PMIx has a launcher on this
// machine: tests/mp/launchers_test.sh.)
#include "bootstrap/launchers.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "host/base/address.h"
#include "tests/support/error_of.h"
#include "tests/support/ipv6.h"

namespace peal::bootstrap {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Deadline kPatient = seconds(60);

// A port with some free ones beside it, at least for now.
std::uint16_t some_port() { return make_unique_id().port; }

TorchJob torch_job(int rank, int size, std::uint16_t port, const std::string& run = "none\n0") {
  return {.rank = rank, .size = size, .host = "127.0.0.1", .port = port, .run = run};
}

void run_torch(int size, std::uint16_t port, const std::string& run = "none\n0") {
  std::vector<std::jthread> ranks;
  for (int rank = size - 1; rank >= 0; --rank) {
    ranks.emplace_back([=] {
      const auto group = make_torchrun(torch_job(rank, size, port, run), kPatient);
      EXPECT_EQ(gather(*group, rank)[static_cast<std::size_t>(size - 1)], size - 1);
    });
  }
}

TEST(Torchrun, JoinsByWhatAllRanksKnow) { run_torch(3, some_port()); }

TEST(Torchrun, JoinsByIpv6) {
  if (!has_ipv6()) GTEST_SKIP() << "no IPv6 here";
  const std::uint16_t port = some_port();
  const auto join = [port](int rank, const char* host) {
    TorchJob job = torch_job(rank, 3, port);
    job.host = host;
    make_torchrun(job, kPatient)->barrier();
  };
  std::jthread first([&] { join(1, "[::1]"); });
  std::jthread second([&] { join(2, "[::1]"); });
  join(0, "[::1]");
}

// Each port is taken by somebody who does not answer, answers something else, or is another job.
TEST(Torchrun, FindsRankZeroAmongStrangers) {
  const std::uint16_t port = some_port();
  std::vector<TcpRoot> strangers;
  for (int i = 1; i <= 3; ++i) {
    try {
      strangers.emplace_back("127.0.0.1", static_cast<std::uint16_t>(port + i));
    } catch (const Error&) {
      // somebody was there already
    }
  }
  std::jthread chatty([&strangers] {
    if (strangers.empty()) return;
    pollfd call{.fd = strangers[0].listener(), .events = POLLIN, .revents = 0};
    if (::poll(&call, 1, 30'000) <= 0) return;
    const Fd caller(::accept4(call.fd, nullptr, nullptr, SOCK_CLOEXEC));
    const std::string banner = "SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n";
    EXPECT_GT(::send(caller.get(), banner.data(), banner.size(), MSG_NOSIGNAL), 0);
  });
  run_torch(3, port);
}

TEST(Torchrun, KeepsJobsOnTheSamePortApart) {
  const std::uint16_t port = some_port();
  std::jthread first([port] { run_torch(2, port, "job a"); });
  run_torch(2, port, "job b");
}

TEST(Torchrun, UsesThePortsBelowTheHighestOnes) { run_torch(2, 65535); }

TEST(Torchrun, SaysWhereNobodyAnswers) {
  const std::uint16_t port = some_port();
  const Error error = error_of([=] { make_torchrun(torch_job(1, 2, port), milliseconds(200)); });
  EXPECT_EQ(error.code(), ErrorCode::kTimeout);
  EXPECT_TRUE(contains(error, "rank 0 did not answer at 127.0.0.1:")) << error.what();
}

TEST(Torchrun, ReadsWhatTorchrunSets) {
  std::map<std::string, std::string> variables = {{"RANK", "1"},
                                                  {"WORLD_SIZE", "2"},
                                                  {"MASTER_ADDR", "node7"},
                                                  {"MASTER_PORT", "29500"},
                                                  {"TORCHELASTIC_RUN_ID", "a1b2"}};
  const TorchJob job = TorchJob::from(variables);
  EXPECT_EQ(job.rank, 1);
  EXPECT_EQ(job.size, 2);
  EXPECT_EQ(job.host, "node7");
  EXPECT_EQ(job.port, 29500);
  for (const char* bad : {"0", "65536", "http", ""}) {
    variables["MASTER_PORT"] = bad;
    const Error error = error_of([&] { TorchJob::from(variables); });
    EXPECT_TRUE(contains(error, std::string("MASTER_PORT=") + bad)) << error.what();
  }
}

// A PMI 1.1 launcher, as srun --mpi=pmi2 answers.
class FakePmi {
 public:
  explicit FakePmi(int size) : size_(size) {
    for (int rank = 0; rank < size; ++rank) {
      int ends[2];
      EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
      mine_.emplace_back(ends[0]);
      theirs_.push_back(ends[1]);
    }
  }

  int descriptor_of(int rank) const { return theirs_[static_cast<std::size_t>(rank)]; }

  // Serves until every rank has hung up.
  void serve() {
    std::vector<std::string> heard(mine_.size());
    for (std::size_t left = mine_.size(); left > 0;) {
      std::vector<pollfd> fds;
      for (const Fd& one : mine_) fds.push_back({.fd = one.get(), .events = POLLIN, .revents = 0});
      if (::poll(fds.data(), fds.size(), 60'000) <= 0) {
        ADD_FAILURE() << "a rank is stuck";
        return;
      }
      for (std::size_t rank = 0; rank < mine_.size(); ++rank) {
        if (fds[rank].revents == 0) continue;
        char c = 0;
        if (::read(mine_[rank].get(), &c, 1) != 1) {
          mine_[rank] = Fd();
          --left;
        } else if (c != '\n') {
          heard[rank] += c;
        } else {
          answer(rank, std::exchange(heard[rank], ""));
        }
      }
    }
  }

 private:
  void say(std::size_t rank, const std::string& line) {
    EXPECT_EQ(::send(mine_[rank].get(), (line + "\n").data(), line.size() + 1, MSG_NOSIGNAL),
              static_cast<ssize_t>(line.size() + 1));
  }

  void answer(std::size_t rank, const std::string& line) {
    const auto value_of = [&line](const std::string& key) {
      const std::size_t at = line.find(" " + key + "=");
      EXPECT_NE(at, line.npos) << line;
      const std::size_t from = at + key.size() + 2;
      return line.substr(from, line.find(' ', from) - from);
    };
    if (line == "cmd=init pmi_version=1 pmi_subversion=1") {
      say(rank, "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1");
    } else if (line == "cmd=get_my_kvsname") {
      say(rank, "cmd=my_kvsname rc=0 kvsname=17.0");
    } else if (line.starts_with("cmd=put ")) {
      EXPECT_EQ(value_of("kvsname"), "17.0");
      store_[value_of("key")] = value_of("value");
      say(rank, "cmd=put_result rc=0");
    } else if (line == "cmd=barrier_in") {
      if (++entered_ < size_) return;
      for (std::size_t r = 0; r < mine_.size(); ++r) say(r, "cmd=barrier_out rc=0");
    } else if (line.starts_with("cmd=get ")) {
      say(rank, "cmd=get_result rc=0 value=" + store_[value_of("key")]);
    } else if (line == "cmd=finalize") {
      say(rank, "cmd=finalize_ack rc=0");
    } else {
      ADD_FAILURE() << "unknown command: " << line;
    }
  }

  int size_;
  int entered_ = 0;
  std::vector<Fd> mine_;
  std::vector<int> theirs_;  // owned by who joins
  std::map<std::string, std::string> store_;
};

TEST(Pmi, MeetsByTheLaunchersKeysAndValues) {
  constexpr int kSize = 3;
  FakePmi launcher(kSize);
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < kSize; ++rank) {
    ranks.emplace_back([&launcher, rank] {
      const PmiJob job{.fd = launcher.descriptor_of(rank),
                       .rank = rank,
                       .size = kSize,
                       .interface = "127.0.0.1"};
      const auto group = make_pmi(job, kPatient);
      EXPECT_EQ(gather(*group, 10 * rank), (std::vector<int>{0, 10, 20}));
    });
  }
  launcher.serve();
}

TEST(Pmi, EndsAtItsDeadlineWithASilentLauncher) {
  const FakePmi silent(1);
  const Error error = error_of([&] {
    make_pmi({.fd = silent.descriptor_of(0), .rank = 1, .size = 2, .interface = ""},
             milliseconds(100));
  });
  EXPECT_EQ(error.code(), ErrorCode::kTimeout);
  EXPECT_TRUE(contains(error, "no answer to 'init")) << error.what();
}

TEST(Pmi, ReportsALauncherThatHangsUpOrRefuses) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  {
    const Fd launcher(ends[0]);
    const std::string refusal = "cmd=response_to_init rc=1 pmi_version=2 pmi_subversion=0\n";
    ASSERT_GT(::send(launcher.get(), refusal.data(), refusal.size(), 0), 0);
    const PmiJob job{.fd = ends[1], .rank = 1, .size = 2, .interface = ""};
    const Error error = error_of([&] { make_pmi(job, kPatient); });
    EXPECT_TRUE(contains(error, "answered 'cmd=response_to_init rc=1")) << error.what();
  }
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  ::shutdown(ends[0], SHUT_WR);
  const Fd launcher(ends[0]);
  const PmiJob job{.fd = ends[1], .rank = 1, .size = 2, .interface = ""};
  const Error error = error_of([&] { make_pmi(job, kPatient); });
  EXPECT_EQ(error.code(), ErrorCode::kPeerLost);
}

TEST(Address, IsOfEitherFamily) {
  EXPECT_EQ(find_address("fd00:0:0::5"), "fd00::5");
  EXPECT_EQ(find_address("[::1]"), "::1");
  EXPECT_EQ(text_of(resolve_host("[fd00::5]")), "fd00::5");
}

TEST(Address, IsNotLinkLocal) {
  for (const char* text : {"fe80::1", "[fe80::1]", "fe80::1%eth0"}) {
    const Error error = error_of([&] { find_address(text); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_TRUE(contains(error, "'" + std::string(text) + "' is a link-local address"))
        << error.what();
  }
  EXPECT_TRUE(contains(error_of([] { resolve_host("fe80::1"); }), "link-local"));
}

TEST(Address, IsAnInterfacesOrTheOneToOthers) {
  EXPECT_EQ(find_address("10.1.2.3"), "10.1.2.3");
  EXPECT_EQ(find_address("lo"), "127.0.0.1");
  EXPECT_FALSE(find_address("").empty());
  EXPECT_EQ(text_of(resolve_host("127.0.0.1")), "127.0.0.1");
  const Error error = error_of([] { find_address("eth17"); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(contains(error, "'eth17' is neither")) << error.what();
  EXPECT_TRUE(contains(error, "lo")) << error.what();
}

}  // namespace
}  // namespace peal::bootstrap
