// SPDX-License-Identifier: Apache-2.0
//
// A value of each thread, which is there for destructors that run behind those of the thread's
// variables.
#include "base/of_thread.h"

#include <gtest/gtest.h>

#include <array>
#include <latch>
#include <string>
#include <thread>

namespace peal {
namespace {

struct One;
struct Other;

TEST(OfThread, IsAnotherForEachThreadAndName) {
  of_thread<std::string, One>() = "mine";
  EXPECT_EQ((of_thread<std::string, Other>()), "");
  std::thread([] {
    EXPECT_EQ((of_thread<std::string, One>()), "");
    of_thread<std::string, One>() = "its own";
  }).join();
  EXPECT_EQ((of_thread<std::string, One>()), "mine");
}

// Hazard: what destructors of statics said at exit() was written to a string that was gone.
TEST(OfThread, IsThereBehindTheEndOfAThreadsVariables) {
  struct Late {
    std::string* told = nullptr;
    ~Late() {
      of_thread<std::string, One>() = "a text that is too long to lie in the string itself";
      *told = of_thread<std::string, One>();
    }
  };
  std::string told;
  std::thread([&] {
    thread_local Late late;  // made before, so destroyed behind
    late.told = &told;
    of_thread<std::string, One>() = "early";
  }).join();
  EXPECT_EQ(told, "a text that is too long to lie in the string itself");
}

// Hazard: threads that came so late wrote to one string, unlocked.
TEST(OfThread, IsAnotherForEachThreadBehindItsEnd) {
  struct Late {
    std::string* told = nullptr;
    std::latch* all_wrote = nullptr;
    ~Late() {
      of_thread<std::string, One>() = *told + ", in a text that is too long to lie in the string";
      all_wrote->arrive_and_wait();
      *told = of_thread<std::string, One>();
    }
  };
  std::array<std::string, 2> told{"one", "two"};
  std::latch all_wrote(2);
  const auto run = [&](std::string& mine) {
    thread_local Late late;  // made before, so destroyed behind
    late.told = &mine;
    late.all_wrote = &all_wrote;
    of_thread<std::string, One>() = "early";
  };
  std::thread other([&] { run(told[0]); });
  std::thread([&] { run(told[1]); }).join();
  other.join();
  EXPECT_EQ(told[0], "one, in a text that is too long to lie in the string");
  EXPECT_EQ(told[1], "two, in a text that is too long to lie in the string");
}

}  // namespace
}  // namespace peal
