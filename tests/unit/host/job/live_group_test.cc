// SPDX-License-Identifier: Apache-2.0
//
// Collective calls among the PEs that are left: what they gather, and how they end when one more is
// missing. A thread per PE, and one that passes messages on as the watcher does.
#include "host/job/live_group.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/patience.h"
#include "bootstrap/bootstraps.h"
#include "bootstrap/borrowed.h"
#include "host/job/departure.h"

namespace peal {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// A live group and the thread that reads its channel.
class Member {
 public:
  Member(Bootstrap& group, milliseconds deadline)
      : group_(std::make_unique<bootstrap::BorrowedBootstrap>(group), deadline),
        reader_([this] { read(); }) {}
  ~Member() {
    ending_ = true;
    reader_.join();
  }
  void hear(bool on) { deaf_ = !on; }
  LiveGroup& operator*() { return group_; }
  LiveGroup* operator->() { return &group_; }

 private:
  void read() {
    while (!ending_) {
      while (!deaf_) {
        auto message = group_.channel().receive();
        if (!message) break;
        if (message->kind == Message::Kind::kLeft) {
          group_.hear_leaving(*message);
        } else {
          group_.deliver(std::move(*message));
        }
      }
      std::this_thread::yield();
    }
  }
  LiveGroup group_;
  std::atomic<bool> deaf_{false};
  std::atomic<bool> ending_{false};
  std::thread reader_;
};

using Body = std::function<void(Member&)>;
void on_members(int count, milliseconds deadline, const Body& body) {
  bootstrap::run_threads(count, [&](Bootstrap& group) {
    Member member(group, deadline);
    body(member);
    group.barrier();
  });
}

void lose(Member& member, const std::vector<int>& pes) {
  for (const int pe : pes) member->lost(pe);
  for (const int pe : pes) member->mask(pe);
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::string(to_string(error.code())) + ": " + error.what();
  }
  return "no error";
}

TEST(LiveGroup, GathersAmongThoseThatAreLeft) {
  on_members(4, seconds(20), [](Member& member) {
    const int me = member->rank();
    EXPECT_EQ(gather(*member, me), (std::vector<int>{0, 1, 2, 3}));
    if (me == 0 || me == 2) return;
    lose(member, {0, 2});
    EXPECT_EQ(member->masked_pes(), (std::vector<int>{0, 2}));
    EXPECT_EQ(member->unmasked_pes(), (std::vector<int>{1, 3}));
    for (int round = 0; round < 50; ++round) {
      // The masked say what the first live one says.
      const int first = 1 + 10 * round;
      EXPECT_EQ(gather(*member, me + 10 * round),
                (std::vector<int>{first, first, first, 3 + 10 * round}));
      member->barrier();
    }
  });
}

TEST(LiveGroup, GathersMoreThanAMessageHolds) {
  on_members(3, seconds(20), [](Member& member) {
    if (member->rank() == 1) return;
    lose(member, {1});
    const size_t bytes = 5 * Channel::kMaxPayload + 17;
    const std::vector<std::byte> mine(bytes, static_cast<std::byte>(10 + member->rank()));
    std::vector<std::byte> all(3 * bytes);
    member->allgather(mine, all);
    EXPECT_EQ(all[0], std::byte{10});
    EXPECT_EQ(all[bytes - 1], std::byte{10});
    EXPECT_EQ(all[2 * bytes], std::byte{12});
    EXPECT_EQ(all[3 * bytes - 1], std::byte{12});
  });
}

TEST(LiveGroup, GathersInPlace) {
  on_members(3, seconds(20), [](Member& member) {
    if (member->rank() == 2) return;
    lose(member, {2});
    std::vector<std::byte> all(3, static_cast<std::byte>(member->rank() + 5));
    member->allgather(std::span(all).subspan(2, 1), all);
    EXPECT_EQ(all, (std::vector<std::byte>{std::byte{5}, std::byte{6}, std::byte{5}}));
  });
}

