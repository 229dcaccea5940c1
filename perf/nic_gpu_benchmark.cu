// SPDX-License-Identifier: Apache-2.0
//
// What the software NIC's GPU engine does: rates, latencies and bandwidth of requests posted and
// polled by a kernel, queues and completions in GPU memory.
//
//   nic_gpu_benchmark [--gpu N] [--target N] [--folder DIR] [--queues N] [--ms N] [--waits N]
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
constexpr size_t kDataBytes = 64 << 20;

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

enum class Op { kPut, kPutSignal, kAdd, kWrite, kRead };

const char* name_of(Op op) {
  constexpr const char* kNames[] = {"put", "put_signal", "fetch_add", "write", "read"};
  return kNames[static_cast<int>(op)];
}

/// What is posted again and again: `together` messages, the last of them signalled, a doorbell for
/// all.
struct Job {
  Op op;
  uint32_t together;
  uint32_t bytes;    // of a WRITE or READ
  Be32 rkey;         //
  Be32 word_rkey;    // of the same memory, in order
  Be32 source_lkey;  //
  uint64_t duration_ns;
};

/// Where message `message` of queue `queue` goes: words of puts are the queue's 32 in turn.
__device__ uint64_t word_of(uint32_t queue, uint64_t message) {
  return 8 * (uint64_t{queue} * 32 + message % 32);
}

__device__ void write_message(const Job& job, SendQueue& q, uint32_t queue, const Header& h,
                              uint64_t message) {
  const uint64_t own = uint64_t{queue} * job.bytes;
  switch (job.op) {
    case Op::kPut:
      return mlx5::write(q, h.index,
                         inline_word(h, word_of(queue, message), job.rkey, message + 1));
    case Op::kPutSignal:
      return mlx5::write(q, h.index,
                         inline_word(h, word_of(queue, message),
                                     message % 2 == 0 ? job.rkey : job.word_rkey, message + 1));
    case Op::kAdd:
      return mlx5::write(q, h.index,
                         mlx5::compose_fetch_add(h, {word_of(queue, 0), job.word_rkey}, 1,
                                                 {q.landing_address, q.landing_lkey}));
    case Op::kWrite:
      return mlx5::write(
          q, h.index, mlx5::compose_write(h, {own, job.rkey}, {own, job.source_lkey}, job.bytes));
    case Op::kRead:
      return mlx5::write(q, h.index,
                         mlx5::compose_read(h, {own, job.rkey}, {own, job.source_lkey}, job.bytes));
  }
}

/// One warp a queue, `together` of its lanes.
__global__ void post_for_a_while(SendQueue* queues, Job job, Tally* tallies) {
  SendQueue& q = queues[blockIdx.x];
  const uint32_t lane = threadIdx.x;
  const uint64_t start = now_ns();
  uint64_t sent = 0;
  uint64_t status = 0;
  while (status == 0 && now_ns() - start < job.duration_ns) {
    uint64_t at = 0;
    if (lane == 0) {
      status = static_cast<uint64_t>(mlx5::reserve<Reach::kLane>(q, job.together, &at));
    }
    at = __shfl_sync(~0u, at, 0);
    status = __shfl_sync(~0u, status, 0);
    if (status != 0) break;
    if (lane < job.together) {
      const auto mode =
          lane + 1 == job.together ? mlx5::Completion::kAlways : mlx5::Completion::kOnFirstError;
      write_message(job, q, blockIdx.x,
                    {.index = at + lane, .qpn_shifted = q.qpn_shifted, .completion = mode},
                    sent + lane);
    }
    __syncwarp();
    if (lane == 0) {
      static_cast<void>(mlx5::publish<Reach::kLane>(  // drain tells
          q, {.first = at, .blocks = job.together, .last = at + job.together - 1}));
      mlx5::ring<Reach::kLane>(q);
    }
    sent += job.together;
  }
  if (lane != 0) return;
  if (status == 0) status = static_cast<uint64_t>(mlx5::drain<Reach::kLane>(q));
  tallies[blockIdx.x] = {sent, now_ns() - start, status};
}

/// One thread: `together` messages, then their completion, `waits` times.
__global__ void post_and_wait(SendQueue* q, Job job, uint32_t waits, uint64_t* ns, Tally* tally) {
  uint64_t status = 0;
  uint64_t sent = 0;
  for (uint32_t i = 0; i < waits && status == 0; ++i) {
    const uint64_t start = now_ns();
    uint64_t at = 0;
    static_cast<void>(mlx5::reserve<Reach::kLane>(*q, job.together, &at));  // drain tells
    for (uint32_t k = 0; k < job.together; ++k) {
      write_message(job, *q, 0,
                    {.index = at + k,
                     .qpn_shifted = q->qpn_shifted,
                     .completion = k + 1 == job.together ? mlx5::Completion::kAlways
                                                         : mlx5::Completion::kOnFirstError},
                    sent + k);
    }
    static_cast<void>(mlx5::publish<Reach::kLane>(
        *q, {.first = at, .blocks = job.together, .last = at + job.together - 1}));
    mlx5::ring<Reach::kLane>(*q);
    status = static_cast<uint64_t>(mlx5::drain<Reach::kLane>(*q));
    sent += job.together;
    ns[i] = now_ns() - start;
  }
  *tally = {sent, 0, status};
}

