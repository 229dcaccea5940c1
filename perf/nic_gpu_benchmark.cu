// SPDX-License-Identifier: Apache-2.0
//
// What the software NIC's GPU engine does: rates, latencies and bandwidth of requests posted and
// polled by a kernel, queues and completions in GPU memory.
//
//   nic_gpu_benchmark [--gpu N] [--target N] [--folder DIR] [--queues N] [--ms N] [--waits N]
//
// --gpu posts, --target holds the memory written to; PEAL_SOFTNIC_GPU says where the NIC runs. One
// JSON object a line; a row whose data or completions are wrong has "errors" above 0.
#include <algorithm>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "tests/gpu/softnic_posts.cuh"
#include "tests/gpu/softnic_rig.cuh"

namespace {

using namespace peal;
using testing::check;
using testing::device_array;
using testing::GpuQueues;
using testing::inline_word;

/// What one queue has done.
struct Tally {
  uint64_t messages;
  uint64_t ns;
  uint64_t status;
};

enum class Op { kPut, kPutSignal, kAdd, kWrite, kRead };

constexpr const char* kNames[] = {"put", "put_signal", "fetch_add", "write", "read"};

/// What is posted again and again: `together` messages, the last of them signalled, a doorbell for
/// all.
struct Job {
  Op op;
  uint32_t together;
  uint32_t bytes;      // of a WRITE or READ
  NicKey rkey;         //
  NicKey word_rkey;    // of the same memory, in order
  NicKey source_lkey;  //
  uint64_t duration_ns;
};

/// Where message `message` of queue `queue` goes: words of puts are the queue's 32 in turn.
__device__ uint64_t word_of(uint32_t queue, uint64_t message) {
  return 8 * (uint64_t{queue} * 32 + message % 32);
}

__device__ void write_message(const Job& job, const SendQueue& q, uint32_t queue, uint64_t at,
                              bool reports, uint64_t message) {
  const uint64_t own = uint64_t{queue} * job.bytes;
  const nic::Remote to{own, job.rkey};
  const nic::Local from{own, job.source_lkey};
  const auto write = [&](const auto& request) {
    nic::Model::write(q.nic, q.mask, at, request, reports);
  };
  switch (job.op) {
    case Op::kPut:
    case Op::kPutSignal: {
      const bool word = job.op == Op::kPutSignal && message % 2 != 0;
      const NicKey key = word ? job.word_rkey : job.rkey;
      return write(inline_word(word_of(queue, message), key, message + 1));
    }
    case Op::kAdd:
      return write(nic::Atomic<Update::kAdd, uint64_t>{
          {word_of(queue, 0), job.word_rkey}, {q.landing_address, q.landing_key}, 1});
    case Op::kWrite:
      return write(nic::Write{to, from, job.bytes});
    case Op::kRead:
      return write(nic::Read{to, from, job.bytes});
  }
}

/// Message `k` of those that begin at `at`; the last one is signalled.
__device__ void write_one_of(const Job& job, const SendQueue& q, uint32_t queue, uint64_t at,
                             uint32_t k, uint64_t message) {
  write_message(job, q, queue, at + k, k + 1 == job.together, message);
}

__device__ void publish_and_ring(const Job& job, SendQueue& q, uint64_t at) {
  static_cast<void>(nic::publish<Reach::kLane>(  // drain tells
      q, {.first = at, .blocks = job.together, .last = at + job.together - 1}));
  nic::ring<Reach::kLane>(q);
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
      status = static_cast<uint64_t>(nic::reserve<Reach::kLane>(q, job.together, &at));
    }
    at = __shfl_sync(~0u, at, 0);
    status = __shfl_sync(~0u, status, 0);
    if (status != 0) break;
    if (lane < job.together) write_one_of(job, q, blockIdx.x, at, lane, sent + lane);
    __syncwarp();
    if (lane == 0) publish_and_ring(job, q, at);
    sent += job.together;
  }
  if (lane != 0) return;
  if (status == 0) status = static_cast<uint64_t>(nic::drain<Reach::kLane>(q));
  tallies[blockIdx.x] = {sent, now_ns() - start, status};
}

