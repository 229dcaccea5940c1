// SPDX-License-Identifier: Apache-2.0
//
// Jobs on a software NIC that fails from its first work request on: they end soon, on all PEs with
// the same sentence, which names the queue, both ends, the syndrome and the remedy.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/error_of.h"
#include "tests/support/job.h"

namespace peal::api_test {
namespace {

/// Every software NIC that is opened while it lives fails so.
class Plan {
 public:
  explicit Plan(const std::string& plan) {
    setenv("PEAL_SOFTNIC_FAULTS", plan.c_str(), 1);
    // Retries are soon used up, but not while the peer's NIC waits for a core.
    setenv("PEAL_SOFTNIC_TIMEOUT_SCALE", "0.02", 1);
  }
  ~Plan() {
    unsetenv("PEAL_SOFTNIC_FAULTS");
    unsetenv("PEAL_SOFTNIC_TIMEOUT_SCALE");
  }
};

/// Silence is waited for three quarters of `patience`.
Config config_with(bool self_test, Microseconds patience = std::chrono::seconds(60)) {
  Config config = small_config();
  config.self_test = self_test;
  config.bootstrap_timeout = patience;
  return config;
}

/// What two PEs of this process ended with under `plan`.
std::vector<std::string> errors_under(const std::string& plan, Microseconds patience) {
  const Plan planned(plan);
  std::vector<std::string> errors(2);
  bootstrap::run_threads(2, [&](Bootstrap& group) {
    errors[static_cast<size_t>(group.rank())] =
        error_of([&] { const Runtime pe = start(group, config_with(true, patience)); }).what();
  });
  return errors;
}

struct Fault {
  const char* plan;
  std::vector<std::string> parts;
  Microseconds patience = std::chrono::seconds(60);
};

// Silence is waited for 5 s, in which all that comes before it must come. PEs hear every 2 s how
// the others stand: both are to find out between two of these.
constexpr Microseconds kSoon{6'667'000};

class SelfTestFault : public testing::TestWithParam<Fault> {};
INSTANTIATE_TEST_SUITE_P(
    Kinds, SelfTestFault,
    testing::Values(
        Fault{"wqe=1 fault=lose_request",
              {"the first get failed", "syndrome 0x15", "cable", "4791"}},
        Fault{"wqe=3 fault=syndrome:0x12", {"the atomic failed", "syndrome 0x12", "atomics"}},
        Fault{"wqe=4 fault=lose_request", {"the get failed", "syndrome 0x15"}},
        Fault{"wqe=2 fault=syndrome:0x04", {"the put failed", "0x04", "nvidia-peermem"}},
        Fault{"wqe=4 fault=syndrome:0x13", {"the get failed", "0x13", "the peer's key"}},
        // The first request: behind it a PE may meet what the other one's storm has left, silence,
        // which is nearer to a cause.
        Fault{"wqe=1 fault=flush_storm", {"the first get failed", "0x05", "failed before"}},
        Fault{
            "wqe=3 fault=stall", {"nothing came of the atomic", "doorbell", "tools/doctor"}, kSoon},
        Fault{"wqe=1 fault=nic_stop", {"nothing came of the first get"}, kSoon}));

TEST_P(SelfTestFault, IsTheSameErrorOnAllPes) {
  const std::vector<std::string> errors = errors_under(GetParam().plan, GetParam().patience);
  EXPECT_EQ(errors[0], errors[1]);
  expect_in(errors[0], GetParam().parts);
  // The error may be that of either PE: where one is done first, its queues in error may be what
  // the other one meets.
  expect_in(errors[0], {": self-test (host ", "LID ", "GID ", "MTU ", "queue ", " to PE ",
                        "PEAL_SELF_TEST=off", "2 of 2 PEs failed"});
}

TEST(SelfTestFaults, ThatRetriesMendAreNone) {
  const Plan planned("wqe=2 fault=lose_request times=2; wqe=3 fault=lose_ack times=1");
  bootstrap::run_threads(2, [&](Bootstrap& group) {
    const Runtime pe = start(group, config_with(true));
    EXPECT_EQ(pe.status(), Status::kOk);
  });
}

TEST(SelfTestFaults, AreNotLookedForWhenItIsOff) {
  const Plan planned("wqe=1 fault=syndrome:0x13");
  bootstrap::run_threads(2, [&](Bootstrap& group) {
    const Runtime pe = start(group, config_with(false));
    EXPECT_NE(pe.dump().find("none"), std::string::npos) << "nothing has been posted";
  });
}

TEST(SelfTestFaults, MustBeLookedForByAllPes) {
  std::vector<std::string> errors(2);
  bootstrap::run_threads(2, [&](Bootstrap& group) {
    errors[static_cast<size_t>(group.rank())] =
        error_of([&] { const Runtime pe = start(group, config_with(group.rank() == 0)); }).what();
  });
  for (const std::string& error : errors) expect_in(error, {"PEAL_SELF_TEST", "set them alike"});
}

TEST(SelfTestFaults, OfOneProcessAreToldByAll) {
  setenv("PEAL_SOFTNIC_FABRIC", fmt::format("self-test-{}", getpid()).c_str(), 1);
  const auto live = [](Bootstrap& group) {
    std::optional<Plan> planned;
    if (group.rank() == 1) planned.emplace("wqe=3 fault=syndrome:0x14");
    const std::string error =
        error_of([&] { const Runtime pe = start(group, config_with(true)); }).what();
    const bool told = error.find("PE 1: self-test (host ") != std::string::npos &&
                      error.find("the atomic failed") != std::string::npos;
    if (!told) fmt::print(stderr, "rank {}: {}\n", group.rank(), error);
    return told ? 0 : 1;
  };
  bootstrap::run_processes(3, live, {.deadline = std::chrono::seconds(60)});
  unsetenv("PEAL_SOFTNIC_FABRIC");
}

}  // namespace
}  // namespace peal::api_test

int main(int argc, char** argv) { return peal::api_test::run_tests(argc, argv); }
