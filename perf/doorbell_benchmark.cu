// SPDX-License-Identifier: Apache-2.0
//
// What telling a NIC costs a kernel: three lines of a WQE, then fence, doorbell record and
// doorbell. Ring and record lie in GPU memory, the register in pinned host memory, where a store
// costs what one to a NIC does. Nobody listens.
//
//   doorbell_benchmark [--gpu N] [--rings N]     one JSON object a line: ns of one WQE and its ring
#include <algorithm>
#include <vector>

#include "device/base/spin.h"
#include "tests/gpu/softnic_rig.cuh"

namespace {

using namespace peal;
using testing::check;
using testing::device_array;
using testing::option;

constexpr uint32_t kDepth = 1024, kBenchBlocks = 128;

/// tell_nic() with fences that reach the GPU or the system.
template <Reach R>
struct Fenced {
  __device__ static void tell(const SendQueue& q, Be32 posted) { mlx5::tell_nic<R>(q.nic, posted); }
};

/// The order of DOCA GPUNetIO and UCX: the doorbell before the record too.
struct DoorbellFirst {
  __device__ static void tell(const SendQueue& q, Be32 posted) {
    fence_posted<Reach::kGpu>();
    mlx5::ring_doorbell(q.nic.doorbell, posted, q.nic.qpn_shifted);
    mlx5::write_doorbell_record(q.nic.doorbell_record, posted);
    if (q.nic.ring_twice == 0) return;
    fence_posted<Reach::kGpu>();
    mlx5::ring_doorbell(q.nic.doorbell, posted, q.nic.qpn_shifted);
  }
};

/// A block a queue, whose first thread posts and rings `rings` times.
template <class How>
__global__ void post(SendQueue* queues, uint32_t rings, uint64_t* ns) {
  const SendQueue q = queues[blockIdx.x];
  uint64_t began = 0;
  for (uint64_t at = 0; at < rings; ++at) {
    if (at == rings / 8) began = now_ns();  // what comes before warms up
    const nic::Write put{{at * 8, mlx5::key(0x100)}, {at * 8, mlx5::key(0x200)}, 8};
    nic::Model::write(q.nic, q.mask, at, put, true);
    How::tell(q, mlx5::posted_count(at + 1));
  }
  ns[blockIdx.x] = now_ns() - began;
}

struct Bench {
  Bench() { CHECK(cudaHostAlloc(&reg, 4096, cudaHostAllocMapped | cudaHostAllocPortable)); }

  template <class How>
  void row(const char* how, uint32_t blocks, uint32_t twice, uint32_t count) {
    std::vector<SendQueue> all(blocks);
    for (uint32_t i = 0; i < blocks; ++i) {
      all[i] = {};
      all[i].nic.blocks = rings + size_t{i} * kDepth;
      all[i].nic.doorbell_record = records + i;
      all[i].nic.doorbell = static_cast<uint64_t*>(reg);  // one page for all, as in a PE
      all[i].mask = kDepth - 1;
      all[i].nic.qpn_shifted = Be32{(i + 1) << 8};
      all[i].nic.ring_twice = twice;
    }
    CHECK(cudaMemcpy(queues, all.data(), sizeof(SendQueue) * blocks, cudaMemcpyHostToDevice));
    std::vector<uint64_t> took(blocks);
    std::vector<double> each;
    for (int i = 0; i < 5; ++i) {
      post<How><<<blocks, 1>>>(queues, count, ns);
      CHECK(cudaGetLastError());
      CHECK(cudaMemcpy(took.data(), ns, sizeof(uint64_t) * blocks, cudaMemcpyDeviceToHost));
      double sum = 0;
      for (const uint64_t one : took) sum += static_cast<double>(one);
      each.push_back(sum / blocks / (count - count / 8));
    }
    std::nth_element(each.begin(), each.begin() + 2, each.end());
    std::printf("{\"how\": \"%s\", \"doorbells\": %u, \"blocks\": %u, \"ns\": %.0f}\n", how,
                twice + 1, blocks, each[2]);
  }

  mlx5::Wqebb* rings = device_array<mlx5::Wqebb>(size_t{kDepth} * kBenchBlocks);
  mlx5::DoorbellRecord* records = device_array<mlx5::DoorbellRecord>(kBenchBlocks);
  SendQueue* queues = device_array<SendQueue>(kBenchBlocks);
  uint64_t* ns = device_array<uint64_t>(kBenchBlocks);
  void* reg = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  CHECK(cudaSetDevice(static_cast<int>(option(argc, argv, "--gpu", 0))));
  const uint32_t count = std::max(option(argc, argv, "--rings", 20000), 16u);
  Bench bench;
  for (const uint32_t blocks : {1u, 16u, kBenchBlocks}) {
    for (const uint32_t twice : {0u, 1u}) {
      bench.row<Fenced<Reach::kSystem>>("system fence", blocks, twice, count);
      bench.row<Fenced<Reach::kGpu>>("gpu fence", blocks, twice, count);
      bench.row<DoorbellFirst>("gpu fence, doorbell first", blocks, twice, count);
    }
  }
  return 0;
}
