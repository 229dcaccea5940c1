// SPDX-License-Identifier: Apache-2.0
//
// What the software NIC's GPU engine does: message rates and latency of 8-byte inline puts, posted
// and polled by a kernel, queues and completions in GPU memory.
//
//   nic_gpu_benchmark [--gpu N] [--target N] [--folder DIR] [--queues N] [--ms N]
//
// --gpu posts, --target holds the memory written to; PEAL_SOFTNIC_GPU says where the NIC runs. One
// JSON object a line; a row whose data or completions are wrong has "errors" above 0.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "device/mlx5/send_queue.h"
#include "tests/support/gpu_queues.h"

namespace {

using namespace peal;
using mlx5::Header;
using mlx5::SendQueue;
using testing::GpuQueues;

constexpr uint32_t kDepth = 1024;
constexpr uint64_t kTimeoutNs = 10'000'000'000;
constexpr uint32_t kLatencies = 5000;

void check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(error));
  std::exit(1);
}
#define CHECK(call) check(call, #call)

template <class T>
T* device_array(size_t count, int fill = 0) {
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, count * sizeof(T)));
  CHECK(cudaMemset(memory, fill, count * sizeof(T)));
  CHECK(cudaDeviceSynchronize());
  return static_cast<T*>(memory);
}

/// What one queue has done.
struct Tally {
  uint64_t messages;
  uint64_t ns;
  uint64_t status;
};

__device__ mlx5::Wqe<3> inline_word(const Header& h, uint64_t offset, Be32 rkey, uint64_t value) {
  const uint32_t payload[3] = {static_cast<uint32_t>(value), static_cast<uint32_t>(value >> 32), 0};
  return mlx5::compose_write_inline(h, {offset, rkey}, payload, 8);
}

/// One warp a queue. `together` lanes post, the last of them signalled; one doorbell for all.
/// Message m of queue b goes to word b * 32 + m % 32 and says m + 1.
__global__ void post_for_a_while(SendQueue* queues, Be32 rkey, uint32_t together,
                                 uint64_t duration_ns, Tally* tallies) {
  SendQueue& q = queues[blockIdx.x];
  const uint32_t lane = threadIdx.x;
  const uint64_t start = now_ns();
  uint64_t sent = 0;
  uint64_t status = 0;
  while (status == 0 && now_ns() - start < duration_ns) {
    uint64_t at = 0;
    if (lane == 0) {
      status = static_cast<uint64_t>(mlx5::reserve<Reach::kLane>(q, together, &at));
    }
    at = __shfl_sync(~0u, at, 0);
    status = __shfl_sync(~0u, status, 0);
    if (status != 0) break;
    if (lane < together) {
      const auto mode =
          lane + 1 == together ? mlx5::Completion::kAlways : mlx5::Completion::kOnFirstError;
      const uint64_t message = sent + lane;
      const uint64_t word = uint64_t{blockIdx.x} * 32 + message % 32;
      mlx5::write(
          q, at + lane,
          inline_word({.index = at + lane, .qpn_shifted = q.qpn_shifted, .completion = mode},
                      8 * word, rkey, message + 1));
    }
    __syncwarp();
    if (lane == 0) {
      mlx5::publish<Reach::kLane>(q, {.first = at, .blocks = together, .last = at + together - 1});
      mlx5::ring<Reach::kLane>(q);
    }
    sent += together;
  }
  if (lane != 0) return;
  if (status == 0) status = static_cast<uint64_t>(mlx5::drain<Reach::kLane>(q));
  tallies[blockIdx.x] = {sent, now_ns() - start, status};
}

__global__ void put_and_wait(SendQueue* q, Be32 rkey, uint64_t* ns, uint64_t* status) {
  for (uint32_t i = 0; i < kLatencies && *status == 0; ++i) {
    const uint64_t start = now_ns();
    uint64_t at = 0;
    mlx5::reserve<Reach::kLane>(*q, 1, &at);
    mlx5::write(*q, at, inline_word({.index = at, .qpn_shifted = q->qpn_shifted}, 0, rkey, i + 1));
    mlx5::publish<Reach::kLane>(*q, {.first = at, .blocks = 1, .last = at});
    mlx5::ring<Reach::kLane>(*q);
    *status = static_cast<uint64_t>(mlx5::drain<Reach::kLane>(*q));
    ns[i] = now_ns() - start;
  }
}

struct Arguments {
  int gpu = 0;
  int target = -1;  // -1: the same
  uint32_t queues = 1024;
  uint64_t ms = 200;
  std::string folder = std::filesystem::canonical("/proc/self/exe").parent_path().string();
};

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const char* value = argv[i + 1];
    if (name == "--gpu") arguments.gpu = std::atoi(value);
    if (name == "--target") arguments.target = std::atoi(value);
    if (name == "--queues") arguments.queues = static_cast<uint32_t>(std::atoi(value));
    if (name == "--ms") arguments.ms = static_cast<uint64_t>(std::atoi(value));
    if (name == "--folder") arguments.folder = value;
  }
  if (arguments.target < 0) arguments.target = arguments.gpu;
  return arguments;
}

class Bench {
 public:
  explicit Bench(const Arguments& arguments);
  void rate(uint32_t queues, uint32_t together);
  void latency();

 private:
  void print(const char* op, uint32_t queues, uint32_t together, const char* unit, double value,
             uint64_t errors) const;

  Arguments arguments_;
  GpuQueues::Memory queue_memory_, data_, source_;
  std::unique_ptr<GpuQueues> nic_;
  SendQueue* queues_ = nullptr;
  Tally* tallies_ = nullptr;
  uint64_t* ns_ = nullptr;
};

