// SPDX-License-Identifier: Apache-2.0
//
// Two streams that take turns by events: a producer of buffers and their consumer, twice as many
// rounds as buffers, and the time between two events.
#include "tests/cuda_programs/check.h"

constexpr int kCount = 256, kBuffers = 2, kRounds = 6;

__global__ void fill(int* buffer, int round) { buffer[threadIdx.x] = round * 1000 + threadIdx.x; }

__global__ void sum_up(const int* buffer, long long* sums, int round) {
  atomicAdd((unsigned long long*)&sums[round], (unsigned long long)buffer[threadIdx.x]);
}

int main() {
  cudaStream_t producer, consumer;
  CHECK(cudaStreamCreateWithFlags(&producer, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&consumer, cudaStreamNonBlocking));
  int* buffers[kBuffers];
  cudaEvent_t filled[kBuffers], emptied[kBuffers], begin, end;
  long long* sums;
  CHECK(cudaMallocManaged(&sums, kRounds * sizeof(long long)));
  for (int i = 0; i < kRounds; ++i) sums[i] = 0;
  for (int b = 0; b < kBuffers; ++b) {
    CHECK(cudaMalloc(&buffers[b], kCount * sizeof(int)));
    CHECK(cudaEventCreateWithFlags(&filled[b], cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&emptied[b], cudaEventDisableTiming));
  }
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  CHECK(cudaEventRecord(begin, producer));
  for (int round = 0; round < kRounds; ++round) {
    const int b = round % kBuffers;
    if (round >= kBuffers) CHECK(cudaStreamWaitEvent(producer, emptied[b], 0));
    fill<<<1, kCount, 0, producer>>>(buffers[b], round);
    CHECK(cudaEventRecord(filled[b], producer));
    CHECK(cudaStreamWaitEvent(consumer, filled[b], 0));
    sum_up<<<1, kCount, 0, consumer>>>(buffers[b], sums, round);
    CHECK(cudaEventRecord(emptied[b], consumer));
  }
  CHECK(cudaEventRecord(end, consumer));
  CHECK(cudaEventSynchronize(end));
  float milliseconds = -1;
  CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
  EXPECT(milliseconds >= 0 && cudaEventQuery(begin) == cudaSuccess);
  for (int round = 0; round < kRounds; ++round) {
    EXPECT(sums[round] == round * 1000ll * kCount + kCount * (kCount - 1) / 2);
  }
  for (int b = 0; b < kBuffers; ++b) {
    CHECK(cudaEventDestroy(filled[b]));
    CHECK(cudaEventDestroy(emptied[b]));
  }
  return verdict("events");
}