TEST(LiveGroup, AloneIsStillAGroup) {
  on_members(2, seconds(20), [](Member& member) {
    if (member->rank() == 0) return;
    lose(member, {0});
    EXPECT_EQ(gather(*member, 7), (std::vector<int>{7, 7}));
    member->barrier();
  });
}

TEST(LiveGroup, NamesWhoDoesNotCome) {
  on_members(3, milliseconds(100), [](Member& member) {
    if (member->rank() != 0) return;
    lose(member, {2});
    const std::string why = refusal([&] { member->barrier(); });
    EXPECT_NE(why.find("timeout: PE 1 did not take part within 100 ms; 1 PEs are masked here"),
              std::string::npos)
        << why;
    EXPECT_NE(refusal([&] { member->barrier(); }).find("the group is broken since"),
              std::string::npos);
  });
}

TEST(LiveGroup, NamesOneMoreThatEnds) {
  on_members(4, seconds(20), [](Member& member) {
    if (member->rank() > 1) return;
    lose(member, {2});
    member->lost(3);
    EXPECT_EQ(refusal([&] { member->barrier(); }), "peer lost: PE 3 has ended before it took part");
    lose(member, {3});  // mends it
    EXPECT_EQ(gather(*member, member->rank()), (std::vector<int>{0, 1, 0, 0}));
  });
}

/// PE 1 saw both deaths at once and has gone ahead: PE 0 is not to wait for it where it was.
TEST(LiveGroup, DoesNotWaitForOneThatSawMoreDeaths) {
  on_members(4, seconds(20), [](Member& member) {
    if (member->rank() > 1) return;
    if (member->rank() == 0) {
      lose(member, {2});
      member->lost(3);
      EXPECT_EQ(refusal([&] { member->barrier(); }),
                "peer lost: PE 3 has ended before it took part");
      lose(member, {3});
    } else {
      lose(member, {2, 3});
    }
    EXPECT_EQ(gather(*member, member->rank()), (std::vector<int>{0, 1, 0, 0}));
  });
}

TEST(LiveGroup, TellsDifferentCallsApart) {
  on_members(3, seconds(20), [](Member& member) {
    if (member->rank() == 2) return;
    lose(member, {2});
    const std::string why = refusal([&] {
      if (member->rank() == 0) {
        gather(*member, uint64_t{1});
      } else {
        gather(*member, uint32_t{1});
      }
    });
    EXPECT_NE(why.find("makes another collective call than this PE"), std::string::npos) << why;
  });
}

/// A message of the group's own protocol that cannot be right changes nothing.
TEST(LiveGroup, OutlivesOddMessages) {
  on_members(3, seconds(20), [](Member& member) {
    if (member->rank() == 2) return;
    lose(member, {2});
    member->deliver({Message::Kind::kExchange, 1 - member->rank(), {0, 0, 4, 0}, {}});
    member->deliver(
        {Message::Kind::kExchange, 1 - member->rank(), {1, 9, uint64_t{1} << 60, 0}, {}});
    member->deliver(
        {Message::Kind::kExchange, 1 - member->rank(), {1, 5, 1, 0}, std::vector<std::byte>(100)});
    EXPECT_EQ(gather(*member, member->rank()), (std::vector<int>{0, 1, 0}));
  });
}

/// With messages that it will drop.
void fill_socket_of(Member& member, int pe) {
  const std::array<uint64_t, 4> too_long = {0, 0, uint64_t{1} << 60, 0};
  while (member->channel().send(pe, Message::Kind::kExchange, too_long, {}) ==
         Channel::Sent::kDone) {
  }
}