/// One thread: `together` messages, then their completion, `waits` times.
__global__ void post_and_wait(SendQueue* q, Job job, uint32_t waits, uint64_t* ns, Tally* tally) {
  uint64_t status = 0;
  uint64_t sent = 0;
  for (uint32_t i = 0; i < waits && status == 0; ++i) {
    const uint64_t start = now_ns();
    uint64_t at = 0;
    static_cast<void>(nic::reserve<Reach::kLane>(*q, job.together, &at));  // drain tells
    for (uint32_t k = 0; k < job.together; ++k) write_one_of(job, *q, 0, at, k, sent + k);
    publish_and_ring(job, *q, at);
    status = static_cast<uint64_t>(nic::drain<Reach::kLane>(*q));
    sent += job.together;
    ns[i] = now_ns() - start;
  }
  *tally = {sent, 0, status};
}

/// A kernel's results, once it has ended.
template <class T>
std::vector<T> results(const T* from, size_t count) {
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  std::vector<T> all(count);
  CHECK(cudaMemcpy(all.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost));
  return all;
}

/// What all queues of a run have done; the longest one's time.
struct Total {
  double messages = 0;
  double seconds = 1e-9;
  uint64_t failures = 0;

  explicit Total(const std::vector<Tally>& tallies) {
    for (const Tally& tally : tallies) {
      messages += static_cast<double>(tally.messages);
      seconds = std::max(seconds, static_cast<double>(tally.ns) / 1e9);
      failures += tally.status != 0 ? 1 : 0;
    }
  }
};

struct Arguments {
  int gpu;
  int target;
  uint32_t queues;
  uint32_t ms;
  uint32_t waits;
  std::string folder;
};

Arguments parse(int argc, char** argv) {
  const auto number = [&](const char* name, uint32_t otherwise) {
    return testing::option(argc, argv, name, otherwise);
  };
  const auto gpu = static_cast<int>(number("--gpu", 0));
  Arguments a{.gpu = gpu,
              .target = static_cast<int>(number("--target", static_cast<uint32_t>(gpu))),
              .queues = number("--queues", 1024),
              .ms = number("--ms", 200),
              .waits = number("--waits", 5000),
              .folder = std::filesystem::canonical("/proc/self/exe").parent_path().string()};
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::string(argv[i]) == "--folder") a.folder = argv[i + 1];
  }
  CHECK(cudaSetDevice(gpu));  // before the rig's memory
  return a;
}

/// Rates, bandwidths and latencies, a row each.
class Bench {
 public:
  explicit Bench(const Arguments& arguments)
      : arguments_(arguments),
        rig_(arguments.folder, nic::KeyOrdering::kRelaxed, arguments.queues, 1024,
             arguments.target),
        tallies_(device_array<Tally>(arguments.queues)),
        ns_(device_array<uint64_t>(arguments.waits)) {}

  /// Rows' errors so far.
  uint64_t wrong() const { return wrong_; }

  void rate(Op op, uint32_t queues, uint32_t together) {
    clear(rig_.data);
    const Job posted = job(op, together, 8);
    const std::vector<Tally> tallies = post(posted, queues);
    const Total total(tallies);
    print(posted, queues, "mmsg_per_s", total.messages / total.seconds / 1e6,
          total.failures + wrong_words(op, tallies));
  }

  void bandwidth(Op op, uint32_t queues, uint32_t bytes) {
    const size_t moved = size_t{queues} * bytes;
    std::vector<uint8_t> pattern(moved);
    for (size_t i = 0; i < moved; ++i) {
      pattern[i] = static_cast<uint8_t>(i * 131 + (i >> 9) + bytes);
    }
    const bool reads = op == Op::kRead;
    CHECK(cudaMemcpy(reads ? rig_.data.address : rig_.source.address, pattern.data(), moved,
                     cudaMemcpyHostToDevice));
    const GpuQueues::Memory& to = reads ? rig_.source : rig_.data;
    clear(to);
    const Job posted = job(op, 4, bytes);
    const Total total(post(posted, queues));
    print(posted, queues, "gb_per_s", total.messages * bytes / total.seconds / 1e9,
          total.failures + (rig_.read(to, 0, moved) == pattern ? 0 : 1));
  }

