// SPDX-License-Identifier: Apache-2.0
//
// What a PE costs beside its heap when it talks to all of eight PEs. Runs under mpirun with eight
// ranks.
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <string>

#include "peal/peal.h"

namespace {

constexpr uint64_t kMiB = 1 << 20;

/// A line of /proc/self/status, in bytes.
uint64_t status_bytes(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(name + ":", 0) == 0) return std::stoull(line.substr(name.size() + 1)) * 1024;
  }
  ADD_FAILURE() << "no " << name << " in /proc/self/status";
  return 0;
}

/// Memory that is this process's own doing: not the code of MPI and the C library.
uint64_t own_memory() { return status_bytes("RssAnon") + status_bytes("RssShmem"); }

PEAL_KERNEL talk_to_all(peal::Context ctx, uint64_t* words, peal::Status* worst) {
  for (int pe = 0; pe < ctx.n_pes; ++pe) {
    for (int i = 0; i < 100; ++i) {
      const peal::Status status = peal::atomic_add(ctx, &words[ctx.pe], 1, pe);
      if (status != peal::Status::kOk) *worst = status;
    }
  }
}

// One scope of one kernel calls a barrier: not each of the blocks above.
PEAL_KERNEL meet(peal::Context ctx, peal::Status* worst) {
  const peal::Status status = peal::barrier_all(ctx);
  if (status != peal::Status::kOk) *worst = status;
}

TEST(Footprint, StaysUnder64MiBBesideTheHeap) {
  const uint64_t before = own_memory();
  peal::Runtime pe = peal::start();
  auto* words = pe.allocate<uint64_t>(static_cast<size_t>(pe.n_pes()));
  peal::Status worst = peal::Status::kOk;
  peal::launch({.blocks = 4, .threads = 32}, talk_to_all, pe.context(), words, &worst).wait();
  peal::launch({}, meet, pe.context(), &worst).wait();
  ASSERT_EQ(worst, peal::Status::kOk) << pe.failure().text;
  for (int from = 0; from < pe.n_pes(); ++from) EXPECT_EQ(words[from], 100u * 4 * 32);

  // The heap's pages are touched sparsely and counted too: the bound is on the safe side.
  const uint64_t after = own_memory();
  RecordProperty("grown_bytes", std::to_string(after - before));
  RecordProperty("overhead_bytes", std::to_string(pe.overhead_bytes()));
  EXPECT_LT(after - before, 64 * kMiB);
  EXPECT_LT(pe.overhead_bytes(), 64 * kMiB);
  EXPECT_GT(pe.overhead_bytes(), 0u);
  if (pe.my_pe() == 0) {
    std::printf("grown by %.1f MiB, of which queues and tables %.1f MiB\n",
                static_cast<double>(after - before) / kMiB,
                static_cast<double>(pe.overhead_bytes()) / kMiB);
  }
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
