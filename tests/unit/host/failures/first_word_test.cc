// SPDX-License-Identifier: Apache-2.0
//
// Who tells of a failure, the watcher or the call that ran into it.
//
// Hazard: the watcher finds a failure, is kept from its CPU, and says it behind a program that has
// asked and printed it meanwhile: two lines of one mistake.
#include "host/failures/first_word.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace peal {
namespace {

TEST(FirstWord, IsNotSaidOnceTheProgramWasToldSinceItWasFound) {
  FirstWord word;
  const auto round = word.due();
  ASSERT_TRUE(round);
  EXPECT_FALSE(word.tell()) << "nobody has said it";
  word.say(*round, [] { ADD_FAILURE() << "said behind the program"; });
  EXPECT_FALSE(word.due());
  EXPECT_TRUE(word.told());
}

TEST(FirstWord, IsSaidOnceAndTheProgramHearsThat) {
  FirstWord word;
  int lines = 0;
  const auto round = word.due();
  for (int i = 0; i < 2; ++i) word.say(*round, [&] { ++lines; });
  EXPECT_EQ(lines, 1);
  EXPECT_FALSE(word.due());
  EXPECT_FALSE(word.told());
  EXPECT_TRUE(word.tell());
}

TEST(FirstWord, IsOutBeforeTheProgramHearsThatItWasSaid) {
  FirstWord word;
  const auto round = word.due();
  std::atomic<bool> saying{false};
  std::atomic<bool> asking{false};
  std::atomic<bool> out{false};
  std::thread watcher([&] {
    word.say(*round, [&] {
      saying = true;
      while (!asking) std::this_thread::yield();
      for (int i = 0; i < 1000; ++i) std::this_thread::yield();
      out = true;
    });
  });
  while (!saying) std::this_thread::yield();
  asking = true;
  EXPECT_TRUE(word.tell());
  EXPECT_TRUE(out);
  watcher.join();
}

TEST(FirstWord, OfBeforeARecoveryIsNotSaidBehindIt) {
  FirstWord word;
  const auto round = word.due();
  word.tell();
  word.forget();
  word.say(*round, [] { ADD_FAILURE() << "said of what was forgotten"; });
  EXPECT_FALSE(word.told());
  EXPECT_TRUE(word.due());
}

}  // namespace
}  // namespace peal