  void latency(Op op, uint32_t together) {
    const uint32_t waits = arguments_.waits;
    const Job posted = job(op, together, 8);
    // The NIC starts when it has heard nothing for a while; that is not what is measured.
    post_and_wait<<<1, 1>>>(rig_.queues, posted, 1, ns_, tallies_);
    CHECK(cudaDeviceSynchronize());
    clear(rig_.data);
    post_and_wait<<<1, 1>>>(rig_.queues, posted, waits, ns_, tallies_);
    std::vector<uint64_t> ns = results(ns_, waits);
    const std::vector<Tally> tally = results(tallies_, 1);
    const uint64_t errors = Total(tally).failures + wrong_words(op, tally);
    // The GPU's clock may tick coarsely: the mean is right all the same.
    const double total = std::accumulate(ns.begin(), ns.end(), 0.0);
    print(posted, 1, "mean_us", total / waits / 1000, errors);
    std::sort(ns.begin(), ns.end());
    print(posted, 1, "median_us", static_cast<double>(ns[waits / 2]) / 1000, errors);
    print(posted, 1, "longest_us", static_cast<double>(ns.back()) / 1000, errors);
  }

 private:
  Job job(Op op, uint32_t together, uint32_t bytes) const {
    return {.op = op,
            .together = together,
            .bytes = bytes,
            .rkey = rig_.nic->data_rkey(),
            .word_rkey = rig_.nic->word_rkey(),
            .source_lkey = rig_.nic->source_lkey(),
            .duration_ns = uint64_t{arguments_.ms} * 1'000'000};
  }

  void clear(const GpuQueues::Memory& memory) const {
    CHECK(cudaSetDevice(memory.address == rig_.data.address ? arguments_.target : arguments_.gpu));
    CHECK(cudaMemset(memory.address, 0, memory.bytes));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaSetDevice(arguments_.gpu));
  }

  std::vector<Tally> post(const Job& job, uint32_t queues) {
    post_for_a_while<<<queues, 32>>>(rig_.queues, job, tallies_);
    return results(tallies_, queues);
  }

  /// Words that do not say what the last message that went there said.
  uint64_t wrong_words(Op op, const std::vector<Tally>& tallies) const {
    const auto words =
        results(reinterpret_cast<const uint64_t*>(rig_.data.address), tallies.size() * 32);
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

  void print(const Job& job, uint32_t queues, const char* unit, double value, uint64_t errors) {
    const char* nic_gpu = std::getenv("PEAL_SOFTNIC_GPU");
    std::printf(
        "{\"op\": \"%s\", \"nic\": \"softnic-gpu\", \"gpu\": %d, \"target\": %d, "
        "\"nic_gpu\": \"%s\", \"bytes\": %u, \"queues\": %u, "
        "\"messages_per_doorbell\": %u, \"%s\": %.3f, \"errors\": %llu}\n",
        kNames[static_cast<int>(job.op)], arguments_.gpu, arguments_.target,
        nic_gpu ? nic_gpu : "auto", job.bytes, queues, job.together, unit, value,
        static_cast<unsigned long long>(errors));
    std::fflush(stdout);
    wrong_ += errors;
  }

  uint64_t wrong_ = 0;
  Arguments arguments_;
  testing::Rig rig_;
  Tally* tallies_;
  uint64_t* ns_;
};

}  // namespace

int main(int argc, char** argv) try {
  const Arguments arguments = parse(argc, argv);
  Bench bench(arguments);
  const auto with = [&](std::initializer_list<uint32_t> counts, const auto& measure) {
    for (const uint32_t queues : counts) {
      if (queues <= arguments.queues) measure(queues);
    }
  };
  bench.latency(Op::kPut, 1);
  bench.latency(Op::kPutSignal, 2);
  bench.latency(Op::kAdd, 1);
  with({1, 16, 64, 132, 264, 512, 1024}, [&](uint32_t n) { bench.rate(Op::kPut, n, 32); });
  with({1, 64, 132, 264, 512, 1024}, [&](uint32_t n) { bench.rate(Op::kPut, n, 1); });
  with({1, 64, 264}, [&](uint32_t n) {
    for (const uint32_t together : {2, 32}) bench.rate(Op::kPutSignal, n, together);
    for (const uint32_t together : {1, 32}) bench.rate(Op::kAdd, n, together);
  });
  for (const uint32_t bytes : {64u << 10, 1u << 20}) {
    with({1, 32}, [&](uint32_t n) {
      for (const Op op : {Op::kWrite, Op::kRead}) bench.bandwidth(op, n, bytes);
    });
  }
  return bench.wrong() == 0 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "nic_gpu_benchmark: %s\n", error.what());
  return 1;
}
