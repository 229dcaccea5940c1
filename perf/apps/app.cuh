// SPDX-License-Identifier: Apache-2.0
//
// What the applications of this folder share: one source against NVSHMEM's API, compiled against
// peal's headers of it (Bazel) and against NVSHMEM (perf/compare/build.sh). Each prints one row at
// PE 0, and fails where a value is wrong:
//
//   {"app": "gups", "side": "peal", "pes": 2, ..., "gups": 0.41, "errors": 0}
#pragma once

#include <nvshmem.h>
#include <nvshmemx.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#define CUDA_CHECK(call)                                                 \
  do {                                                                   \
    const cudaError_t error = (call);                                    \
    if (error != cudaSuccess) {                                          \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, \
                   cudaGetErrorString(error));                           \
      std::exit(1);                                                      \
    }                                                                    \
  } while (0)

namespace app {

#if defined(PEAL_HD)
inline constexpr const char* kSide = "peal";
#else
inline constexpr const char* kSide = "nvshmem";
#endif

/// `--name value` on the command line, each known by its default.
class AppOptions {
 public:
  AppOptions(int argc, char** argv) : argc_(argc), argv_(argv), known_(1, true) {
    known_.resize(static_cast<size_t>(argc), false);
  }
  /// A number of at least `least`; ends the program with the reason otherwise.
  long number(const char* name, long otherwise, long least = 1) {
    for (int i = 1; i + 1 < argc_; i += 2) {
      if (std::string(argv_[i]) != std::string("--") + name) continue;
      known_[static_cast<size_t>(i)] = true;
      char* end = nullptr;
      const long value = std::strtol(argv_[i + 1], &end, 10);
      if (end == argv_[i + 1] || *end != 0 || value < least) {
        refuse(std::string("--") + name + " takes a number of at least " + std::to_string(least) +
               ", not '" + argv_[i + 1] + "'");
      }
      return value;
    }
    return otherwise;
  }
  /// Refuses what no number() has asked for.
  void done() const {
    for (int i = 1; i < argc_; i += 2) {
      if (!known_[static_cast<size_t>(i)] || i + 1 == argc_) {
        refuse(std::string("unknown option, or one without a value: ") + argv_[i]);
      }
    }
  }
  [[noreturn]] void refuse(const std::string& why) const {
    std::fprintf(stderr, "%s: %s\n", argv_[0], why.c_str());
    std::exit(2);
  }

 private:
  int argc_;
  char** argv_;
  std::vector<bool> known_;
};

/// Joins the job; each PE takes the GPU of its number on the node, in turn where there are fewer.
inline void begin() {
  nvshmem_init();
  int devices = 0;
  CUDA_CHECK(cudaGetDeviceCount(&devices));
  CUDA_CHECK(cudaSetDevice(nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE) % devices));
}

/// Symmetric memory of `count` zeros; ends the program where there is no room.
template <class T>
T* symmetric(size_t count) {
  void* memory = nvshmem_calloc(count, sizeof(T));
  if (memory == nullptr) {
    std::fprintf(stderr,
                 "no room for %zu bytes of symmetric memory: raise PEAL_HEAP_SIZE or "
                 "NVSHMEM_SYMMETRIC_SIZE\n",
                 count * sizeof(T));
    nvshmem_global_exit(1);
  }
  return static_cast<T*>(memory);
}

/// Seconds from one barrier of all PEs to the next, between which `launch` queues kernels.
template <class Launch>
double seconds(const Launch& launch) {
  CUDA_CHECK(cudaDeviceSynchronize());
  nvshmem_barrier_all();
  const auto begin = std::chrono::steady_clock::now();
  launch();
  CUDA_CHECK(cudaGetLastError());
  CUDA_CHECK(cudaDeviceSynchronize());
  nvshmem_barrier_all();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// What `reduce`, a call such as nvshmem_uint64_sum_reduce, makes of the words of all PEs.
template <class Reduce>
uint64_t of_all(uint64_t mine, const Reduce& reduce) {
  auto* const words = symmetric<uint64_t>(2);
  CUDA_CHECK(cudaMemcpy(words, &mine, sizeof mine, cudaMemcpyHostToDevice));
  reduce(NVSHMEM_TEAM_WORLD, words + 1, words, 1);
  uint64_t all = 0;
  CUDA_CHECK(cudaMemcpy(&all, words + 1, sizeof all, cudaMemcpyDeviceToHost));
  nvshmem_free(words);
  return all;
}
inline uint64_t sum_of_all(uint64_t mine) {
  return of_all(mine, [](auto... arguments) { return nvshmem_uint64_sum_reduce(arguments...); });
}
inline uint64_t xor_of_all(uint64_t mine) {
  return of_all(mine, [](auto... arguments) { return nvshmem_uint64_xor_reduce(arguments...); });
}

/// PE 0 prints the row: `figures` is what stands between the number of PEs and the errors of all.
/// Leaves the job, and answers the program's exit code.
inline int finish(const char* name, const std::string& figures, uint64_t errors) {
  const uint64_t wrong = sum_of_all(errors);
  if (nvshmem_my_pe() == 0) {
    std::printf("{\"app\": \"%s\", \"side\": \"%s\", \"pes\": %d, %s, \"errors\": %llu}\n", name,
                kSide, nvshmem_n_pes(), figures.c_str(), static_cast<unsigned long long>(wrong));
  }
  nvshmem_finalize();
  return wrong == 0 ? 0 : 1;
}

/// `"name": value` pairs, as printf makes them.
template <class... Values>
std::string row(const char* format, Values... values) {
  char text[512];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

/// A well mixed word of `x` (splitmix64).
__host__ __device__ inline uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

}  // namespace app
