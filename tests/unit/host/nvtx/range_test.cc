// SPDX-License-Identifier: Apache-2.0
//
// What a profiler hears of the host. Hazard: a range is never closed, and all that follows lies in
// it; threads that open the first ranges of a process at once (only ThreadSanitizer sees it).
#include "host/nvtx/range.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/job.h"

namespace peal::api_test {
namespace {

constexpr const char* kProfiler = "tests/unit/host/nvtx/libfake_profiler.so";

// The first test of this program: what it looks at happens once in a process.
TEST(Nvtx, ThreadsMayOpenTheFirstRangesAtOnce) {
  ASSERT_EQ(::setenv("NVTX_INJECTION64_PATH", kProfiler, 1), 0);
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) threads.emplace_back([] { const nvtx::Range range("peal: thread"); });
  for (std::thread& each : threads) each.join();
}

TEST(Nvtx, NamesWhatTheHostDoes) {
  ASSERT_EQ(::setenv("NVTX_INJECTION64_PATH", kProfiler, 1), 0);
  arrangement().threads = 1;
  on_every_pe([](Runtime& pe) {
    Symmetric<uint64_t> words(pe, 1);
    pe.host().barrier_all();
    EXPECT_EQ(pe.recover(), 0u);
  });
  void* const profiler = ::dlopen(kProfiler, RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(profiler, nullptr) << "nobody has loaded it";
  const auto log = reinterpret_cast<const char* (*)()>(::dlsym(profiler, "fake_profiler_log"));
  ASSERT_NE(log, nullptr);
  std::istringstream lines(log());
  std::vector<std::string> names;
  int open = 0;
  for (std::string line; std::getline(lines, line); open += line == "end" ? -1 : 1) {
    if (line != "end") names.push_back(line);
  }
  EXPECT_EQ(open, 0);
  for (const char* name : {"peal: start", "peal: calloc", "peal: launch", "peal: recover",
                           "peal: free", "peal: barrier"}) {
    EXPECT_NE(std::ranges::find(names, name), names.end()) << name;
  }
}

}  // namespace
}  // namespace peal::api_test
