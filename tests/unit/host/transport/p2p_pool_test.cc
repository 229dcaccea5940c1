// SPDX-License-Identifier: Apache-2.0
//
// Mapping memory of another PE that is of a pool (cudaMallocAsync), on a driver that is a fake, and
// every way to be refused.
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/p2p_gpu_fixture.h"

namespace peal {
namespace {

TEST_F(P2pGpu, ProcessesHandOverTheDescriptorOfAPool) {
  expect_between_processes({.memory = Memory::kPool},
                           "same host, NVLink GPU 0 -> GPU 1, by descriptor of its pool");
  expect_between_processes({.device = {0, 0}, .memory = Memory::kPool},
                           "same host, same GPU 0, by descriptor of its pool");
}

TEST_F(P2pGpu, ReachesAPoolOfAGpuThatIsHiddenHere) {
  expect_of_hidden({.memory = Memory::kPool, .nvml = true},
                   "same host, NVLink GPU 0 -> a GPU hidden here (CUDA_VISIBLE_DEVICES), by "
                   "descriptor of its pool");
}

// cuCtxEnablePeerAccess gives none to pools.
TEST_F(P2pGpu, ThreadsAllowPoolsToEachOthersGpus) {
  for (const Memory memory : {Memory::kPool, Memory::kDefaultPool}) {
    fake_.pool_accesses = 0;
    const Seen seen = threads({.memory = memory});
    EXPECT_TRUE(seen.right);
    EXPECT_EQ(seen.how, "same process, NVLink GPU 0 -> GPU 1");
    EXPECT_EQ(fake_.pool_accesses, 2);
    EXPECT_TRUE(threads({.device = {1, 1}, .memory = memory}).right);
    EXPECT_EQ(fake_.pool_accesses, 2) << "a GPU may use its own";
  }
  fake_.refuse["cuMemPoolSetAccess"] = 1;
  const Seen refused = threads({.memory = Memory::kDefaultPool});
  EXPECT_FALSE(refused.reached);
  EXPECT_EQ(refused.how,
            "NVLink GPU 0 -> GPU 1, but cuMemPoolSetAccess(read and write) on GPU 0 (Fake H200): "
            "the test wants it so (CUDA_ERROR_FAKE)");
}

TEST_F(P2pGpu, RefusesTheDefaultPool) {
  expect_between_processes({.memory = Memory::kDefaultPool},
                           "same host, but memory of a pool without a descriptor: the default pool "
                           "of cudaMallocAsync cannot be shared; make a pool with "
                           "cudaMemHandleTypePosixFileDescriptor (cudaMemPoolCreate), or use "
                           "cudaMalloc");
}

TEST_F(P2pGpu, RefusesSeveralAllocationsOfAPool) {
  expect_between_processes({.memory = Memory::kSeveralOfPool},
                           "same host, but memory of several allocations");
}

TEST_F(P2pGpu, RefusesPoolsWhereTheDriverCannotShareThem) {
  const std::string remedy = "older than 11.2; update it, or use cudaMalloc";
  expect_between_processes({.memory = Memory::kPool, .old_driver = {true, true}},
                           "same host, but memory of a pool (cudaMallocAsync), which a CUDA driver "
                           "older than 11.2 cannot share; update it, or use cudaMalloc");
  expect_between_processes({.memory = Memory::kPool, .old_driver = {true, false}},
                           "NVLink GPU 0 -> GPU 1, but the CUDA driver has no "
                           "cuMemPoolImportPointer: it is " +
                               remedy);
  EXPECT_EQ(
      threads({.memory = Memory::kPool, .old_driver = {true, true}}).how,
      "NVLink GPU 0 -> GPU 1, but the CUDA driver has no cuMemPoolSetAccess: it is " + remedy);
}

TEST_F(P2pGpu, RefusesPoolsThatCannotBeExported) {
  for (const std::string call : {"cuMemPoolExportToShareableHandle", "cuMemPoolExportPointer"}) {
    fake_.refuse = {{call, 1}};
    bootstrap::run_processes(2, [&](Bootstrap& group) {
      const Seen seen = look(group, {.memory = Memory::kPool});
      if (seen.reached || !seen.how.starts_with("same host, but " + call + "(")) {
        throw std::runtime_error(seen.how);
      }
      return fake_.live == 0 && fake_.mistakes == 0 ? 0 : 3;
    });
  }
}

// What was done until then is undone: expect_between_processes looks.
TEST_F(P2pGpu, RefusesPoolsThatCannotBeImported) {
  const std::string why = " on GPU 0 (Fake H200): the test wants it so (CUDA_ERROR_FAKE)";
  for (const auto& [symbol, call] : std::vector<std::pair<std::string, std::string>>{
           {"cuMemPoolImportFromShareableHandle", "cuMemPoolImportFromShareableHandle(descriptor)"},
           {"cuMemPoolSetAccess", "cuMemPoolSetAccess(read and write)"},
           {"cuMemPoolImportPointer", "cuMemPoolImportPointer"}}) {
    fake_.refuse = {{symbol, 1}};
    expect_between_processes({.memory = Memory::kPool}, "NVLink GPU 0 -> GPU 1, but " + call + why);
  }
}

TEST_F(P2pGpu, SaysWhichSettingOfContainersKeepsPoolsApart) {
  bootstrap::run_processes(2, [&](Bootstrap& group) {
    const Seen apart = look(group, {.memory = Memory::kPool, .doctor = in_other_containers});
    if (apart.reached || !apart.avoidable) return 1;
    if (apart.how.find("(--network=host)") == std::string::npos) {
      throw std::runtime_error(apart.how);
    }
    return 0;
  });
}

TEST_F(P2pGpu, RefusesPoolsOfOtherHosts) {
  nvml_.cluster = 5;
  nvml_.clique = 7;
  const Seen seen = threads({.memory = Memory::kPool, .doctor = on_other_hosts, .nvml = true});
  EXPECT_FALSE(seen.reached);
  EXPECT_FALSE(seen.avoidable);
  EXPECT_EQ(seen.how,
            "other host, NVLink domain, clique 7, but memory of a pool (cudaMallocAsync); use "
            "memory of cuMemCreate");
}

// A driver answers the same addresses twice, and unmaps them when the first of both is freed.
TEST_F(P2pGpu, ImportsAnAllocationOfAPoolOnce) {
  bootstrap::run_processes(2, [&](Bootstrap& group) {
    {
      const auto gpu = Gpu::open(group.rank(), 0);
      const Shared mine = make(gpu, Memory::kPool);
      const size_t peer = 1 - static_cast<size_t>(group.rank());
      const auto mark = static_cast<std::byte>(40 + group.rank());
      mine.backing.copy_in(mine.begin + 100, &mark, 1);
      P2p p2p(group, gather(group, Place::here()), gpu);
      auto first = std::make_unique<PeerMemory>(p2p.map(mine.begin, 1000, -1));
      const PeerMemory second = p2p.map(mine.begin + 100, 5000, -1);
      if (second.direct[peer] != first->direct[peer] + 100) return 1;
      if (fake_.mappings != 1) return 2;
      first.reset();
      std::byte byte{};
      mine.backing.copy_out(&byte, second.direct[peer], 1);
      group.barrier();
      if (byte != static_cast<std::byte>(41 - group.rank())) return 4;
    }
    group.barrier();
    return fake_.live == 0 && fake_.mistakes == 0 ? 0 : 3;
  });
}

}  // namespace
}  // namespace peal
