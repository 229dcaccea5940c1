// SPDX-License-Identifier: Apache-2.0
//
// Two PEs on a driver that is a fake, of which PE 0 maps memory of PE 1: on one GPU or two, in one
// process or two, of every kind that programs have.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bootstrap/bootstraps.h"
#include "host/memory/backing_cuda.h"
#include "host/memory/pieces.h"
#include "host/transport/p2p.h"
#include "tests/support/cuda_pool.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/fake_nvml.h"
#include "tests/support/shared_mapping.h"

namespace peal {

inline constexpr size_t kBytes = 4 << 20;

/// What PE 0 learns of PE 1.
struct Seen {
  bool reached = false;
  bool right = false;  // the byte that PE 1 wrote into its memory is there
  std::string how;
  P2p::Link link = P2p::Link::kNone;
  bool avoidable = false;
};

enum class Memory {
  kAllocated,
  kPiece,
  kSeveralPieces,
  kPrivateHost,
  kSharedHost,
  kPool,
  kDefaultPool,
  kSeveralOfPool
};

struct Pair {
  int device[2] = {0, 1};
  Memory memory = Memory::kAllocated;
  std::function<void(std::vector<Place>&)> doctor = {};  // of the places as all PEs see them
  bool nvml = false;
  bool old_driver[2] = {false, false};  // which knows no pools
};

/// What a PE shares: kBytes from `begin` on, which for pieces is not where one begins.
struct Shared {
  Backing backing;
  GpuMapping mapping = {};
  std::vector<std::byte> host = {};
  std::unique_ptr<SharedMapping> file = {};
  std::unique_ptr<CudaPool> pool = {};
  std::byte* begin = nullptr;
};

inline Shared make(const std::shared_ptr<Gpu>& gpu, Memory kind) {
  Shared shared{.backing = make_cuda_backing(gpu, kBytes, "test")};
  shared.begin = shared.backing.address();
  switch (kind) {
    case Memory::kAllocated:
      break;
    case Memory::kPiece:
      shared.backing = make_piece_backing(gpu, kBytes, "test");
      shared.begin = shared.backing.address();
      break;
    case Memory::kSeveralPieces: {
      Pieces pieces(*gpu);
      for (const size_t bytes : {2u << 20, 4u << 20, 2u << 20, 2u << 20}) {
        EXPECT_EQ(pieces.create(bytes, cuda::kPosixDescriptor), cuda::kSuccess);
      }
      shared.mapping = pieces.map(gpu, 2u << 20);
      shared.begin = shared.mapping.get() + (3u << 20) + 17;
      break;
    }
    case Memory::kPrivateHost:
      shared.host.resize(kBytes);
      shared.begin = shared.host.data();
      break;
    case Memory::kSharedHost:
      shared.file = std::make_unique<SharedMapping>(2 * kBytes, SharedMapping::memfd());
      shared.begin = shared.file->begin() + 4096 + 17;
      break;
    case Memory::kPool:
    case Memory::kDefaultPool:
      shared.pool = kind == Memory::kPool ? CudaPool::shared_of(gpu) : CudaPool::default_of(gpu);
      shared.pool->allocate(4096);
      shared.begin = shared.pool->allocate(2 * kBytes) + 8192 + 17;
      break;
    case Memory::kSeveralOfPool:
      shared.pool = CudaPool::shared_of(gpu);
      shared.begin = shared.pool->allocate(kBytes / 2);
      shared.pool->allocate(kBytes / 2);
      break;
  }
  return shared;
}

inline std::shared_ptr<Gpu> open_gpu(int index, bool old_driver) {
  if (!old_driver) return Gpu::open(index, 0);
  auto driver = std::make_shared<cuda::Driver>(*cuda::load_driver().driver);
  driver->pools = false;
  driver->import_pointer = nullptr;
  driver->export_pointer = nullptr;
  driver->set_pool_access = nullptr;
  return std::make_shared<Gpu>(std::move(driver), index);
}

inline constexpr size_t kMarked[] = {12345, kBytes - 1};

inline Seen look(Bootstrap& group, const Pair& pair) {
  const auto gpu = open_gpu(pair.device[group.rank()], pair.old_driver[group.rank()]);
  const Shared mine = make(Gpu::open(gpu->index(), 0), pair.memory);
  const auto mark = static_cast<std::byte>(40 + group.rank());
  for (const size_t at : kMarked) mine.backing.copy_in(mine.begin + at, &mark, 1);
  std::vector<Place> places = gather(group, Place::here());
  if (pair.doctor) pair.doctor(places);
  std::string why;
  P2p p2p(group, std::move(places), gpu, pair.nvml ? Nvml::open(&why, fake_nvml_path()) : nullptr);
  Seen seen;
  {
    const PeerMemory peers = p2p.map(mine.begin, kBytes, -1);
    const size_t peer = 1 - static_cast<size_t>(group.rank());
    seen.reached = peers.direct[peer] != nullptr;
    seen.how = peers.how[peer];
    seen.avoidable = peers.avoidable[peer];
    seen.link = p2p.link();
    if (seen.reached) {
      seen.right = true;
      for (const size_t at : kMarked) {
        std::byte byte{};
        mine.backing.copy_out(&byte, peers.direct[peer] + at, 1);
        seen.right = seen.right && byte == static_cast<std::byte>(41 - group.rank());
      }
    }
    group.barrier();
  }
  group.barrier();
  return seen;
}

class P2pGpu : public testing::Test {
 protected:
  P2pGpu() : fake_(load_fake_cuda()), nvml_(load_fake_nvml()) {
    nvml_.peer_access = nvml_.nvlink = nvml_.atomics = true;
    nvml_.cluster = 0;
    nvml_.clique = 0;
    nvml_.gpus = 8;
    fake_.fabric = false;
    fake_.visible_from = 0;
    fake_.devices = 2;
    fake_.peer_access = true;
    fake_.native_atomics = true;
    fake_.refuse.clear();
    fake_.mistakes = 0;
  }
  ~P2pGpu() override {
    EXPECT_EQ(fake_.live, 0);
    EXPECT_EQ(fake_.mistakes, 0);
    EXPECT_EQ(nvml_.live, 0);
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

  /// PE 0 sees its own GPU only, which PE 1 calls GPU 1.
  void expect_of_hidden(Pair pair, const std::string& how) {
    pair.device[0] = pair.device[1] = 0;
    bootstrap::run_processes(2, [&](Bootstrap& group) {
      if (group.rank() == 0) fake_.visible_from = 1;
      const Seen seen = look(group, pair);
      if (seen.reached != seen.right) return 1;
      if (group.rank() == 0 && seen.how != how) throw std::runtime_error(seen.how);
      return fake_.live == 0 && fake_.mistakes == 0 && nvml_.live == 0 ? 0 : 3;
    });
  }

  FakeCuda& fake_;
  FakeNvml& nvml_;
};

inline void on_other_hosts(std::vector<Place>& places) { places[1].boot_id[0] ^= 1; }
inline void in_other_networks(std::vector<Place>& places) { places[1].network ^= 1; }
inline void in_other_containers(std::vector<Place>& places) {
  in_other_networks(places);
  places[1].pid_namespace ^= 1;
}

}  // namespace peal