struct Arguments {
  int gpu = 0;
  int target = -1;  // -1: the same
  uint32_t queues = 1024;
  uint64_t ms = 200;
  uint32_t waits = 5000;
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
    if (name == "--waits") arguments.waits = static_cast<uint32_t>(std::atoi(value));
    if (name == "--folder") arguments.folder = value;
  }
  if (arguments.target < 0) arguments.target = arguments.gpu;
  return arguments;
}

class Bench {
 public:
  explicit Bench(const Arguments& arguments);
  void rate(Op op, uint32_t queues, uint32_t together);
  void bandwidth(Op op, uint32_t queues, uint32_t bytes);
  void latency(Op op, uint32_t together);

  /// Rows' errors so far.
  uint64_t wrong() const { return wrong_; }

 private:
  Job job(Op op, uint32_t together, uint32_t bytes) const;
  void clear(const GpuQueues::Memory& memory) const;
  std::vector<Tally> post(const Job& job, uint32_t queues);
  uint64_t wrong_words(Op op, const std::vector<Tally>& tallies) const;
  void print(const Job& job, uint32_t queues, const char* unit, double value,
             uint64_t errors) const;

  mutable uint64_t wrong_ = 0;
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
  data_ = {device_array<std::byte>(kDataBytes), kDataBytes};
  CHECK(cudaSetDevice(arguments.gpu));
  const size_t bytes = count * GpuQueues::stride(kDepth);
  queue_memory_ = {device_array<std::byte>(bytes), bytes};
  source_ = {device_array<std::byte>(kDataBytes), kDataBytes};
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
  auto* stop = device_array<uint32_t>(1);
  std::vector<SendQueue> described = nic_->describe();
  for (SendQueue& queue : described) {
    queue.stop = stop;
    queue.timeout_ns = kTimeoutNs;
  }
  queues_ = device_array<SendQueue>(count);
  CHECK(cudaMemcpy(queues_, described.data(), count * sizeof(SendQueue), cudaMemcpyHostToDevice));
  tallies_ = device_array<Tally>(count);
  ns_ = device_array<uint64_t>(arguments.waits);
}

Job Bench::job(Op op, uint32_t together, uint32_t bytes) const {
  return {.op = op,
          .together = together,
          .bytes = bytes,
          .rkey = nic_->data_rkey(),
          .word_rkey = nic_->word_rkey(),
          .source_lkey = nic_->source_lkey(),
          .duration_ns = arguments_.ms * 1'000'000};
}

void Bench::print(const Job& job, uint32_t queues, const char* unit, double value,
                  uint64_t errors) const {
  const char* nic_gpu = std::getenv("PEAL_SOFTNIC_GPU");
  std::printf(
      "{\"op\": \"%s\", \"nic\": \"softnic-gpu\", \"gpu\": %d, \"target\": %d, "
      "\"nic_gpu\": \"%s\", \"bytes\": %u, \"queues\": %u, "
      "\"messages_per_doorbell\": %u, \"%s\": %.3f, \"errors\": %llu}\n",
      name_of(job.op), arguments_.gpu, arguments_.target, nic_gpu ? nic_gpu : "auto", job.bytes,
      queues, job.together, unit, value, static_cast<unsigned long long>(errors));
  std::fflush(stdout);
  wrong_ += errors;
}

void Bench::clear(const GpuQueues::Memory& memory) const {
  CHECK(cudaSetDevice(memory.address == data_.address ? arguments_.target : arguments_.gpu));
  CHECK(cudaMemset(memory.address, 0, memory.bytes));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaSetDevice(arguments_.gpu));
}

std::vector<Tally> Bench::post(const Job& job, uint32_t queues) {
  post_for_a_while<<<queues, 32>>>(queues_, job, tallies_);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  std::vector<Tally> tallies(queues);
  CHECK(cudaMemcpy(tallies.data(), tallies_, queues * sizeof(Tally), cudaMemcpyDeviceToHost));
  return tallies;
}

/// Words that do not say what the last message that went there said.
uint64_t Bench::wrong_words(Op op, const std::vector<Tally>& tallies) const {
  std::vector<uint64_t> words(tallies.size() * 32);
  CHECK(cudaMemcpy(words.data(), data_.address, words.size() * 8, cudaMemcpyDeviceToHost));
  uint64_t wrong = 0;
  for (size_t i = 0; i < tallies.size(); ++i) {
    const uint64_t messages = tallies[i].messages;
    if (op == Op::kAdd) wrong += words[i * 32] != messages ? 1 : 0;
    for (uint64_t word = 0; op != Op::kAdd && word < 32 && word < messages; ++word) {
      const uint64_t last = messages - 1 - (messages - 1 - word) % 32;
      wrong += words[i * 32 + word] != last + 1 ? 1 : 0;
    }
  }
  return wrong;
}

