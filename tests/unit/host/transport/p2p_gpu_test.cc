// SPDX-License-Identifier: Apache-2.0
//
// Mapping GPU memory of another PE, on a driver that is a fake: one GPU or two, one process or two,
// and every way to be refused.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "bootstrap/bootstraps.h"
#include "host/memory/backing_cuda.h"
#include "host/transport/p2p.h"
#include "tests/support/fake_cuda.h"

namespace peal {
namespace {

constexpr size_t kBytes = 4 << 20;

/// What PE 0 learns of PE 1.
struct Seen {
  bool reached = false;
  bool right = false;  // the byte that PE 1 wrote into its memory is there
  std::string how;
  P2p::Link link = P2p::Link::kNone;
};

struct Pair {
  int device[2] = {0, 1};
  bool share = true;                                // memory that has a handle
  std::function<void(std::vector<Place>&)> doctor;  // of the places as PE 0 sees them
};

Seen look(Bootstrap& group, const Pair& pair) {
  const auto gpu = Gpu::open(pair.device[group.rank()], 0);
  Backing mine = make_cuda_backing(gpu, kBytes, "test");
  std::vector<std::byte> not_gpu(kBytes);
  std::byte* const memory = pair.share ? mine.address() : not_gpu.data();
  const auto mark = static_cast<std::byte>(40 + group.rank());
  if (pair.share) {
    mine.copy_in(memory + 12345, &mark, 1);
  } else {
    memory[12345] = mark;
  }
  std::vector<Place> places = gather(group, Place::here());
  if (pair.doctor && group.rank() == 0) pair.doctor(places);
  P2p p2p(group, std::move(places), gpu);
  Seen seen;
  {
    const PeerMemory peers = p2p.map(memory, kBytes, -1);
    const size_t peer = 1 - static_cast<size_t>(group.rank());
    seen.reached = peers.direct[peer] != nullptr;
    seen.how = peers.how[peer];
    seen.link = p2p.link();
    if (seen.reached) {
      std::byte byte{};
      mine.copy_out(&byte, peers.direct[peer] + 12345, 1);
      seen.right = byte == static_cast<std::byte>(41 - group.rank());
    }
    group.barrier();
  }
  group.barrier();
  return seen;
}

class P2pGpu : public testing::Test {
 protected:
  P2pGpu() : fake_(load_fake_cuda()) {
    fake_.devices = 2;
    fake_.peer_access = true;
    fake_.native_atomics = true;
    fake_.refuse.clear();
    fake_.mistakes = 0;
  }
  ~P2pGpu() override {
    EXPECT_EQ(fake_.live, 0);
    EXPECT_EQ(fake_.mistakes, 0);
  }

  Seen threads(const Pair& pair = {}) {
    Seen seen;
    bootstrap::run_threads(2, [&](Bootstrap& group) {
      const Seen one = look(group, pair);
      if (group.rank() == 0) seen = one;
    });
    return seen;
  }

  /// In two processes; the answer must be `how`, and leave nothing behind.
  void expect_between_processes(const Pair& pair, const std::string& how) {
    bootstrap::run_processes(2, [&](Bootstrap& group) {
      const Seen seen = look(group, pair);
      if (seen.reached != seen.right) return 1;
      if (group.rank() == 0 && seen.how != how) {
        throw std::runtime_error(seen.how);
      }
      return fake_.live == 0 && fake_.mistakes == 0 ? 0 : 3;
    });
  }

  FakeCuda& fake_;
};

TEST_F(P2pGpu, ThreadsOnOneGpuShareTheirPointers) {
  const Seen seen = threads({.device = {1, 1}, .share = true, .doctor = {}});
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

TEST_F(P2pGpu, ProcessesOpenHandles) {
  expect_between_processes({}, "same host, NVLink GPU 0 -> GPU 1");
}

TEST_F(P2pGpu, ProcessesShareOneGpu) {
  expect_between_processes({.device = {0, 0}, .share = true, .doctor = {}},
                           "same host, same GPU 0");
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

TEST_F(P2pGpu, RefusesMemoryWithoutAHandle) {
  const std::string why =
      "same host, but memory that its process cannot share (it is not cudaMalloc's)";
  expect_between_processes({.device = {0, 1}, .share = false, .doctor = {}}, why);
  fake_.refuse["cuIpcGetMemHandle"] = 801;
  expect_between_processes({}, why);
}

TEST_F(P2pGpu, RefusesAnotherHost) {
  const Seen seen =
      threads({.device = {0, 1}, .share = true, .doctor = [](std::vector<Place>& places) {
                 places[1].boot_id[0] ^= 1;
               }});
  EXPECT_FALSE(seen.reached);
  EXPECT_EQ(seen.how, "other host");
}

TEST_F(P2pGpu, RefusesAGpuThatIsHiddenHere) {
  bootstrap::run_processes(2, [&](Bootstrap& group) {
    if (group.rank() == 0) fake_.visible_from = 1;  // its only GPU is what PE 1 calls GPU 1
    const Seen seen = look(group, {.device = {0, 0}, .share = true, .doctor = {}});
    if (group.rank() == 1) return seen.right ? 0 : 1;
    if (seen.how.find("hidden from this one (CUDA_VISIBLE_DEVICES)") == std::string::npos) {
      throw std::runtime_error(seen.how);
    }
    return 0;
  });
}

}  // namespace
}  // namespace peal
