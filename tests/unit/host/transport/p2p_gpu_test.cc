// SPDX-License-Identifier: Apache-2.0
//
// Mapping GPU memory of another PE, on a driver that is a fake: one GPU or two, one process or two,
// and every way to be refused. Of pools: p2p_pool_test.cc.
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "tests/support/p2p_gpu_fixture.h"

namespace peal {
namespace {

TEST_F(P2pGpu, ThreadsOnOneGpuShareTheirPointers) {
  const Seen seen = threads({.device = {1, 1}});
  EXPECT_TRUE(seen.right);
  EXPECT_EQ(seen.how, "same process, same GPU 1");
  EXPECT_EQ(seen.link, P2p::Link::kNone);
}

TEST_F(P2pGpu, ThreadsOnTwoGpusNeedPeerAccess) {
  fake_.enabled = 0;
  const Seen seen = threads();
  EXPECT_TRUE(seen.right);
  EXPECT_EQ(seen.how, "same process, NVLink GPU 0 -> GPU 1");
  EXPECT_EQ(seen.link, P2p::Link::kNvlink);
  EXPECT_EQ(fake_.enabled, 2);
  EXPECT_TRUE(threads().right) << "access that is enabled already";
}

TEST_F(P2pGpu, SaysWhenAtomicsAreNotAtomic) {
  fake_.native_atomics = false;
  const Seen seen = threads();
  EXPECT_TRUE(seen.right);
  EXPECT_EQ(seen.link, P2p::Link::kPcie);
  EXPECT_NE(seen.how.find("PCIe GPU 0 -> GPU 1, where atomics are not atomic"), std::string::npos);
}

TEST_F(P2pGpu, ThreadsMapPiecesAgainWhereTheyUseAnotherGpu) {
  const Seen seen = threads({.memory = Memory::kSeveralPieces});
  EXPECT_TRUE(seen.right);
  EXPECT_EQ(seen.how, "same process, NVLink GPU 0 -> GPU 1");
  EXPECT_TRUE(threads({.device = {1, 1}, .memory = Memory::kSeveralPieces}).right);
}

TEST_F(P2pGpu, ProcessesOpenHandles) {
  expect_between_processes({}, "same host, NVLink GPU 0 -> GPU 1, by IPC handle");
}

TEST_F(P2pGpu, ProcessesShareOneGpu) {
  expect_between_processes({.device = {0, 0}}, "same host, same GPU 0, by IPC handle");
}

TEST_F(P2pGpu, ProcessesHandOverDescriptors) {
  expect_between_processes({.memory = Memory::kPiece},
                           "same host, NVLink GPU 0 -> GPU 1, by descriptor");
  expect_between_processes({.device = {0, 0}, .memory = Memory::kPiece},
                           "same host, same GPU 0, by descriptor");
}

TEST_F(P2pGpu, PiecesThatTheDriverDoesNotMakeAreAllocated) {
  fake_.refuse["cuMemCreate"] = 801;
  expect_between_processes({.memory = Memory::kPiece},
                           "same host, NVLink GPU 0 -> GPU 1, by IPC handle");
}

// As PyTorch's expandable segments have them.
TEST_F(P2pGpu, ProcessesHandOverTheDescriptorsOfSeveralPieces) {
  expect_between_processes({.memory = Memory::kSeveralPieces},
                           "same host, NVLink GPU 0 -> GPU 1, by 2 descriptors");
}

TEST_F(P2pGpu, RefusesGpusWithoutPeerAccess) {
  fake_.peer_access = false;
  EXPECT_EQ(threads().how, "same host, but no peer access GPU 0 -> GPU 1");
}

TEST_F(P2pGpu, RefusesAccessThatCannotBeEnabled) {
  fake_.refuse["cuCtxEnablePeerAccess"] = 2;
  EXPECT_EQ(threads().how,
            "NVLink GPU 0 -> GPU 1, but cuCtxEnablePeerAccess: out of memory "
            "(CUDA_ERROR_OUT_OF_MEMORY)");
}

TEST_F(P2pGpu, RefusesAHandleThatDoesNotOpen) {
  fake_.refuse["cuIpcOpenMemHandle"] = 2;
  expect_between_processes({},
                           "NVLink GPU 0 -> GPU 1, but cuIpcOpenMemHandle: out of memory "
                           "(CUDA_ERROR_OUT_OF_MEMORY)");
}

TEST_F(P2pGpu, RefusesPiecesThatDoNotOpenOrMap) {
  fake_.refuse["cuMemImportFromShareableHandle"] = 1;
  expect_between_processes({.memory = Memory::kSeveralPieces},
                           "NVLink GPU 0 -> GPU 1, but "
                           "cuMemImportFromShareableHandle(descriptor) on GPU 0 (Fake H200): the "
                           "test wants it so (CUDA_ERROR_FAKE)");
}

TEST_F(P2pGpu, RefusesPiecesThatCannotBeExported) {
  fake_.refuse["cuMemExportToShareableHandle"] = 1;
  expect_between_processes({.memory = Memory::kPiece},
                           "same host, but cuMemExportToShareableHandle(descriptor) on GPU 1 (Fake "
                           "H200): the test wants it so (CUDA_ERROR_FAKE)");
}

TEST_F(P2pGpu, RefusesMemoryWithoutAHandle) {
  fake_.refuse["cuIpcGetMemHandle"] = 801;
  expect_between_processes(
      {}, "same host, but memory that its process cannot share (it is not cudaMalloc's)");
}

TEST_F(P2pGpu, ProcessesMapAndPinSharedMemoryOfTheHost) {
  expect_between_processes({.memory = Memory::kSharedHost}, "same host, shared memory, pinned");
}

TEST_F(P2pGpu, ThreadsPinTheirOwnMemoryOfTheHost) {
  const Seen seen = threads({.memory = Memory::kPrivateHost});
  EXPECT_TRUE(seen.right);
  EXPECT_EQ(seen.how, "same process");
}

TEST_F(P2pGpu, RefusesPrivateMemoryOfTheHostOfAProcess) {
  bootstrap::run_processes(2, [](Bootstrap& group) {
    const Seen seen = look(group, {.memory = Memory::kPrivateHost});
    if (seen.reached) return 1;
    if (!seen.how.starts_with("private memory (") || !seen.how.ends_with("with MAP_SHARED")) {
      throw std::runtime_error(seen.how);
    }
    return 0;
  });
}

// Else kernels of its own PE would fault on it.
TEST_F(P2pGpu, RefusesMemoryOfTheHostThatCannotBePinned) {
  bootstrap::run_processes(2, [](Bootstrap& group) {
    const auto gpu = Gpu::open(0, 0);
    const Shared mine = make(gpu, Memory::kSharedHost);
    P2p p2p(group, gather(group, Place::here()), gpu);
    load_fake_cuda().refuse["cuMemHostRegister"] = 1;
    const PeerMemory peers = p2p.map(mine.begin, kBytes, -1);
    group.barrier();
    for (size_t pe = 0; pe < 2; ++pe) {
      if (peers.direct[pe] != nullptr) return 1;
      // How a PE reaches itself is not told, but why it does not.
      if (!peers.how[pe].starts_with("cuMemHostRegister(") ||
          !peers.how[pe].ends_with("those of tmpfs (/dev/shm, a memfd) can")) {
        throw std::runtime_error(peers.how[pe]);
      }
    }
    return 0;
  });
}

TEST_F(P2pGpu, RefusesAnotherHost) {
  const Seen seen = threads({.doctor = on_other_hosts});
  EXPECT_FALSE(seen.reached);
  EXPECT_EQ(seen.how, "other host");
  EXPECT_FALSE(seen.avoidable);
}

TEST_F(P2pGpu, ReachesOtherHostsOfItsNvlinkDomain) {
  fake_.fabric = true;
  nvml_.cluster = 5;
  nvml_.clique = 7;
  expect_between_processes({.memory = Memory::kPiece, .doctor = on_other_hosts, .nvml = true},
                           "other host, NVLink domain, clique 7, by fabric handle");
}

TEST_F(P2pGpu, SaysWhatFabricHandlesWaitFor) {
  nvml_.cluster = 5;
  const Seen seen = threads({.memory = Memory::kPiece, .doctor = on_other_hosts, .nvml = true});
  EXPECT_FALSE(seen.reached);
  EXPECT_TRUE(seen.avoidable);
  EXPECT_NE(seen.how.find("nvidia-imex must run on both hosts"), std::string::npos) << seen.how;
}

TEST_F(P2pGpu, SaysWhichSettingOfContainersKeepsPiecesApart) {
  const Seen seen = threads({.memory = Memory::kPiece, .doctor = in_other_networks});
  EXPECT_TRUE(seen.right) << "threads need no descriptors";
  bootstrap::run_processes(2, [&](Bootstrap& group) {
    const Seen apart = look(group, {.memory = Memory::kPiece, .doctor = in_other_containers});
    if (apart.reached || !apart.avoidable) return 1;
    if (apart.how.find("(--network=host)") == std::string::npos)
      throw std::runtime_error(apart.how);
    return 0;
  });
}

TEST_F(P2pGpu, TakesFabricHandlesBetweenContainers) {
  fake_.fabric = true;
  nvml_.cluster = 5;
  expect_between_processes({.memory = Memory::kPiece, .doctor = in_other_containers, .nvml = true},
                           "same host, NVLink GPU 0 -> GPU 1, by fabric handle");
}

TEST_F(P2pGpu, SaysWhichSettingOfContainersKeepsHandlesApart) {
  fake_.refuse["cuIpcOpenMemHandle"] = 1;
  bootstrap::run_processes(2, [&](Bootstrap& group) {
    const Seen apart = look(group, {.doctor = in_other_containers});
    if (apart.reached || !apart.avoidable) return 1;
    if (apart.how.find("(--ipc=host --pid=host)") == std::string::npos) {
      throw std::runtime_error(apart.how);
    }
    return 0;
  });
}

TEST_F(P2pGpu, ReachesAGpuThatIsHiddenHere) {
  const std::string hidden = "GPU 0 -> a GPU hidden here (CUDA_VISIBLE_DEVICES)";
  for (const Memory memory : {Memory::kPiece, Memory::kAllocated}) {
    const char* const by = memory == Memory::kPiece ? ", by descriptor" : ", by IPC handle";
    expect_of_hidden({.memory = memory, .nvml = true}, "same host, NVLink " + hidden + by);
    nvml_.nvlink = false;
    const std::string not_atomic = ", where atomics are not atomic with the peer's own";
    expect_of_hidden({.memory = memory, .nvml = true},
                     "same host, PCIe " + hidden + not_atomic + by);
    nvml_.nvlink = true;
    expect_of_hidden({.memory = memory}, "same host, unknown link " + hidden + not_atomic + by);
  }
}

TEST_F(P2pGpu, RefusesAHiddenGpuWithoutPeerAccess) {
  const std::string hidden = "GPU 0 -> a GPU hidden here (CUDA_VISIBLE_DEVICES)";
  nvml_.peer_access = false;
  expect_of_hidden({.memory = Memory::kPiece, .nvml = true},
                   "same host, but no peer access " + hidden);
}

}  // namespace
}  // namespace peal