double seconds_of(const std::vector<Tally>& tallies) {
  uint64_t longest = 1;
  for (const Tally& tally : tallies) longest = std::max(longest, tally.ns);
  return static_cast<double>(longest) / 1e9;
}

uint64_t failures_of(const std::vector<Tally>& tallies) {
  return static_cast<uint64_t>(
      std::count_if(tallies.begin(), tallies.end(), [](const Tally& t) { return t.status != 0; }));
}

double messages_of(const std::vector<Tally>& tallies) {
  double messages = 0;
  for (const Tally& tally : tallies) messages += static_cast<double>(tally.messages);
  return messages;
}

void Bench::rate(Op op, uint32_t queues, uint32_t together) {
  clear(data_);
  const Job posted = job(op, together, 8);
  const std::vector<Tally> tallies = post(posted, queues);
  print(posted, queues, "mmsg_per_s", messages_of(tallies) / seconds_of(tallies) / 1e6,
        failures_of(tallies) + wrong_words(op, tallies));
}

void Bench::bandwidth(Op op, uint32_t queues, uint32_t bytes) {
  const size_t moved = size_t{queues} * bytes;
  std::vector<uint8_t> pattern(moved), seen(moved);
  for (size_t i = 0; i < moved; ++i) pattern[i] = static_cast<uint8_t>(i * 131 + (i >> 9) + bytes);
  const bool reads = op == Op::kRead;
  CHECK(cudaMemcpy(reads ? data_.address : source_.address, pattern.data(), moved,
                   cudaMemcpyHostToDevice));
  const GpuQueues::Memory& to = reads ? source_ : data_;
  clear(to);
  const Job posted = job(op, 4, bytes);
  const std::vector<Tally> tallies = post(posted, queues);
  CHECK(cudaMemcpy(seen.data(), to.address, moved, cudaMemcpyDeviceToHost));
  print(posted, queues, "gb_per_s", messages_of(tallies) * bytes / seconds_of(tallies) / 1e9,
        failures_of(tallies) + (seen == pattern ? 0 : 1));
}

void Bench::latency(Op op, uint32_t together) {
  const uint32_t waits = arguments_.waits;
  // The NIC starts when it has heard nothing for a while; that is not what is measured.
  post_and_wait<<<1, 1>>>(queues_, job(op, together, 8), 1, ns_, tallies_);
  CHECK(cudaDeviceSynchronize());
  clear(data_);
  const Job posted = job(op, together, 8);
  post_and_wait<<<1, 1>>>(queues_, posted, waits, ns_, tallies_);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  std::vector<uint64_t> ns(waits);
  CHECK(cudaMemcpy(ns.data(), ns_, ns.size() * 8, cudaMemcpyDeviceToHost));
  std::vector<Tally> tally(1);
  CHECK(cudaMemcpy(tally.data(), tallies_, sizeof(Tally), cudaMemcpyDeviceToHost));
  const uint64_t errors = failures_of(tally) + wrong_words(op, tally);
  // The GPU's clock may tick coarsely: the mean is right all the same.
  const double total = std::accumulate(ns.begin(), ns.end(), 0.0);
  print(posted, 1, "mean_us", total / waits / 1000, errors);
  std::sort(ns.begin(), ns.end());
  print(posted, 1, "median_us", static_cast<double>(ns[waits / 2]) / 1000, errors);
  print(posted, 1, "longest_us", static_cast<double>(ns.back()) / 1000, errors);
}

}  // namespace

int main(int argc, char** argv) try {
  const Arguments arguments = parse(argc, argv);
  Bench bench(arguments);
  const auto fits = [&](uint32_t queues) { return queues <= arguments.queues; };
  bench.latency(Op::kPut, 1);
  bench.latency(Op::kPutSignal, 2);
  bench.latency(Op::kAdd, 1);
  for (const uint32_t queues : {1u, 16u, 64u, 132u, 264u, 512u, 1024u}) {
    if (fits(queues)) bench.rate(Op::kPut, queues, 32);
  }
  for (const uint32_t queues : {1u, 64u, 132u, 264u, 512u, 1024u}) {
    if (fits(queues)) bench.rate(Op::kPut, queues, 1);
  }
  for (const uint32_t queues : {1u, 64u, 264u}) {
    if (fits(queues)) bench.rate(Op::kPutSignal, queues, 2);
    if (fits(queues)) bench.rate(Op::kPutSignal, queues, 32);
    if (fits(queues)) bench.rate(Op::kAdd, queues, 1);
    if (fits(queues)) bench.rate(Op::kAdd, queues, 32);
  }
  for (const uint32_t bytes : {64u << 10, 1u << 20}) {
    for (const uint32_t queues : {1u, 32u}) {
      if (fits(queues)) bench.bandwidth(Op::kWrite, queues, bytes);
      if (fits(queues)) bench.bandwidth(Op::kRead, queues, bytes);
    }
  }
  return bench.wrong() == 0 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "nic_gpu_benchmark: %s\n", error.what());
  return 1;
}
