// SPDX-License-Identifier: Apache-2.0
//
// A program on NVSHMEM's public API that checks every byte it moves: what its IBGDA transport does
// with the software NIC. Built by perf/compare/build.sh, started by nvshmem.sh; the PE sends to the
// next one.
//
// Prints one line a check, and at last "N passed, N failed".
#include <nvshmem.h>
#include <nvshmemx.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr size_t kMost = 1 << 20;
constexpr size_t kSizes[] = {1, 8, 20, 63, 64, 1000, 4096, 65536 + 4, kMost};
constexpr int kWords = 64;

#define CUDA(call)                                                                       \
  do {                                                                                   \
    const cudaError_t error = (call);                                                    \
    if (error != cudaSuccess) {                                                          \
      std::fprintf(stderr, "nvshmem_check: %s: %s\n", #call, cudaGetErrorString(error)); \
      std::exit(1);                                                                      \
    }                                                                                    \
  } while (false)

/// What byte `at` of PE `pe`'s memory is in round `round`.
__host__ __device__ unsigned char byte_of(int pe, int round, size_t at) {
  return static_cast<unsigned char>(at * 7 + (at >> 8) * 13 + static_cast<size_t>(pe) * 101 +
                                    static_cast<size_t>(round) * 29 + 1);
}

enum class Move {
  kPutThread,
  kPutWarp,
  kPutBlock,
  kPutNbi,
  kGetThread,
  kGetWarp,
  kGetBlock,
  kSignal
};
constexpr const char* kNames[] = {"put", "put by a warp", "put by a block", "put_nbi",
                                  "get", "get by a warp", "get by a block", "put_signal"};

__global__ void move(Move what, unsigned char* there, unsigned char* here, size_t bytes, int pe,
                     uint64_t* flag, uint64_t value) {
  const bool first = threadIdx.x == 0;
  const bool first_warp = threadIdx.x < 32;
  switch (what) {
    case Move::kPutThread:
      if (first) nvshmem_putmem(there, here, bytes, pe);
      break;
    case Move::kPutWarp:
      if (first_warp) nvshmemx_putmem_warp(there, here, bytes, pe);
      break;
    case Move::kPutBlock:
      nvshmemx_putmem_block(there, here, bytes, pe);
      break;
    case Move::kPutNbi:
      if (first) nvshmem_putmem_nbi(there, here, bytes, pe);
      break;
    case Move::kGetThread:
      if (first) nvshmem_getmem(there, here, bytes, pe);
      break;
    case Move::kGetWarp:
      if (first_warp) nvshmemx_getmem_warp(there, here, bytes, pe);
      break;
    case Move::kGetBlock:
      nvshmemx_getmem_block(there, here, bytes, pe);
      break;
    case Move::kSignal:
      if (first) nvshmem_putmem_signal(there, here, bytes, flag, value, NVSHMEM_SIGNAL_SET, pe);
      break;
  }
  if (first && what != Move::kSignal) nvshmem_quiet();
}

__global__ void await(uint64_t* flag, uint64_t value) {
  nvshmem_signal_wait_until(flag, NVSHMEM_CMP_GE, value);
}

__global__ void words(uint64_t* word, uint32_t* half, int next, int me, uint64_t* seen) {
  nvshmem_uint64_p(word + threadIdx.x, 1000 + threadIdx.x + static_cast<uint64_t>(me), next);
  nvshmem_uint32_p(half + threadIdx.x, 7 * threadIdx.x + static_cast<uint32_t>(me), next);
  nvshmem_quiet();
  __syncthreads();
  seen[threadIdx.x] = nvshmem_uint64_g(word + threadIdx.x, next);
}

/// Every PE adds to PE 0's words, and swaps and compares its own word of the next PE.
__global__ void atomics(uint64_t* sum, uint32_t* sum32, uint64_t* bits, uint64_t* own, int next,
                        uint64_t* seen) {
  const uint64_t lane = threadIdx.x;
  nvshmem_uint64_atomic_add(sum, lane, 0);
  nvshmem_uint64_atomic_fetch_add(sum, 1, 0);
  nvshmem_uint32_atomic_inc(sum32, 0);
  nvshmem_uint64_atomic_or(bits, 1ull << lane, 0);
  seen[lane] = nvshmem_uint64_atomic_swap(own + lane, 5 + lane, next);
  seen[lane + kWords] = nvshmem_uint64_atomic_compare_swap(own + lane, 5 + lane, 9 + lane, next);
  seen[lane + 2 * kWords] = nvshmem_uint64_atomic_fetch(own + lane, next);
  nvshmem_quiet();
}

__global__ void barriers(uint64_t* counter, int pes, uint64_t* wrong) {
  for (uint64_t round = 1; round <= 20; ++round) {
    nvshmem_uint64_atomic_inc(counter, 0);
    nvshmem_barrier_all();
    if (nvshmem_uint64_atomic_fetch(counter, 0) < round * static_cast<uint64_t>(pes)) ++*wrong;
    nvshmem_barrier_all();
  }
}

class Check {
 public:
  Check() : me_(nvshmem_my_pe()), pes_(nvshmem_n_pes()), next_((me_ + 1) % pes_) {
    remote_ = static_cast<unsigned char*>(nvshmem_calloc(kMost + 64, 1));
    local_ = static_cast<unsigned char*>(nvshmem_calloc(kMost + 64, 1));
    words_ = static_cast<uint64_t*>(nvshmem_calloc(8 * kWords, sizeof(uint64_t)));
    seen_ = static_cast<uint64_t*>(nvshmem_calloc(4 * kWords, sizeof(uint64_t)));
    if (remote_ == nullptr || local_ == nullptr || words_ == nullptr || seen_ == nullptr) {
      std::fprintf(stderr, "nvshmem_check: no symmetric memory\n");
      std::exit(1);
    }
  }

  void move_all() {
    for (int what = 0; what < 8; ++what) {
      bool well = true;
      for (const size_t bytes : kSizes) well = moved(static_cast<Move>(what), bytes) && well;
      say(kNames[what], well);
    }
  }

  void words() {
    uint64_t* word = words_;
    auto* half = reinterpret_cast<uint32_t*>(words_ + kWords);
    ::words<<<1, kWords>>>(word, half, next_, me_, seen_);
    const std::vector<uint64_t> got = fetched(seen_, kWords);
    nvshmem_barrier_all();
    const std::vector<uint64_t> mine = fetched(words_, 2 * kWords);
    const auto from = static_cast<uint64_t>((me_ + pes_ - 1) % pes_);
    bool p = true;
    bool g = true;
    for (uint64_t i = 0; i < kWords; ++i) {
      p = p && mine[i] == 1000 + i + from &&
          reinterpret_cast<const uint32_t*>(mine.data() + kWords)[i] == 7 * i + from;
      g = g && got[i] == 1000 + i + static_cast<uint64_t>(me_);
    }
    say("p", p);
    say("g", g);
  }

  void atomics() {
    uint64_t* at = words_ + 2 * kWords;
    ::atomics<<<1, kWords>>>(at, reinterpret_cast<uint32_t*>(at + 1), at + 2, at + kWords, next_,
                             seen_);
    const std::vector<uint64_t> got = fetched(seen_, 3 * kWords);
    nvshmem_barrier_all();
    const std::vector<uint64_t> mine = fetched(at, 2 * kWords);
    bool well = true;
    for (uint64_t i = 0; i < kWords; ++i) {
      well = well && got[i] == 0 && got[kWords + i] == 5 + i && got[2 * kWords + i] == 9 + i &&
             mine[kWords + i] == 9 + i;
    }
    if (me_ == 0) {
      const auto pes = static_cast<uint64_t>(pes_);
      well = well && mine[0] == pes * (kWords * (kWords - 1) / 2 + kWords) &&
             mine[1] == pes * kWords && mine[2] == ~0ull;
    }
    say("atomics", well);
  }

  void barriers() {
    uint64_t* at = words_ + 5 * kWords;
    ::barriers<<<1, 1>>>(at, pes_, seen_ + 3 * kWords);
    say("barrier_all", fetched(seen_ + 3 * kWords, 1)[0] == 0);
  }

  int result() const {
    std::printf("PE %d: %d passed, %d failed\n", me_, passed_, failed_);
    return failed_ == 0 ? 0 : 1;
  }

 private:
  /// True if the bytes are there and nothing around them has changed.
  bool moved(Move what, size_t bytes) {
    ++round_;
    const bool gets = what == Move::kGetThread || what == Move::kGetWarp || what == Move::kGetBlock;
    std::vector<unsigned char> image(kMost + 64);
    for (size_t i = 0; i < bytes; ++i) image[i] = byte_of(me_, round_, i);
    // What is read or sent, and what is written, which is 0 before.
    unsigned char* source = gets ? remote_ : local_;
    unsigned char* target = gets ? local_ : remote_;
    CUDA(cudaMemcpy(source, image.data(), image.size(), cudaMemcpyHostToDevice));
    CUDA(cudaMemset(target, 0, image.size()));
    CUDA(cudaDeviceSynchronize());
    nvshmem_barrier_all();
    uint64_t* flag = words_ + 7 * kWords;
    const auto value = static_cast<uint64_t>(round_);
    move<<<1, 128>>>(what, target, source, bytes, next_, flag, value);
    if (what == Move::kSignal) await<<<1, 1>>>(flag, value);
    CUDA(cudaDeviceSynchronize());
    if (what != Move::kSignal) nvshmem_barrier_all();
    CUDA(cudaMemcpy(image.data(), target, image.size(), cudaMemcpyDeviceToHost));
    const int from = gets ? next_ : (me_ + pes_ - 1) % pes_;
    for (size_t i = 0; i < image.size(); ++i) {
      const unsigned char wanted = i < bytes ? byte_of(from, round_, i) : 0;
      if (image[i] == wanted) continue;
      std::printf("PE %d: %s of %zu bytes: byte %zu is %u and not %u\n", me_,
                  kNames[static_cast<int>(what)], bytes, i, image[i], wanted);
      return false;
    }
    return true;
  }

  std::vector<uint64_t> fetched(const uint64_t* from, size_t count) {
    std::vector<uint64_t> values(count);
    CUDA(cudaDeviceSynchronize());
    CUDA(cudaMemcpy(values.data(), from, count * sizeof(uint64_t), cudaMemcpyDeviceToHost));
    return values;
  }

  void say(const char* name, bool well) {
    std::printf("PE %d: %s: %s\n", me_, name, well ? "ok" : "FAILED");
    std::fflush(stdout);
    ++(well ? passed_ : failed_);
  }

  int me_, pes_, next_;
  int round_ = 0, passed_ = 0, failed_ = 0;
  unsigned char *remote_, *local_;
  uint64_t *words_, *seen_;
};

}  // namespace

int main() {
  nvshmem_init();
  int devices = 0;
  CUDA(cudaGetDeviceCount(&devices));
  CUDA(cudaSetDevice(nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE) % devices));
  int result = 1;
  {
    Check check;
    check.move_all();
    check.words();
    check.atomics();
    check.barriers();
    result = check.result();
  }
  nvshmem_barrier_all();
  nvshmem_finalize();
  return result;
}