Bench::Bench(const Arguments& arguments) : arguments_(arguments) {
  const uint32_t count = arguments.queues;
  CHECK(cudaSetDevice(arguments.target));
  data_ = {device_array<std::byte>(2 << 20), 2 << 20};
  CHECK(cudaSetDevice(arguments.gpu));
  const size_t bytes = count * GpuQueues::stride(kDepth);
  queue_memory_ = {device_array<std::byte>(bytes), bytes};
  source_ = {device_array<std::byte>(2 << 20), 2 << 20};
  for (uint32_t i = 0; i < count; ++i) {
    CHECK(cudaMemset(
        queue_memory_.address + i * GpuQueues::stride(kDepth) + GpuQueues::cqe_offset(kDepth), 0xff,
        64));
  }
  CHECK(cudaDeviceSynchronize());
  nic_ = std::make_unique<GpuQueues>(GpuQueues::Options{.folder = arguments.folder,
                                                        .count = count,
                                                        .depth = kDepth,
                                                        .queues = queue_memory_,
                                                        .data = data_,
                                                        .source = source_});
  CHECK(cudaHostRegister(nic_->doorbell_page(), 4096,
                         cudaHostRegisterPortable | cudaHostRegisterMapped));
  void* doorbell = nullptr;
  CHECK(cudaHostGetDevicePointer(&doorbell, nic_->doorbell(), 0));
  auto* stop = device_array<uint32_t>(1);
  std::vector<SendQueue> described = nic_->describe();
  for (SendQueue& queue : described) {
    queue.doorbell = static_cast<uint64_t*>(doorbell);
    queue.stop = stop;
    queue.timeout_ns = kTimeoutNs;
  }
  queues_ = device_array<SendQueue>(count);
  CHECK(cudaMemcpy(queues_, described.data(), count * sizeof(SendQueue), cudaMemcpyHostToDevice));
  tallies_ = device_array<Tally>(count);
  ns_ = device_array<uint64_t>(kLatencies + 1);
}

void Bench::print(const char* op, uint32_t queues, uint32_t together, const char* unit,
                  double value, uint64_t errors) const {
  std::printf(
      "{\"op\": \"%s\", \"nic\": \"softnic-gpu\", \"gpu\": %d, \"target\": %d, "
      "\"nic_gpu\": \"%s\", \"bytes\": 8, \"queues\": %u, \"messages_per_doorbell\": %u, "
      "\"%s\": %.3f, \"errors\": %llu}\n",
      op, arguments_.gpu, arguments_.target,
      std::getenv("PEAL_SOFTNIC_GPU") ? std::getenv("PEAL_SOFTNIC_GPU") : "auto", queues, together,
      unit, value, static_cast<unsigned long long>(errors));
  std::fflush(stdout);
}

void Bench::rate(uint32_t queues, uint32_t together) {
  CHECK(cudaMemset(data_.address, 0, data_.bytes));
  CHECK(cudaDeviceSynchronize());
  post_for_a_while<<<queues, 32>>>(queues_, nic_->data_rkey(), together, arguments_.ms * 1'000'000,
                                   tallies_);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  std::vector<Tally> tallies(queues);
  std::vector<uint64_t> words(queues * 32);
  CHECK(cudaMemcpy(tallies.data(), tallies_, queues * sizeof(Tally), cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(words.data(), data_.address, words.size() * 8, cudaMemcpyDeviceToHost));
  uint64_t messages = 0;
  uint64_t longest = 1;
  uint64_t errors = 0;
  for (uint32_t i = 0; i < queues; ++i) {
    const Tally& tally = tallies[i];
    messages += tally.messages;
    longest = std::max(longest, tally.ns);
    if (tally.status != 0) ++errors;
    for (uint64_t word = 0; word < 32 && word < tally.messages; ++word) {
      // The last message that went there.
      const uint64_t last = tally.messages - 1 - (tally.messages - 1 - word) % 32;
      if (words[i * 32 + word] != last + 1) ++errors;
    }
  }
  print("put_rate", queues, together, "mmsg_per_s",
        static_cast<double>(messages) * 1000 / static_cast<double>(longest), errors);
}

void Bench::latency() {
  CHECK(cudaMemset(ns_, 0, (kLatencies + 1) * 8));
  put_and_wait<<<1, 1>>>(queues_, nic_->data_rkey(), ns_, ns_ + kLatencies);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  std::vector<uint64_t> ns(kLatencies + 1);
  CHECK(cudaMemcpy(ns.data(), ns_, ns.size() * 8, cudaMemcpyDeviceToHost));
  uint64_t word = 0;
  CHECK(cudaMemcpy(&word, data_.address, 8, cudaMemcpyDeviceToHost));
  const uint64_t errors = (ns[kLatencies] != 0 ? 1 : 0) + (word != kLatencies ? 1 : 0);
  // The GPU's clock may tick coarsely: the mean is right all the same.
  const double total = std::accumulate(ns.begin(), ns.end() - 1, 0.0);
  print("put_quiet_latency_mean", 1, 1, "us", total / kLatencies / 1000, errors);
  std::sort(ns.begin(), ns.end() - 1);
  print("put_quiet_latency_median", 1, 1, "us", static_cast<double>(ns[kLatencies / 2]) / 1000,
        errors);
}

}  // namespace

int main(int argc, char** argv) try {
  Bench bench(parse(argc, argv));
  bench.latency();
  const uint32_t most = parse(argc, argv).queues;
  for (const uint32_t queues : {1u, 16u, 64u, 132u, 264u, 512u, 1024u}) {
    if (queues <= most) bench.rate(queues, 32);
  }
  for (const uint32_t queues : {1u, 64u, 512u, 1024u}) {
    if (queues <= most) bench.rate(queues, 1);
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "nic_gpu_benchmark: %s\n", error.what());
  return 1;
}
