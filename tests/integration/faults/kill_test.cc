// SPDX-License-Identifier: Apache-2.0
//
// The last row of the fault matrix: the peer's process is killed, by its NIC, while PE 0 does one
// operation over and over. Each ends in time with an error, the record names the peer, and no word
// of PE 0 but the operation's results has changed. Nothing follows on that runtime: its peer is
// gone for good, and every wait on it says so.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "tests/integration/faults/operations.h"
#include "tests/support/injector.h"
#include "tests/support/job.h"
#include "tests/support/require.h"

namespace peal::fault_test {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

/// Until the NIC ends the process, or the deadline of the job.
[[noreturn]] void be_killed() {
  Injector().inject("after_ms=0 fault=kill");
  for (;;) ::pause();
}

/// Does the row until it fails. Answers what PE 0's lanes got at last.
Status outlive(Runtime& pe, const Row& row, uint64_t* words) {
  const auto end = steady_clock::now() + seconds(60);
  Outcome outcome = {};
  Status status = Status::kOk;
  while (status == Status::kOk) {
    launch({.blocks = 1, .threads = row.lanes()}, run_row, &outcome, pe.context(), row, words)
        .wait();
    if (row.op == Op::kFence || !row.waits()) {  // they wait for nothing
      launch({}, run_quiet, &outcome.status[0], pe.context()).wait();
    }
    for (unsigned i = 0; i < row.lanes() && status == Status::kOk; ++i) status = outcome.status[i];
    require(steady_clock::now() < end, "an end");
  }
  return status;
}

void expect_record(const Runtime& pe) {
  const auto end = steady_clock::now() + seconds(60);
  // The NIC may report it before the process is seen to have ended.
  while (pe.failure().status != Status::kPeerLost && steady_clock::now() < end) {
    std::this_thread::yield();
  }
  const Failure failure = pe.failure();
  require(failure.status == Status::kPeerLost, failure.text);
  require(failure.pe == 1, failure.text);
}

int live(Bootstrap& group, const Row& row) {
  Runtime pe = api_test::start(group);
  auto* const words = pe.allocate<uint64_t>(kWords);
  const Image image = fresh_image(pe.my_pe());
  std::copy(image.begin(), image.end(), words);
  pe.barrier();
  if (pe.my_pe() == 1) be_killed();
  const Status status = outlive(pe, row, words);
  fmt::print("{:<28}{}\n", row.name(), letter(status));
  std::fflush(stdout);
  require(status == Status::kQueueError || status == Status::kPeerLost, to_string(status));
  expect_record(pe);
  for (uint32_t i = 0; i < kWords; ++i) {
    const bool result = i >= kResult && i < kResult + kPart;
    require(result || words[i] == image[i], fmt::format("word {} as it was", i));
  }
  return 0;
}

TEST(FaultKill, OfThePeerEndsEveryOperation) {
  setenv("PEAL_SOFTNIC_FABRIC", fmt::format("kill-{}", getpid()).c_str(), 1);
  fmt::print("\nkill  fault=kill of PE 1's process: E queue error, L peer lost\n\n");
  std::fflush(stdout);
  for (const Row& row : all_rows()) {
    std::string text = "no error";
    try {
      bootstrap::run_processes(2, [&](Bootstrap& group) { return live(group, row); },
                               {.deadline = seconds(60), .job = seconds(200)});
    } catch (const Error& error) {
      text = error.what();
    }
    EXPECT_EQ(text, "rank 1 of 2 was killed by signal 9 (Killed)") << row.name();
  }
}

}  // namespace
}  // namespace peal::fault_test

int main(int argc, char** argv) { return peal::api_test::run_tests(argc, argv); }