/// Hazard: who left while a peer's socket was full was not heard of, and that peer waited for it
/// until the deadline: 20 s at the end of a job of 11 PEs, of which two had died.
TEST(LiveGroup, IsHeardToLeaveByOneThatIsBusy) {
  std::atomic<bool> deaf{false};
  std::atomic<int> full{0};
  on_members(4, seconds(60), [&](Member& member) {
    if (member->rank() == 3) return;
    lose(member, {3});
    const auto leave = [&] { member->leave({}, [] { throw std::runtime_error("not heard"); }); };
    if (member->rank() != 0) {
      while (!deaf) std::this_thread::yield();
      fill_socket_of(member, 0);
      ++full;
      EXPECT_NO_THROW(leave());
      return;
    }
    member.hear(false);
    deaf = true;
    while (full < 2) std::this_thread::yield();
    // Those that would not tell again have told by then, in vain.
    wait_until([] { return false; }, std::chrono::steady_clock::now() + milliseconds(20));
    member.hear(true);
    EXPECT_NO_THROW(leave());
    EXPECT_EQ(member->left_in_order(), (std::vector<int>{1, 2}));
  });
}

/// A PE that dies tells those that hear, and does not wait for one that does not.
TEST(LiveGroup, TellsOthersOfItsDeathThoughOneIsDeaf) {
  on_members(3, seconds(20), [&](Member& member) {
    if (member->rank() == 0) member.hear(false);
    member->barrier();
    if (member->rank() == 1) {
      fill_socket_of(member, 0);
      member->announce(Departure::How::kExited, 0, "");
    } else if (member->rank() == 2) {
      EXPECT_TRUE(wait_until([&] { return !member->left_in_order().empty(); },
                             std::chrono::steady_clock::now() + seconds(20)));
    }
  });
}

/// Hazard: PE 0 and 1 had come to their end when PE 1 was killed. PE 0 gave up, and PE 2, which
/// worked on, said that PE 0 had ended the job.
TEST(LiveGroup, SaysWhyItGivesUpTheEndOfTheJob) {
  bootstrap::run_threads(3, [](Bootstrap& group) {
    Member member(group, seconds(20));
    if (member->rank() == 1) return;
    if (member->rank() == 0) {
      EXPECT_NE(refusal([&] { member->leave({}, [] {}); }).find("rank 1 of 3 died"),
                std::string::npos);
      return;
    }
    std::string why;
    wait_until(
        [&] {
          const auto how = member->departure(0);
          why = how ? describe(*how) : "";
          return how && !how->in_order();
        },
        std::chrono::steady_clock::now() + seconds(20));
    EXPECT_EQ(why, "left by an exception: end of the job: rank 1 of 3 died or disconnected");
  });
}

/// Hazard: PE 0 gave up the end of the job because PE 1 had been killed, before it heard that from
/// PE 1's host, and PE 2 said that PE 0 was lost.
TEST(LiveGroup, TellsForWhoseLossItGivesUpTheEndOfTheJob) {
  bootstrap::run_threads(3, [](Bootstrap& group) {
    Member member(group, seconds(20));
    if (member->rank() == 1) return;
    if (member->rank() == 0) {
      std::thread host([&] {
        while (!member->leaves()) std::this_thread::yield();
        member->lost(1);
      });
      EXPECT_NE(refusal([&] { member->leave({}, [] {}); }).find("rank 1 of 3 died"),
                std::string::npos);
      host.join();
      return;
    }
    wait_until([&] { return member->departure(1).has_value(); },
               std::chrono::steady_clock::now() + seconds(20));
    EXPECT_EQ(member->departure(1).value().how, Departure::How::kEnded);
  });
}

Message leaving(int from, const DepartureView& how, int lost_pe = -1,
                const DepartureView& loss = {}) {
  const LeavingMessage message({how, lost_pe, loss});
  const auto bytes = message.payload();
  return {Message::Kind::kLeft, from, message.word(), {bytes.begin(), bytes.end()}};
}

