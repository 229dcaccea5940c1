// SPDX-License-Identifier: Apache-2.0
//
// The fault matrix (matrix.h) on the CPU engine of the software NIC: between two processes, which
// have a NIC each, and between two PEs of one.
#include "tests/integration/faults/matrix.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace peal::fault_test {
namespace {

class FaultMatrix : public testing::Test {
 protected:
  FaultMatrix() {
    setenv("PEAL_SOFTNIC_TIMEOUT_SCALE", "0.002", 1);  // 2 ms a try
    setenv("PEAL_SOFTNIC_FABRIC", fmt::format("faults-{}", getpid()).c_str(), 1);
  }
};

TEST_F(FaultMatrix, BetweenProcesses) {
  std::vector<Column> columns = columns_of_any_nic();
  const std::vector<Column> more = columns_of_the_peers_nic();
  columns.insert(columns.end(), more.begin(), more.end());
  const auto life = [&](Bootstrap& group) {
    Matrix matrix(group, columns);
    matrix.run();
    matrix.print("faults between two processes, a NIC each");
    return testing::Test::HasFailure() ? 1 : 0;
  };
  EXPECT_NO_THROW(bootstrap::run_processes(2, life, {.job = std::chrono::minutes(10)}));
}

TEST_F(FaultMatrix, BetweenThreads) {
  const auto life = [](Bootstrap& group) {
    Matrix matrix(group, columns_of_any_nic());
    matrix.run();
    matrix.print("faults between two PEs on one NIC");
  };
  EXPECT_NO_THROW(bootstrap::run_threads(2, life));
}

/// For sanitizers, under which the whole matrix takes minutes.
TEST_F(FaultMatrix, OfAFewFaultsBetweenThreads) {
  const auto life = [](Bootstrap& group) {
    Matrix matrix(group, few_columns());
    matrix.run();
    matrix.print("a few faults between two PEs on one NIC");
  };
  EXPECT_NO_THROW(bootstrap::run_threads(2, life));
}

}  // namespace
}  // namespace peal::fault_test

int main(int argc, char** argv) { return peal::api_test::run_tests(argc, argv); }
