// SPDX-License-Identifier: Apache-2.0
//
// What head and agents of peal-run tell each other, over a connection that brings it in pieces; and
// the lines of a PE.
#include "run/frame.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "run/pe.h"
#include "run/printer.h"
#include "tests/support/error_of.h"

namespace peal::run {
namespace {

std::pair<FrameStream, FrameStream> connected() {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  return {FrameStream(Fd(ends[0]), Fd()), FrameStream(Fd(ends[1]), Fd())};
}

TEST(Pack, KeepsTextsAsTheyAre) {
  for (const std::vector<std::string>& texts :
       {std::vector<std::string>{}, {""}, {"a", "", std::string("b\0c", 3), "\n"}}) {
    EXPECT_EQ(unpack(pack(texts)), texts);
  }
  for (const char* broken : {"abc", "\x05\0\0\0\0\0\0\0abcd"}) {
    EXPECT_EQ(error_of([&] { unpack(std::string(broken, 3)); }).code(), ErrorCode::kInternal);
  }
}

TEST(FrameStream, BringsFramesWholeAndInOrder) {
  auto [head, agent] = connected();
  const std::string much(300'000, 'x');  // more than a socket holds
  agent.send({Note::kOutput, 3, much});
  agent.send({Note::kExited, 4, ""});
  std::optional<Frame> frame;
  while (!(frame = head.next())) {
    ASSERT_TRUE(agent.write_some());
    ASSERT_TRUE(head.read_some());
  }
  EXPECT_EQ(frame->note, Note::kOutput);
  EXPECT_EQ(frame->number, 3U);
  EXPECT_EQ(frame->bytes, much);
  while (!(frame = head.next())) {
    ASSERT_TRUE(agent.write_some());
    ASSERT_TRUE(head.read_some());
  }
  EXPECT_EQ(frame->note, Note::kExited);
  EXPECT_FALSE(head.next());
}

// A login shell on another host may print whatever it likes.
TEST(FrameStream, PassesOverWhatComesBeforeTheGreeting) {
  auto [head, agent] = connected();
  const std::string noise = "Welcome! peal-run agent of nothing\n";
  ASSERT_EQ(::write(agent.out(), noise.data(), noise.size()), static_cast<ssize_t>(noise.size()));
  ASSERT_TRUE(head.read_some());
  EXPECT_FALSE(head.greeted());
  agent.greet();
  agent.send({Note::kReady, 0, "id"});
  ASSERT_TRUE(agent.write_some());
  ASSERT_TRUE(head.read_some());
  EXPECT_TRUE(head.greeted());
  EXPECT_EQ(head.next()->bytes, "id");
}

TEST(FrameStream, TellsTheEndOfTheOtherSide) {
  auto [head, agent] = connected();
  { const FrameStream gone = std::move(agent); }
  EXPECT_FALSE(head.read_some());
  ::signal(SIGPIPE, SIG_IGN);
  head.send({Note::kEnd, 0, ""});
  EXPECT_FALSE(head.write_some());
  EXPECT_EQ(head.pending(), 0U);
}

TEST(FrameStream, RefusesBytesThatAreNoFrame) {
  auto [head, agent] = connected();
  ASSERT_EQ(::write(agent.out(), "GET / HTTP/1.1\r\n\r\n", 18), 18);
  ASSERT_TRUE(head.read_some());
  EXPECT_EQ(error_of([&head = head] { head.next(); }).code(), ErrorCode::kInternal);
}

TEST(Lines, AreHandedOnWhole) {
  Lines lines;
  EXPECT_EQ(lines.add("one\ntw"), "one\n");
  EXPECT_EQ(lines.add("o"), "");
  EXPECT_EQ(lines.add("\nthree\n\nfo"), "two\nthree\n\n");
  EXPECT_EQ(lines.rest(), "fo\n");
  EXPECT_EQ(lines.rest(), "");
}

TEST(Lines, DoNotGrowForEver) {
  Lines lines;
  EXPECT_EQ(lines.add(std::string(1 << 20, 'x')), "");
  EXPECT_EQ(lines.add("y").size(), (1U << 20) + 2);
  EXPECT_EQ(lines.rest(), "");
}

/// CPU time of this thread: what others take of the machine does not count.
double cpu_seconds() {
  timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

// Once for each 4 KiB all that waited was moved: this took 37 s, of which the limit leaves half.
TEST(Printer, TakesNoLongerForWhatWaitsBehind) {
  const double limit = cpu_seconds() + 18;
  const Fd nothing(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  Printer printer(nothing.get());
  printer.add("", std::string(std::size_t{96} << 20, 'x'));
  while (printer.pending() > 0) {
    ASSERT_TRUE(printer.write_some());
    ASSERT_LT(cpu_seconds(), limit) << printer.pending();
  }
}

TEST(Printer, TellsWhyNothingCanBeWritten) {
  const Fd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  Printer printer(full.get());
  printer.add("[0] ", "one\n");
  EXPECT_EQ(printer.pending(), 8U);
  EXPECT_FALSE(printer.write_some());
  EXPECT_EQ(printer.error(), ENOSPC);
  printer.add("[0] ", "two\n");
  EXPECT_EQ(printer.pending(), 0U);
}

}  // namespace
}  // namespace peal::run