/// Hazard: PE 0 ended by exit(3), PE 1 heard of it and ended by exit(5), and PE 2, which PE 0 had
/// not told yet, said that PE 1 had ended the job.
TEST(LiveGroup, HearsOfALossFromWhoLeavesForIt) {
  on_members(3, seconds(20), [](Member& member) {
    if (member->rank() != 2) return;
    const auto told = leaving(1, {Departure::How::kExited, 5, "second"}, 0,
                              {.how = Departure::How::kException, .text = "first"});
    EXPECT_EQ(member->hear_leaving(told), (std::vector<int>{0, 1}));
    EXPECT_EQ(describe(member->departure(0).value()), "left by an exception: first");
    EXPECT_EQ(member->departure(1).value().code, 5);
    EXPECT_EQ(member->departure(1).value().text, "second");
  });
}

/// Hazard: PE 0 had gone to rejoin(), and the kernel of PE 1, which knew of no loss, waited for it
/// until its deadline.
TEST(LiveGroup, IsHeardToRejoin) {
  on_members(3, seconds(20), [](Member& member) {
    if (member->rank() == 0) {
      member->lost(2);
      member->leave_for_rejoin();
    }
    if (member->rank() != 1) return;
    wait_until([&] { return member->departure(0).has_value(); },
               std::chrono::steady_clock::now() + seconds(20));
    EXPECT_EQ(member->departure(0).value().how, Departure::How::kRejoins);
    EXPECT_EQ(member->departure(2).value().how, Departure::How::kEnded);
  });
}

TEST(LiveGroup, HearsOfALossThatEndedInOrder) {
  on_members(2, seconds(20), [](Member& member) {
    if (member->rank() != 1) return;
    EXPECT_EQ(member->hear_leaving(leaving(0, {Departure::How::kExited, 0})), std::vector<int>());
    const auto told = leaving(0, {.how = Departure::How::kExited, .code = 5});
    EXPECT_EQ(member->hear_leaving(told), std::vector<int>{0});
  });
}

/// What is told first of an end that is not in order stays: std::terminate() ends by SIGABRT.
TEST(LiveGroup, KeepsTheFirstReason) {
  on_members(2, seconds(20), [](Member& member) {
    if (member->rank() != 1) return;
    (void)member->hear_leaving(leaving(0, {Departure::How::kTerminated, 0, "uncaught"}));
    (void)member->hear_leaving(leaving(0, {Departure::How::kKilled, 6}));
    EXPECT_EQ(member->departure(0).value().text, "uncaught");
  });
}

TEST(LiveGroup, IgnoresWordsThatNoPeSends) {
  on_members(2, seconds(20), [](Member& member) {
    if (member->rank() != 1) return;
    const auto heard = [&](std::array<uint64_t, 4> word) {
      return member->hear_leaving({Message::Kind::kLeft, 0, word, {}});
    };
    EXPECT_EQ(heard({99, 0, 0, 0}), std::vector<int>());  // no such way
    EXPECT_EQ(heard({uint64_t{7} << 32 | 1, 0, 0, 0}),
              std::vector<int>());  // text that is not there
    const uint64_t unknown_pe = uint64_t{1000} << 32 | 1;
    EXPECT_EQ(heard({1, 5, unknown_pe, 0}), std::vector<int>{0});
    EXPECT_EQ(heard({1, 5, uint64_t{1} << 32 | 99, 0}), std::vector<int>{0});
  });
}

TEST(LiveGroup, AwaitsOnlyWhoIsAlive) {
  on_members(2, seconds(20), [](Member& member) {
    const int other = 1 - member->rank();
    EXPECT_EQ(member->await_lost({}, milliseconds(0)), -1);
    EXPECT_EQ(member->await_lost({other}, milliseconds(1)), other);
    EXPECT_TRUE(member->lost(other));
    EXPECT_FALSE(member->lost(other)) << "no news";
    EXPECT_EQ(member->await_lost({other}, seconds(20)), -1);
    EXPECT_EQ(member->lost_pes(), std::vector<int>{other});
    EXPECT_EQ(member->live_pes(), std::vector<int>{member->rank()});
  });
}

}  // namespace
}  // namespace peal
