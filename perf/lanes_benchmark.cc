// SPDX-License-Identifier: Apache-2.0
//
// What kernels cost on a CPU (simt): threads that never wait, __syncthreads(), shuffles, launches.
// A line each, by the clock and by the CPU time of all threads; other programs on the machine
// disturb the first. Behind a figure that has a bar: whether it keeps it, on two CPUs of which
// nobody else uses any.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "simt/runtime/cuda_runtime.h"

namespace {

constexpr int kBlockThreads = 256;

void add(const float* a, const float* b, float* sum, unsigned mask) {
  const unsigned i = (blockIdx.x * blockDim.x + threadIdx.x) & mask;
  sum[i] = a[i] + b[i];
}
void meet(int turns) {
  for (int i = 0; i < turns; ++i) __syncthreads();
}
void shuffle(int turns, float* out) {
  float value = static_cast<float>(threadIdx.x);
  for (int i = 0; i < turns; ++i) value += __shfl_xor_sync(~0u, value, 1 << (i % 5));
  if (value == 0.5f) *out = value;
}
void nothing() {}

/// What a figure must be at least, or at most; 0: it has no bar.
struct Bar {
  double least = 0;
  double most = 0;
};

void tell_bar(double figure, const Bar& bar) {
  if (bar.least != 0) {
    std::printf("   %-3s  at least %g", figure >= bar.least ? "yes" : "NO", bar.least);
  } else if (bar.most != 0) {
    std::printf("   %-3s  at most %g", figure <= bar.most ? "yes" : "NO", bar.most);
  }
  std::printf("\n");
  std::fflush(stdout);
}

struct Times {
  double wall_s;
  double cpu_s;
};

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

Times time_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  const double cpu = cpu_seconds();
  work();
  if (cudaDeviceSynchronize() != cudaSuccess) std::exit(1);
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  return {wall.count(), cpu_seconds() - cpu};
}

/// The best of three; `count` are millions of what is done.
void tell_rate(const char* what, double count, const Bar& bar, const std::function<void()>& work) {
  Times best{1e9, 1e9};
  for (int i = 0; i < 3; ++i) {
    const Times times = time_of(work);
    best = {std::min(best.wall_s, times.wall_s), std::min(best.cpu_s, times.cpu_s)};
  }
  std::printf("%-44s %9.2f M/s %9.2f ns of CPU each", what, count / best.wall_s,
              1e3 * best.cpu_s / count);
  tell_bar(count / best.wall_s, bar);
}

void tell_memory(const Bar& bar) {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const long mib = usage.ru_maxrss / 1024;
  std::printf("%-44s %9ld MiB                     ", "memory at most", mib);
  tell_bar(static_cast<double>(mib), bar);
}

void threads_that_never_wait(unsigned log_threads, const Bar& bar) {
  constexpr unsigned kWords = 1 << 24;
  std::vector<float> a(kWords, 1), b(kWords, 2), sum(kWords);
  const float *first = a.data(), *second = b.data();
  float* to = sum.data();
  unsigned mask = kWords - 1;
  void* arguments[] = {&first, &second, &to, &mask};
  const unsigned threads = 1u << log_threads;
  char what[64];
  std::snprintf(what, sizeof what, "threads, vector add of 2^%u", log_threads);
  tell_rate(what, threads * 1e-6, bar,
            [&] { cudaLaunchKernel(add, threads / kBlockThreads, kBlockThreads, arguments); });
}

constexpr Bar kMeetings{.least = 30};  // M/s

void meetings() {
  int turns = 1000;
  void* arguments[] = {&turns};
  tell_rate("__syncthreads of a lane, 16 blocks of 256", turns * 16e-6 * kBlockThreads, kMeetings,
            [&] { cudaLaunchKernel(meet, 16, kBlockThreads, arguments); });
  turns = 10;
  tell_rate("__syncthreads of a lane, 2048 blocks of 256", turns * 2048e-6 * kBlockThreads,
            kMeetings, [&] { cudaLaunchKernel(meet, 2048, kBlockThreads, arguments); });
}

void shuffles() {
  int turns = 1000;
  float out = 0;
  float* to = &out;
  void* arguments[] = {&turns, &to};
  tell_rate("shuffles of a lane, 16 blocks of 256", turns * 16e-6 * kBlockThreads, kMeetings,
            [&] { cudaLaunchKernel(shuffle, 16, kBlockThreads, arguments); });
}

void launches(unsigned blocks, const Bar& bar) {
  constexpr int kLaunches = 20000;
  const Times waited = time_of([&] {
    for (int i = 0; i < kLaunches; ++i) {
      cudaLaunchKernel(nothing, blocks, 1, nullptr);
      cudaDeviceSynchronize();
    }
  });
  const Times given = time_of([&] {
    for (int i = 0; i < kLaunches; ++i) cudaLaunchKernel(nothing, blocks, 1, nullptr);
  });
  const double us = 1e6 * waited.wall_s / kLaunches;
  std::printf("launch of %2u blocks of 1 thread, and its end   %7.2f us  %9.2f us of CPU     ",
              blocks, us, 1e6 * waited.cpu_s / kLaunches);
  tell_bar(us, bar);
  std::printf("launch of %2u blocks of 1 thread, in a row      %7.2f us  %9.2f us of CPU\n", blocks,
              1e6 * given.wall_s / kLaunches, 1e6 * given.cpu_s / kLaunches);
}

}  // namespace

int main(int argc, char** argv) {
  const bool small = argc > 1;  // a run that looks at nothing but that it runs
  const unsigned log_threads = small ? static_cast<unsigned>(std::atoi(argv[1])) : 24;
  threads_that_never_wait(log_threads, small ? Bar{} : Bar{.least = 100});  // M/s
  if (!small) {
    threads_that_never_wait(26, {});
    tell_memory({.most = 511});  // MiB
  }
  meetings();
  shuffles();
  launches(1, {.most = 5});  // us
  launches(16, {});
}
