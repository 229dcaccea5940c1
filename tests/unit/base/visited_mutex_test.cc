// SPDX-License-Identifier: Apache-2.0
//
// Visitors pass while the owner's thread is never done.
#include "base/visited_mutex.h"

#include <gtest/gtest.h>

namespace peal {
namespace {

// A thread that takes its mutex again at once starved those who waited for it.
TEST(VisitedMutex, VisitorsPassAThreadThatNeverRests) {
  VisitedMutex mutex;
  std::atomic<bool> stop{false};
  int rounds = 0;  // by the mutex
  std::thread owner([&] {
    while (!stop) {
      mutex.let_visitors_in();
      const std::lock_guard lock(mutex.own());
      ++rounds;
    }
  });
  int last = -1;
  for (int i = 0; i < 1000; ++i) {
    const VisitedMutex::Visit visit(mutex);
    EXPECT_GE(rounds, last);
    last = rounds;
  }
  stop = true;
  owner.join();
}

}  // namespace
}  // namespace peal
