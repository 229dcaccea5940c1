// SPDX-License-Identifier: Apache-2.0
//
// Joining over TCP on loopback, with strangers at the door: the job proceeds, they do not get in.
// And with one in rank 0's place: joiners said the secret to whoever had the port; one held them.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>

#include "bootstrap/bootstraps.h"
#include "bootstrap/door.h"
#include "bootstrap/proof.h"
#include "bootstrap/star.h"
#include "bootstrap/wire.h"
#include "tests/support/error_of.h"
#include "tests/support/ipv6.h"
#include "tests/unit/bootstrap/stranger.h"

namespace peal::bootstrap {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Deadline kPatient = seconds(60);
constexpr Deadline kBeyondTheTest = std::chrono::hours(1);  // who waits for it fails

using Body = std::function<void(Bootstrap&)>;

constexpr auto kGatherAndLeave = [](Bootstrap& group) {
  for (int round = 0; round < 20; ++round) {
    const std::vector<int> all = gather(group, 100 * round + group.rank());
    for (int r = 0; r < group.size(); ++r)
      EXPECT_EQ(all[static_cast<std::size_t>(r)], 100 * round + r);
    group.barrier();
  }
};

// Joins as one rank and runs `body`; what that ends with.
Error join(const UniqueId& id, int rank, int size, Deadline deadline,
           const Body& body = kGatherAndLeave) {
  return error_of([&] { body(*make_tcp(id, rank, size, deadline)); });
}

// Runs rank 0 and the ranks of `others` in one thread each, and `aside` meanwhile in this one; the
// errors by rank.
std::vector<Error> run_job(TcpRoot root, std::vector<int> others, int size, Deadline deadline,
                           const Body& body = kGatherAndLeave,
                           const std::function<void()>& aside = {}) {
  std::vector<Error> errors(static_cast<std::size_t>(size), {ErrorCode::kInternal, "no error"});
  const UniqueId id = root.id();
  std::vector<std::jthread> threads;
  threads.emplace_back([&, listening = std::move(root)]() mutable {
    errors[0] = error_of([&] { body(*make_tcp(std::move(listening), size, deadline)); });
  });
  for (const int rank : others) {
    threads.emplace_back([&, rank] {
      errors[static_cast<std::size_t>(rank)] = join(id, rank, size, deadline, body);
    });
  }
  if (aside) aside();
  threads.clear();
  return errors;
}

void expect_no_errors(const std::vector<Error>& errors) {
  for (const Error& error : errors) EXPECT_STREQ(error.what(), "no error");
}

// Somebody who listens where rank 0 should, takes one caller and answers what he likes.
class Impostor {
 public:
  explicit Impostor(const TcpRoot& root) : listener_(root.listener()) {}

