// SPDX-License-Identifier: Apache-2.0
//
// Log lines as they arrive at the other end of a pipe.
#include "host/base/log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

namespace peal {
namespace {

/// A pipe; text() closes the writing end and reads all.
class Pipe {
 public:
  Pipe() { EXPECT_EQ(::pipe(fds_), 0); }
  ~Pipe() {
    ::close(fds_[0]);
    if (fds_[1] >= 0) ::close(fds_[1]);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  int in() const { return fds_[1]; }
  std::string text() {
    ::close(fds_[1]);
    fds_[1] = -1;
    std::string all;
    char part[4096];
    for (ssize_t n; (n = ::read(fds_[0], part, sizeof part)) > 0;) {
      all.append(part, static_cast<size_t>(n));
    }
    return all;
  }

 private:
  int fds_[2] = {-1, -1};
};

TEST(Log, PrefixesRankAndSubsystem) {
  Pipe pipe;
  Log(LogLevel::kInfo, 3, pipe.in()).info("nic", "opened {} in {} ms", "mlx5_0", 7);
  EXPECT_EQ(pipe.text(), "peal[3] nic: opened mlx5_0 in 7 ms\n");
}

TEST(Log, HasNoRankBeforeBootstrap) {
  Pipe pipe;
  Log(LogLevel::kWarn, Log::kNoRank, pipe.in()).error("boot", "x");
  EXPECT_EQ(pipe.text(), "peal[-] boot: x\n");
}

TEST(Log, IsSilentBelowItsLevel) {
  Pipe pipe;
  const Log log(LogLevel::kWarn, 0, pipe.in());
  log.info("a", "no");
  log.debug("a", "no");
  log.warn("a", "yes");
  log.error("a", "yes");
  EXPECT_EQ(pipe.text(), "peal[0] a: yes\npeal[0] a: yes\n");
  EXPECT_TRUE(log.prints(LogLevel::kError));
  EXPECT_FALSE(log.prints(LogLevel::kInfo));
}

TEST(Log, PrefixesEachLineOfATable) {
  Pipe pipe;
  Log(LogLevel::kError, 1, pipe.in()).print("config", "a\n\nb\n");
  EXPECT_EQ(pipe.text(), "peal[1] config: a\npeal[1] config: \npeal[1] config: b\n");
}

TEST(Log, PrintsAnEmptyTextAsOneLine) {
  Pipe pipe;
  Log(LogLevel::kError, 1, pipe.in()).print("x", "");
  EXPECT_EQ(pipe.text(), "peal[1] x: \n");
}

TEST(Log, SurvivesADescriptorThatIsGone) {
  Log(LogLevel::kError, 0, -1).error("x", "nobody hears this");
}

TEST(Log, KeepsLinesOfThreadsApart) {
  Pipe pipe;
  constexpr int kThreads = 4, kLines = 50;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([t, &pipe] {
        const Log log(LogLevel::kInfo, t, pipe.in());
        for (int i = 0; i < kLines; ++i)
          log.info("t", "{}", std::string(40, static_cast<char>('a' + t)));
      });
    }
  }
  const std::string text = pipe.text();
  size_t lines = 0;
  for (size_t begin = 0; begin < text.size(); ++lines) {
    const size_t end = text.find('\n', begin);
    const int t = text[begin + 5] - '0';
    ASSERT_TRUE(t >= 0 && t < kThreads);
    EXPECT_EQ(text.substr(begin, end - begin),
              fmt::format("peal[{}] t: {}", t, std::string(40, static_cast<char>('a' + t))));
    begin = end + 1;
  }
  EXPECT_EQ(lines, size_t{kThreads} * kLines);
}

}  // namespace
}  // namespace peal
