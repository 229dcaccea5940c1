// SPDX-License-Identifier: Apache-2.0
//
// A program on NCCL's public device API that checks every byte its kernels move: what GIN, by its
// GDAKI backend, does with the software NIC on CPUs. Queues of kernels in the GPU's memory, and the
// queues of NCCL's own CPU threads in the host's, are on one device. Built by build_nccl_gin.sh,
// started by nccl_gin.sh: nccl_gin RANK SIZE FILE, a GPU for each rank; rank 0 leaves NCCL's unique
// id in FILE.
//
// Prints one line a check, and at last "N passed, N failed". Kernels and the wait for them have
// deadlines; after a failure the process ends at once, since its peers no longer take part.
#include <nccl.h>
#include <nccl_device.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace {

using std::chrono::steady_clock;

constexpr size_t kMost = 1 << 20;
constexpr size_t kSizes[] = {1, 8, 20, 63, 64, 1000, 4096, 65536 + 4, kMost};
constexpr size_t kSlice = 64;     // of a put of many
constexpr int kThreads = 128;     //
constexpr int kContexts = 4;      // of GIN, one for each block
constexpr size_t kFlags = kMost;  // in the window that receives: behind the data
constexpr size_t kWindow = kMost + 4096;
constexpr uint64_t kCycles = 20'000'000'000;  // some 10 s
constexpr auto kPatience = std::chrono::seconds(60);

enum Signal : uint32_t { kOfPut, kOfMany, kOfBlocks, kSignals };
enum Counter : uint32_t { kOfSource, kCounters };

[[noreturn]] void give_up(const char* what, const char* why) {
  std::fprintf(stderr, "nccl_gin: %s: %s\n", what, why);
  std::fflush(nullptr);
  std::_Exit(1);
}

