// SPDX-License-Identifier: Apache-2.0
//
// Runtimes whose memory is a GPU's: on a driver that is a fake, with kernels on the CPU, which can
// load and store the fake's memory. The software NIC's engine runs in its process, with a thread in
// place of its kernel.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "tests/support/fake_cuda.h"
#include "tests/support/job.h"

namespace peal {

class RuntimeOnGpu : public testing::Test {
 protected:
  RuntimeOnGpu() : fake_(load_fake_cuda()), config_(api_test::small_config()) {
    fake_.devices = 2;
    fake_.peer_access = true;
    fake_.native_atomics = true;
    fake_.writes_ordering = 100;
    fake_.refuse.clear();
    fake_.mistakes = 0;
    fake_.lagging = 0;
    const auto engine = std::filesystem::absolute("tests/support/peal_softnic_engine_on_cpu");
    ::setenv("PEAL_SOFTNIC_ENGINE_PROGRAM", engine.c_str(), 1);
    ::setenv("PEAL_SOFTNIC_FABRIC", ("on_gpu-" + std::to_string(::getpid())).c_str(), 1);
  }
  ~RuntimeOnGpu() override {
    EXPECT_EQ(fake_.live, 0);
    EXPECT_EQ(fake_.mistakes, 0);
    EXPECT_EQ(fake_.lagging, 0);
  }

  Runtime start(Bootstrap& group) const { return peal::join(group, config_, Target::kGpu); }

  /// `body` answers 0 where all went well, on every PE of a job of processes; of the driver nothing
  /// may be left behind it. `before` is called on each before it starts.
  void on_gpus(
      int pes, const std::function<int(Runtime&)>& body,
      const std::function<void(int rank)>& before = [](int) {}) {
    bootstrap::run_processes(pes, [&](Bootstrap& group) {
      before(group.rank());
      int result = 0;
      {
        Runtime pe = start(group);
        result = body(pe);
      }
      return fake_.live == 0 && fake_.mistakes == 0 && fake_.lagging == 0 ? result : 60;
    });
  }

  FakeCuda& fake_;
  Config config_;
};

}  // namespace peal