  // All that the caller says until he hangs up, while it hears `answers`, and then the last of them
  // again and again.
  std::string hears(const std::vector<std::string>& answers) {
    pollfd waiting{.fd = listener_, .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&waiting, 1, 30'000), 1);
    const Fd caller(::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC));
    std::string heard;
    for (std::size_t i = 0;; ++i) {
      const std::string& answer = answers[std::min(i, answers.size() - 1)];
      [[maybe_unused]] const ssize_t sent =
          ::send(caller.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
      pollfd more{.fd = caller.get(), .events = POLLIN, .revents = 0};
      if (::poll(&more, 1, 20) == 0) continue;
      char chunk[256];
      const ssize_t n = ::recv(caller.get(), chunk, sizeof chunk, 0);
      if (n <= 0) return heard;
      heard.append(chunk, static_cast<std::size_t>(n));
    }
  }

 private:
  int listener_;
};

std::string text_of(const Secret& secret) {
  return {reinterpret_cast<const char*>(secret.data()), secret.size()};
}

class Tcp : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, Tcp, testing::Values(1, 2, 5));

TEST_P(Tcp, JoinsAndGathersInRankOrder) {
  std::vector<int> others;
  for (int r = 1; r < GetParam(); ++r) others.push_back(r);
  expect_no_errors(run_job(TcpRoot(), others, GetParam(), kPatient));
}

TEST(MakeTcp, JoinsByIpv6) {
  if (!has_ipv6()) GTEST_SKIP() << "no IPv6 here";
  expect_no_errors(run_job(TcpRoot("::1"), {1, 2}, 3, kPatient));
}

TEST(MakeTcp, JoinsBetweenProcesses) {
  TcpRoot root;
  const UniqueId id = UniqueId::from_string(root.id().to_string());
  run_processes(3, [&](Bootstrap& local) {
    const auto group = local.rank() == 0 ? make_tcp(std::move(root), 3, kPatient)
                                         : make_tcp(id, local.rank(), 3, kPatient);
    const std::vector<int> all = gather(*group, 10 + group->rank());
    return all == std::vector<int>{10, 11, 12} ? 0 : 1;
  });
}

TEST(MakeTcp, BindsAtRankZeroWhoeverComesFirst) {
  const UniqueId id = make_unique_id();
  // Until rank 0 listens the other is refused, and tries again.
  std::jthread early([&] { EXPECT_STREQ(join(id, 1, 2, kPatient).what(), "no error"); });
  EXPECT_STREQ(join(id, 0, 2, kPatient).what(), "no error");
}

TEST(MakeTcp, ReusesThePortOfTheJobBefore) {
  TcpRoot root;
  const UniqueId id = root.id();
  expect_no_errors(run_job(std::move(root), {1}, 2, kPatient));
  expect_no_errors(run_job(TcpRoot(id), {1}, 2, kPatient));
}

TEST(MakeTcp, RefusesImpossibleRanksSizesAndDeadlines) {
  const UniqueId id = make_unique_id();
  for (const auto& [rank, size] : {std::pair{-1, 2}, {2, 2}, {0, 0}, {0, -1}}) {
    EXPECT_EQ(join(id, rank, size, kPatient).code(), ErrorCode::kInvalidArgument)
        << rank << " of " << size;
  }
  EXPECT_EQ(join(id, 0, 1, milliseconds(0)).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(error_of([] { make_tcp(TcpRoot(), 0, kPatient); }).code(), ErrorCode::kInvalidArgument);
}

TEST(MakeTcp, NamesTheRanksThatDoNotJoinOnEveryOther) {
  std::vector<Error> errors;
  std::string told;
  const auto attempt = [&](int times) {
    const Deadline deadline = times * milliseconds(1500);
    told = "start of the job: ranks 2, 4 of 5 did not join within " + name_time(deadline);
    errors = run_job(TcpRoot(), {1, 3}, 5, deadline);
    return errors[0];
  };
  with_more_time(attempt, [&](const Error& error) { return contains(error, told); });
  for (const std::size_t r : {0U, 1U, 3U}) {
    EXPECT_EQ(errors[r].code(), ErrorCode::kTimeout);
    EXPECT_TRUE(contains(errors[r], told)) << errors[r].what();
  }
}

TEST(MakeTcp, SaysWhereNobodyListens) {
  const ReservedId reserved;  // or somebody else might
  const UniqueId& id = reserved.id();
  const Error error = join(id, 1, 2, milliseconds(100));
  EXPECT_EQ(error.code(), ErrorCode::kTimeout);
  EXPECT_TRUE(contains(error, "rank 0 did not listen at 127.0.0.1:" + std::to_string(id.port)))
      << error.what();
}

TEST(MakeTcp, NamesRankZeroThatListensAndDoesNotCome) {
  const TcpRoot root;
  const Error error = join(root.id(), 1, 2, milliseconds(200));
  EXPECT_EQ(error.code(), ErrorCode::kTimeout);
  EXPECT_TRUE(contains(error, "start of the job: rank 0 of 2 did not arrive within 200 ms"))
      << error.what();
}

// The join ends at once, by whoever's proof is wrong, and the secret has not been said.
TEST(MakeTcp, TellsNoSecretToWhoTookThePort) {
  const TcpRoot root;
  const std::string present = std::string(1, 24) + std::string(7, '\0') + std::string(8, '\0') +
                              std::string(1, 5) + std::string(15, '\0');
  for (const std::vector<std::string>& answers :
       {std::vector<std::string>{std::string(16, 'c'), std::string(32, 'p'), present},
        std::vector<std::string>{present}}) {
    std::string heard;
    std::jthread impostor([&] { heard = Impostor(root).hears(answers); });
    const Error error = join(root.id(), 1, 2, kPatient);
    impostor.join();
    EXPECT_EQ(error.code(), ErrorCode::kPeerLost);
    EXPECT_TRUE(contains(error, "who listens at 127.0.0.1:" + std::to_string(root.id().port) +
                                    " is not rank 0 of this job"))
        << error.what();
    EXPECT_EQ(heard.size(), 64u) << "a hello and a proof";
    EXPECT_EQ(heard.find(text_of(root.id().secret)), std::string::npos);
  }
}

TEST(MakeTcp, WaitsNoLongerThanItsDeadlineForAProof) {
  const TcpRoot root;
  std::jthread impostor([&] { Impostor(root).hears({std::string(16, 'c'), ""}); });
  const Error error = join(root.id(), 1, 2, milliseconds(200));
  EXPECT_EQ(error.code(), ErrorCode::kTimeout);
  EXPECT_TRUE(contains(error, "rank 0 of 2 did not arrive within 200 ms")) << error.what();
}

// The same from rank 0 itself, which is in a loop: the deadline is of the whole call.
TEST(MakeTcp, WaitsForAPresentRankZeroNoLongerThanTwoDeadlines) {
  TcpRoot root;
  const UniqueId id = root.id();
  Door door(std::move(root), 2);
  std::jthread member([&] {
    const Error error = join(id, 1, 2, milliseconds(2000));  // the door must answer in this time
    EXPECT_EQ(error.code(), ErrorCode::kTimeout);
    EXPECT_TRUE(contains(error, "rank 0 of 2 did not answer within 2 s")) << error.what();
  });
  door.admit_all(TimePoint::max(), Door::kLatecomers);
  const std::vector<Fd> peers = door.take_peers();
  const auto present = make_frame(make_message({.kind = FrameKind::kPresent}, {}));
  while (::send(peers[1].get(), present.data(), present.size(), MSG_NOSIGNAL) > 0) {
    pollfd ended{.fd = peers[1].get(), .events = POLLRDHUP, .revents = 0};
    ::poll(&ended, 1, 20);
  }
}

TEST(MakeTcp, DropsStrangersAndGoesOn) {
  TcpRoot root;
  const UniqueId id = root.id();
  Stranger silent(id);
  Stranger browser(id);
  browser.say("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: */*\r\n\r\n");
  Stranger short_of_a_hello(id);
  short_of_a_hello.say("pealtcp3");
  Stranger of_another_version(id);
  of_another_version.say("pealtcp1").say(std::string(24, '\0'));
  Stranger wrong_secret(id);
  wrong_secret.hello(1, 3);
  Stranger no_proof(id);
  no_proof.hello(2, 3);
  { Stranger gone(id); }
  expect_no_errors(run_job(std::move(root), {1, 2}, 3, kPatient, kGatherAndLeave, [&] {
    auto almost = id.secret;
    almost[15] ^= std::byte{1};
    wrong_secret.prove(almost);
    EXPECT_EQ(wrong_secret.bytes_until_closed(), 0U);
    no_proof.hear(16);
  }));
  for (Stranger* stranger :
       {&silent, &browser, &short_of_a_hello, &of_another_version, &no_proof}) {
    EXPECT_EQ(stranger->bytes_until_closed(), 0U) << "a stranger learns nothing";
  }
}

TEST(MakeTcp, OutlivesMoreSilentStrangersThanItHears) {
  TcpRoot root;
  std::vector<Stranger> crowd;
  for (int i = 0; i < 200; ++i) crowd.emplace_back(root.id());
  expect_no_errors(run_job(std::move(root), {1, 2}, 3, kPatient));
}

TEST(MakeTcp, TellsTheOwnerOfAWrongSecretThatItWasNotAccepted) {
  TcpRoot root;
  UniqueId wrong = root.id();
  wrong.secret[0] ^= std::byte{0x80};
  Error outsider{ErrorCode::kInternal, ""};
  std::jthread later;
  const UniqueId id = root.id();
  expect_no_errors(run_job(std::move(root), {1}, 3, kPatient, kGatherAndLeave, [&] {
    outsider = join(wrong, 2, 3, kPatient);
    later = std::jthread([id] { EXPECT_STREQ(join(id, 2, 3, kPatient).what(), "no error"); });
  }));
  EXPECT_EQ(outsider.code(), ErrorCode::kPeerLost);
  EXPECT_TRUE(contains(outsider, "did not accept this unique id")) << outsider.what();
}

TEST(MakeTcp, RefusesASecondOwnerOfARank) {
  Error refused{ErrorCode::kInternal, ""};
  const auto attempt = [&](int times) {
    TcpRoot root;
    const UniqueId id = root.id();
    Stranger twin(id);
    Stranger(id).say("pealtcp2" + std::string(24, '\0'));
    return run_job(std::move(root), {}, 3, times * milliseconds(1500), kGatherAndLeave, [&] {
      twin.join(id, 1, 3);
      refused = join(id, 1, 3, kPatient);
    })[0];
  };
  const Error error = with_more_time(attempt, [&](const Error& of) {
    return contains(of, "rank 2 of 3 did not join") && contains(refused, "is taken");
  });
  EXPECT_EQ(refused.code(), ErrorCode::kConfiguration);
  EXPECT_TRUE(contains(refused, "rank 1 of 3 is taken")) << refused.what();
  // The twin stayed in, rank 2 never came: the owner of the numbers hears of both.
  EXPECT_TRUE(contains(error, "rank 2 of 3 did not join")) << error.what();
  EXPECT_TRUE(contains(error, "a second process came as rank 1 and was refused")) << error.what();
  EXPECT_TRUE(contains(error, "another version of peal came (its hello is pealtcp2)"));
}

// Two processes with the same number, of which the second is late: it would wait a minute for a
// door that has closed. It hears at once, and the job goes on.
TEST(MakeTcp, RefusesASecondOwnerOfARankWhileTheJobRuns) {
  TcpRoot root;
  const UniqueId id = root.id();
  const std::vector<Error> errors =
      run_job(std::move(root), {1}, 2, kPatient, [&id](Bootstrap& group) {
        group.barrier();
        if (group.rank() == 1) {
          const Error refused = join(id, 1, 2, kPatient);
          EXPECT_EQ(refused.code(), ErrorCode::kConfiguration);
          EXPECT_TRUE(contains(refused, "rank 1 of 2 is taken: another process")) << refused.what();
          const Error second_root = join(id, 0, 2, kPatient);
          EXPECT_TRUE(contains(second_root, "a second rank 0 of this job")) << second_root.what();
        }
        group.barrier();
      });
  expect_no_errors(errors);
}

// Between the making of an id and rank 0's start nobody else gets the port.
TEST(ReservedId, KeepsThePortForRankZero) {
  const ReservedId reserved;
  for (int i = 0; i < 64; ++i) EXPECT_NE(make_unique_id().port, reserved.id().port);
  expect_no_errors(run_job(TcpRoot(reserved.id()), {1}, 2, kPatient));
  expect_no_errors(run_job(TcpRoot(reserved.id()), {1}, 2, kPatient));
}

TEST(MakeTcp, RefusesAnotherSizeAndGoesOn) {
  TcpRoot root;
  const UniqueId id = root.id();
  std::jthread later;
  expect_no_errors(run_job(std::move(root), {1}, 3, kPatient, kGatherAndLeave, [&] {
    const Error refused = join(id, 2, 4, kPatient);
    EXPECT_EQ(refused.code(), ErrorCode::kInvalidArgument);
    EXPECT_TRUE(contains(refused, "rank 2 joins a job of 4, but rank 0's job has 3 ranks"))
        << refused.what();
    later = std::jthread([id] { EXPECT_STREQ(join(id, 2, 3, kPatient).what(), "no error"); });
  }));
}

TEST(MakeTcp, NamesARankThatJoinsAndDiesBeforeTheStart) {
  TcpRoot root;
  const UniqueId id = root.id();
  Stranger member(id);
  Stranger late(id);
  const std::vector<Error> errors = run_job(std::move(root), {}, 4, kPatient, kGatherAndLeave, [&] {
    member.join(id, 1, 4);
    Stranger(id).join(id, 2, 4).hear(32);
    late.join(id, 3, 4);
  });
  EXPECT_EQ(errors[0].code(), ErrorCode::kPeerLost);
  EXPECT_TRUE(contains(errors[0], "start of the job: rank 2 of 4 died or disconnected"))
      << errors[0].what();
  EXPECT_GT(member.bytes_until_closed(), std::strlen(errors[0].what())) << "is told";
  EXPECT_GT(late.bytes_until_closed(), std::strlen(errors[0].what())) << "is told, too";
}

TEST(MakeTcp, WaitsForNoRankBehindOneThatHasDied) {
  TcpRoot root;
  const UniqueId id = root.id();
  const auto two_die = [&] {
    Stranger(id).join(id, 2, 4).hear(32);
    Stranger(id).join(id, 1, 4).hear(32);
  };
  const std::vector<Error> errors =
      run_job(std::move(root), {}, 4, kBeyondTheTest, kGatherAndLeave, two_die);
  EXPECT_EQ(errors[0].code(), ErrorCode::kPeerLost);
  EXPECT_TRUE(contains(errors[0], "start of the job: rank 2 of 4 died or disconnected"))
      << errors[0].what();
}

TEST(MakeTcp, NamesARankThatDisconnects) {
  const std::vector<Error> errors =
      run_job(TcpRoot(), {1, 2, 3}, 4, kPatient, [](Bootstrap& group) {
        group.barrier();
        if (group.rank() == 3) return;
        group.barrier();
      });
  for (const std::size_t r : {0U, 1U, 2U}) {
    EXPECT_EQ(errors[r].code(), ErrorCode::kPeerLost);
    EXPECT_TRUE(contains(errors[r], "barrier #2: rank 3 of 4 died or disconnected"))
        << errors[r].what();
  }
}

TEST(MakeTcp, NamesRankZeroThatDisconnects) {
  const std::vector<Error> errors = run_job(TcpRoot(), {1, 2}, 3, kPatient, [](Bootstrap& group) {
    if (group.rank() != 0) group.barrier();
  });
  for (const std::size_t r : {1U, 2U}) {
    EXPECT_EQ(errors[r].code(), ErrorCode::kPeerLost);
    EXPECT_TRUE(contains(errors[r], "barrier #1: rank 0 of 3 died or disconnected"))
        << errors[r].what();
  }
}

TEST(MakeTcp, TakesGarbageFromAMemberForItsEnd) {
  TcpRoot root;
  const UniqueId id = root.id();
  Stranger member(id);
  const std::vector<Error> errors = run_job(std::move(root), {}, 2, kPatient, kGatherAndLeave, [&] {
    member.join(id, 1, 2).say(std::string(64, '\xff'));
  });
  EXPECT_EQ(errors[0].code(), ErrorCode::kPeerLost);
  EXPECT_TRUE(contains(errors[0], "rank 1 of 2 died or disconnected")) << errors[0].what();
}

TEST(MakeTcp, ReportsAMessageWithoutAHeader) {
  TcpRoot root;
  const UniqueId id = root.id();
  Stranger member(id);
  const std::vector<Error> errors = run_job(std::move(root), {}, 2, kPatient, kGatherAndLeave, [&] {
    member.join(id, 1, 2).say(std::string("\3\0\0\0\0\0\0\0abc", 11));
  });
  EXPECT_EQ(errors[0].code(), ErrorCode::kInternal);
  EXPECT_TRUE(contains(errors[0], "rank 1 sent a message of 3 bytes without a header"))
      << errors[0].what();
}

TEST(MakeTcp, NamesAMismatchOnEveryRank) {
  const std::vector<Error> errors = run_job(TcpRoot(), {1, 2}, 3, kPatient, [](Bootstrap& group) {
    if (group.rank() == 1) {
      gather(group, 1);
    } else {
      group.barrier();
    }
  });
  for (const Error& error : errors) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_TRUE(contains(error, "rank 1 of 3 is in allgather #1 of 4 bytes, rank 0 in barrier #1"))
        << error.what();
  }
}

}  // namespace
}  // namespace peal::bootstrap
