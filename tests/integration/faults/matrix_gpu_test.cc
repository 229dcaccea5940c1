// SPDX-License-Identifier: Apache-2.0
//
// The fault matrix (matrix.h) on the GPU engine of the software NIC: its process, with a thread in
// place of the kernel, and a fake driver whose memory kernels on the CPU reach.
#include <gtest/gtest.h>

#include <chrono>

#include "tests/integration/faults/matrix.h"
#include "tests/support/gpu_job.h"

namespace peal::fault_test {
namespace {

class FaultMatrixOnGpu : public RuntimeOnGpu {
 protected:
  FaultMatrixOnGpu() { ::setenv("PEAL_SOFTNIC_TIMEOUT_SCALE", "0.002", 1); }
};

void run_between_processes(const std::vector<Column>& columns, const char* title) {
  const auto life = [&](Bootstrap& group) {
    Matrix matrix(group, columns, matrix_config(), Target::kGpu);
    matrix.run();
    matrix.print(title);
    return testing::Test::HasFailure() ? 1 : 0;
  };
  EXPECT_NO_THROW(bootstrap::run_processes(2, life, {.job = std::chrono::minutes(10)}));
}

TEST_F(FaultMatrixOnGpu, BetweenProcesses) {
  std::vector<Column> columns = columns_of_any_nic();
  const std::vector<Column> more = columns_of_the_peers_nic();
  columns.insert(columns.end(), more.begin(), more.end());
  run_between_processes(columns, "faults between two processes, a NIC each, on the GPU engine");
}

TEST_F(FaultMatrixOnGpu, OfAFewFaultsBetweenProcesses) {
  run_between_processes(few_columns(), "a few faults between two processes, a NIC each");
}

}  // namespace
}  // namespace peal::fault_test

int main(int argc, char** argv) { return peal::api_test::run_tests(argc, argv); }