#define CUDA(call)                                                       \
  do {                                                                   \
    const cudaError_t error = (call);                                    \
    if (error != cudaSuccess) give_up(#call, cudaGetErrorString(error)); \
  } while (false)
#define NCCL(call)                                                        \
  do {                                                                    \
    const ncclResult_t result = (call);                                   \
    if (result != ncclSuccess) give_up(#call, ncclGetLastError(nullptr)); \
  } while (false)

/// What byte `at` is that rank `rank` sends in round `round`.
__host__ __device__ unsigned char byte_of(int rank, int round, size_t at) {
  return static_cast<unsigned char>(at * 7 + (at >> 8) * 13 + static_cast<size_t>(rank) * 101 +
                                    static_cast<size_t>(round) * 29 + 1);
}

/// What went wrong in a kernel first: 0 = nothing. In the host's memory.
struct Report {
  int step;
  int result;
  unsigned long long wrong;  // bytes
};

/// What all kernels are given. Windows by handle and, this rank's own, by address.
struct Job {
  ncclDevComm comm;
  ncclWindow_t from_window, to_window;
  unsigned char* from;
  unsigned char* to;
  Report* report;
  size_t bytes;
  int round;
  uint64_t signals;  // counted by now, when this round is through

  __device__ int rank() const { return comm.rank; }
  __device__ int next() const { return (comm.rank + 1) % comm.nRanks; }
  __device__ int before() const { return (comm.rank + comm.nRanks - 1) % comm.nRanks; }
};

/// True where the step went well; else notes it.
__device__ bool well(const Job& job, int step, ncclResult_t result) {
  if (result == ncclSuccess) return true;
  if (atomicCAS(&job.report->step, 0, step) == 0) job.report->result = result;
  return false;
}

/// All of the block: what was put before has arrived with everybody, what was got is here.
__device__ void meet(const Job& job, const ncclGin& gin, int step) {
  ncclGinBarrierSession<ncclCoopCta> barrier{ncclCoopCta(), gin, ncclTeamTagWorld(), blockIdx.x};
  well(job, step,
       barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel,
                    ncclGinFenceLevel::Put | ncclGinFenceLevel::Get, kCycles));
}

__device__ void flush(const Job& job, const ncclGin& gin, int step) {
  well(job, step, gin.flush(ncclCoopCta(), cuda::memory_order_acquire, ncclGin_None{}, kCycles));
}

/// All of the block: counts the bytes of [begin, end) that `rank` did not send, as this kernel sees
/// them now.
__device__ void look(const Job& job, int rank, size_t begin, size_t end) {
  const volatile unsigned char* seen = job.to;
  for (size_t at = begin + threadIdx.x; at < end; at += blockDim.x) {
    if (seen[at] != byte_of(rank, job.round, at)) atomicAdd(&job.report->wrong, 1ull);
  }
  __syncthreads();
}

__global__ void put(Job job) {
  ncclGin gin{job.comm, 0};
  const ncclTeam world = ncclTeamWorld(job.comm);
  if (threadIdx.x == 0) {
    gin.put(world, job.next(), job.to_window, 0, job.from_window, 0, job.bytes);
  }
  flush(job, gin, 1);
  meet(job, gin, 2);
}

/// More requests than a queue has room for, of all threads at once.
__global__ void put_many(Job job) {
  ncclGin gin{job.comm, 0};
  const ncclTeam world = ncclTeamWorld(job.comm);
  for (size_t at = threadIdx.x * kSlice; at < job.bytes; at += blockDim.x * kSlice) {
    gin.put(world, job.next(), job.to_window, at, job.from_window, at, kSlice);
  }
  flush(job, gin, 1);
  meet(job, gin, 2);
}

__global__ void put_signal(Job job) {
  ncclGin gin{job.comm, 0};
  const ncclTeam world = ncclTeamWorld(job.comm);
  if (threadIdx.x == 0) {
    gin.put(world, job.next(), job.to_window, 0, job.from_window, 0, job.bytes,
            ncclGin_WeakSignalInc{kOfPut});
  }
  well(job, 1,
       gin.waitSignal(ncclCoopCta(), kOfPut, job.signals, 64, cuda::memory_order_acquire, kCycles));
  look(job, job.before(), 0, job.bytes);
  meet(job, gin, 2);
}

/// A signal behind puts of others that have none.
__global__ void strong_signal(Job job) {
  ncclGin gin{job.comm, 0};
  const ncclTeam world = ncclTeamWorld(job.comm);
  for (size_t at = threadIdx.x * kSlice; at < job.bytes; at += blockDim.x * kSlice) {
    const size_t left = job.bytes - at;
    gin.put(world, job.next(), job.to_window, at, job.from_window, at,
            left < kSlice ? left : kSlice);
  }
  __syncthreads();
  if (threadIdx.x == 0) gin.signal(world, job.next(), ncclGin_StrongSignalAdd{kOfMany, 5});
  well(job, 1,
       gin.waitSignal(ncclCoopCta(), kOfMany, 5 * job.signals, 64, cuda::memory_order_acquire,
                      kCycles));
  look(job, job.before(), 0, job.bytes);
  meet(job, gin, 2);
}

/// A signal that is a word of the window.
__global__ void window_signal(Job job) {
  ncclGin gin{job.comm, 0};
  const ncclTeam world = ncclTeamWorld(job.comm);
  if (threadIdx.x == 0) {
    gin.put(world, job.next(), job.to_window, 0, job.from_window, 0, job.bytes,
            ncclGin_WeakVASignalAdd{job.to_window, kFlags, 3});
  }
  well(job, 1,
       gin.waitSignal(ncclCoopCta(), job.to_window, kFlags, 3 * job.signals, 64,
                      cuda::memory_order_acquire, kCycles));
  look(job, job.before(), 0, job.bytes);
  meet(job, gin, 2);
}

/// A counter of the sender's own tells that the source may be written again.
__global__ void put_counter(Job job) {
  ncclGin gin{job.comm, 0};
  const ncclTeam world = ncclTeamWorld(job.comm);
  if (threadIdx.x == 0) {
    gin.put(world, job.next(), job.to_window, 0, job.from_window, 0, job.bytes, ncclGin_None{},
            ncclGin_WeakCounterInc{kOfSource});
  }
  well(job, 1,
       gin.waitCounter(ncclCoopCta(), kOfSource, job.signals, 56, cuda::memory_order_acquire,
                       kCycles));
  for (size_t at = threadIdx.x; at < job.bytes; at += blockDim.x) job.from[at] = 0xee;
  meet(job, gin, 2);
}

__global__ void get(Job job) {
  ncclGin gin{job.comm, 0};
  const ncclTeam world = ncclTeamWorld(job.comm);
  meet(job, gin, 1);
  if (threadIdx.x == 0) {
    gin.get(world, job.before(), job.from_window, 0, job.to_window, 0, job.bytes);
  }
  flush(job, gin, 2);
  __syncthreads();
  look(job, job.before(), 0, job.bytes);
  meet(job, gin, 3);
}

/// Values of 8, 4, 2 and 1 bytes, inline in their requests.
__global__ void put_values(Job job) {
  ncclGin gin{job.comm, 0};
  const ncclTeam world = ncclTeamWorld(job.comm);
  const size_t at = threadIdx.x * 15;
  unsigned char bytes[15];
  for (int i = 0; i < 15; ++i) bytes[i] = byte_of(job.rank(), job.round, at + i);
  const auto send = [&](auto value, size_t offset) {
    memcpy(&value, bytes + offset, sizeof(value));
    gin.putValue(world, job.next(), job.to_window, at + offset, value);
  };
  send(uint64_t{}, 0);
  send(uint32_t{}, 8);
  send(uint16_t{}, 12);
  send(uint8_t{}, 14);
  flush(job, gin, 1);
  meet(job, gin, 2);
}

/// Every rank tells every rank, itself among them, the round it is in.
__global__ void barriers(Job job, int rounds) {
  ncclGin gin{job.comm, 0};
  const ncclTeam world = ncclTeamWorld(job.comm);
  const size_t slots = kFlags + 1024;
  const auto* seen = reinterpret_cast<const volatile uint64_t*>(job.to + slots);
  const volatile int& failed = job.report->step;
  for (int round = 1; round <= rounds && failed == 0; ++round) {
    const uint64_t told = static_cast<uint64_t>(job.round) << 32 | static_cast<uint64_t>(round);
    if (threadIdx.x < static_cast<unsigned>(job.comm.nRanks)) {
      gin.putValue(world, static_cast<int>(threadIdx.x), job.to_window,
                   slots + static_cast<size_t>(job.rank()) * 8, told);
    }
    meet(job, gin, 1);
    if (threadIdx.x < static_cast<unsigned>(job.comm.nRanks) && seen[threadIdx.x] != told) {
      atomicAdd(&job.report->wrong, 1ull);
    }
    meet(job, gin, 2);
  }
}

/// Block b sends its part of what is for each rank, by context b. What rank r has for rank p is the
/// piece p of its memory, and becomes the piece r of p's.
__global__ void all_to_all(Job job) {
  const auto block = static_cast<int>(blockIdx.x);
  ncclGin gin{job.comm, block};
  const ncclTeam world = ncclTeamWorld(job.comm);
  const size_t piece = job.bytes;
  const size_t part = piece / gridDim.x;
  const size_t mine = part * blockIdx.x;
  const int ranks = job.comm.nRanks;
  for (int peer = static_cast<int>(threadIdx.x); peer < ranks; peer += kThreads) {
    gin.put(world, peer, job.to_window, static_cast<size_t>(job.rank()) * piece + mine,
            job.from_window, static_cast<size_t>(peer) * piece + mine, part,
            ncclGin_WeakSignalInc{kOfBlocks});
  }
  well(job, 1,
       gin.waitSignal(ncclCoopCta(), kOfBlocks, job.signals * static_cast<uint64_t>(ranks), 64,
                      cuda::memory_order_acquire, kCycles));
  const volatile unsigned char* seen = job.to;
  for (int peer = 0; peer < ranks; ++peer) {
    for (size_t at = mine + threadIdx.x; at < mine + part; at += blockDim.x) {
      const size_t sent = static_cast<size_t>(job.rank()) * piece + at;
      if (seen[static_cast<size_t>(peer) * piece + at] != byte_of(peer, job.round, sent)) {
        atomicAdd(&job.report->wrong, 1ull);
      }
    }
  }
  flush(job, gin, 2);
  meet(job, gin, 3);
}

/// NCCL's unique id, by way of a file.
ncclUniqueId meet_by_file(int rank, const std::string& path) {
  ncclUniqueId id;
  const std::string draft = path + ".draft";
  if (rank == 0) {
    NCCL(ncclGetUniqueId(&id));
    std::ofstream(draft, std::ios::binary).write(id.internal, sizeof(id.internal));
    if (std::rename(draft.c_str(), path.c_str()) != 0) give_up(path.c_str(), "cannot be written");
    return id;
  }
  const auto end = steady_clock::now() + kPatience;
  while (!std::ifstream(path, std::ios::binary).read(id.internal, sizeof(id.internal))) {
    if (steady_clock::now() > end) give_up(path.c_str(), "rank 0 has left no unique id there");
    std::this_thread::yield();
  }
  return id;
}

class Check {
 public:
  Check(int rank, int size, const std::string& path) : rank_(rank), size_(size) {
    CUDA(cudaSetDevice(rank));
    NCCL(ncclCommInitRank(&comm_, size, meet_by_file(rank, path), rank));
    ncclCommProperties_t properties = NCCL_COMM_PROPERTIES_INITIALIZER;
    NCCL(ncclCommQueryProperties(comm_, &properties));
    if (!properties.deviceApiSupport) give_up("ncclCommQueryProperties", "no device API");
    if (properties.ginType != NCCL_GIN_TYPE_GDAKI) {
      give_up("ncclCommQueryProperties",
              ("GIN type " + std::to_string(properties.ginType) + ", not GDAKI").c_str());
    }
    NCCL(ncclMemAlloc(reinterpret_cast<void**>(&job_.from), kWindow));
    NCCL(ncclMemAlloc(reinterpret_cast<void**>(&job_.to), kWindow));
    CUDA(cudaMemset(job_.to, 0, kWindow));
    NCCL(ncclCommWindowRegister(comm_, job_.from, kWindow, &job_.from_window,
                                NCCL_WIN_COLL_SYMMETRIC));
    NCCL(ncclCommWindowRegister(comm_, job_.to, kWindow, &job_.to_window, NCCL_WIN_COLL_SYMMETRIC));
    ncclDevCommRequirements_t wants = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
    wants.worldGinBarrierCount = kContexts;
    wants.ginContextCount = kContexts;
    wants.ginSignalCount = kSignals;
    wants.ginCounterCount = kCounters;
    wants.ginConnectionType = NCCL_GIN_CONNECTION_FULL;
    NCCL(ncclDevCommCreate(comm_, &wants, &job_.comm));
    CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    CUDA(cudaHostAlloc(&job_.report, sizeof(Report), cudaHostAllocMapped));
    *job_.report = {};
  }

  ~Check() {
    NCCL(ncclDevCommDestroy(comm_, &job_.comm));
    NCCL(ncclCommWindowDeregister(comm_, job_.from_window));
    NCCL(ncclCommWindowDeregister(comm_, job_.to_window));
    NCCL(ncclMemFree(job_.from));
    NCCL(ncclMemFree(job_.to));
    NCCL(ncclCommFinalize(comm_));
    NCCL(ncclCommDestroy(comm_));
    CUDA(cudaFreeHost(job_.report));
    CUDA(cudaStreamDestroy(stream_));
  }
  Check(const Check&) = delete;
  Check& operator=(const Check&) = delete;

  int run() {
    moves("put", put, false);
    moves("put, signal", put_signal, true);
    moves("put, signal in a window", window_signal, true);
    moves("put, counter", put_counter, true);
    moves("get", get, false);
    one("put of many threads", put_many, 1024 * kSlice);
    counted_ = 0;
    for (const size_t bytes : {size_t{640}, size_t{70'000}})
      one("strong signal", strong_signal, bytes);
    one("put of values", put_values, kThreads * 15);
    all("all_to_all");
    meetings("barrier");
    std::printf("rank %d: %d passed, 0 failed\n", rank_, passed_);
    return 0;
  }

 private:
  using Kernel = void (*)(Job);

  /// A kernel that sends `bytes` to the next rank; a new pattern, and what received it before is
  /// wiped.
  void begin(size_t bytes) {
    job_.bytes = bytes;
    ++job_.round;
    job_.signals = ++counted_;
    std::vector<unsigned char> sent(kMost);
    for (size_t at = 0; at < kMost; ++at) sent[at] = byte_of(rank_, job_.round, at);
    CUDA(cudaMemcpyAsync(job_.from, sent.data(), kMost, cudaMemcpyHostToDevice, stream_));
    CUDA(cudaMemsetAsync(job_.to, 0, kMost, stream_));
    CUDA(cudaStreamSynchronize(stream_));
    meet_first();
  }
  /// Nobody sends before all have wiped their memory.
  void meet_first();

  void end(const char* name, size_t bytes) {
    CUDA(cudaGetLastError());
    await(name);
    const Report& report = *job_.report;
    if (report.step != 0) {
      std::fprintf(stderr, "rank %d: %s, %zu bytes: step %d: %s\n", rank_, name, bytes, report.step,
                   ncclGetErrorString(static_cast<ncclResult_t>(report.result)));
      give_up(name, "a deadline has passed in the kernel");
    }
    if (report.wrong != 0) {
      std::fprintf(stderr, "rank %d: %s, %zu bytes: %llu wrong\n", rank_, name, bytes,
                   report.wrong);
      give_up(name, "the kernel saw wrong bytes");
    }
  }
  /// Asks now and then: the NIC's copies want the CUDA driver, too.
  void await(const char* name) {
    const auto end = steady_clock::now() + kPatience;
    cudaError_t now;
    while ((now = cudaStreamQuery(stream_)) == cudaErrorNotReady) {
      if (steady_clock::now() > end) give_up(name, "the kernel does not end");
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    CUDA(now);
  }

  /// What lies in memory now is what the rank before sent.
  void received(const char* name, size_t bytes) {
    std::vector<unsigned char> seen(kMost);
    CUDA(cudaMemcpyAsync(seen.data(), job_.to, kMost, cudaMemcpyDeviceToHost, stream_));
    CUDA(cudaStreamSynchronize(stream_));
    const int sender = (rank_ + size_ - 1) % size_;
    for (size_t at = 0; at < kMost; ++at) {
      const unsigned char wanted = at < bytes ? byte_of(sender, job_.round, at) : 0;
      if (seen[at] == wanted) continue;
      std::fprintf(stderr, "rank %d: %s, %zu bytes: byte %zu is %u, not %u\n", rank_, name, bytes,
                   at, seen[at], wanted);
      give_up(name, "wrong bytes");
    }
  }

  void one(const char* name, Kernel kernel, size_t bytes) {
    begin(bytes);
    kernel<<<1, kThreads, 0, stream_>>>(job_);
    end(name, bytes);
    received(name, bytes);
    pass(name, bytes);
  }
  void moves(const char* name, Kernel kernel, bool counts) {
    if (counts) counted_ = 0;
    for (const size_t bytes : kSizes) one(name, kernel, bytes);
  }
  void all(const char* name) {
    counted_ = 0;
    for (const size_t piece : {size_t{256}, size_t{64 << 10}}) {
      begin(piece);
      all_to_all<<<kContexts, kThreads, 0, stream_>>>(job_);
      end(name, piece);
      pass(name, piece);
    }
  }
  void meetings(const char* name) {
    constexpr int kRounds = 20;
    begin(0);
    barriers<<<1, kThreads, 0, stream_>>>(job_, kRounds);
    end(name, kRounds);
    pass(name, kRounds);
  }
  void pass(const char* name, size_t bytes) {
    ++passed_;
    std::printf("rank %d: %s, %zu: passed\n", rank_, name, bytes);
    std::fflush(stdout);
  }

  const int rank_;
  const int size_;
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  Job job_ = {};
  uint64_t counted_ = 0;
  int passed_ = 0;
};

__global__ void meet_only(Job job) {
  ncclGin gin{job.comm, 0};
  meet(job, gin, 9);
}

void Check::meet_first() {
  meet_only<<<1, kThreads, 0, stream_>>>(job_);
  end("barrier before a check", 0);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) {
    std::fprintf(stderr, "nccl_gin RANK SIZE FILE\n");
    return 2;
  }
  Check check(std::atoi(arguments[1]), std::atoi(arguments[2]), arguments[3]);
  return check.run();
}
