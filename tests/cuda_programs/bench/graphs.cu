// SPDX-License-Identifier: Apache-2.0
//
// A graph of launches, captured from two streams that part and meet again, and launched often.
#include "tests/cuda_programs/check.h"

constexpr int kCount = 200, kLaunches = 5;

__global__ void add(int* data, int value) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < kCount) data[i] += value;
}
__global__ void join(const int* a, const int* b, int* sum) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < kCount) sum[i] = a[i] * 10 + b[i];
}

int main() {
  int *a, *b, *sum, host[kCount];
  for (int** one : {&a, &b, &sum}) {
    CHECK(cudaMalloc(one, kCount * sizeof(int)));
    CHECK(cudaMemset(*one, 0, kCount * sizeof(int)));
  }
  cudaStream_t first, second;
  cudaEvent_t fork, meet;
  CHECK(cudaStreamCreate(&first));
  CHECK(cudaStreamCreate(&second));
  CHECK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
  CHECK(cudaEventCreateWithFlags(&meet, cudaEventDisableTiming));
  cudaGraph_t graph;
  cudaGraphExec_t ready;
  cudaStreamCaptureStatus status;
  CHECK(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal));
  add<<<2, 128, 0, first>>>(a, 1);
  CHECK(cudaEventRecord(fork, first));
  CHECK(cudaStreamWaitEvent(second, fork, 0));
  add<<<2, 128, 0, second>>>(b, 2);
  add<<<2, 128, 0, first>>>(a, 3);
  CHECK(cudaEventRecord(meet, second));
  CHECK(cudaStreamWaitEvent(first, meet, 0));
  join<<<2, 128, 0, first>>>(a, b, sum);
  CHECK(cudaStreamIsCapturing(first, &status));
  EXPECT(status == cudaStreamCaptureStatusActive);
  CHECK(cudaStreamEndCapture(first, &graph));
  CHECK(cudaGraphInstantiate(&ready, graph, 0));
  for (int i = 0; i < kLaunches; ++i) CHECK(cudaGraphLaunch(ready, first));
  CHECK(cudaMemcpyAsync(host, sum, sizeof host, cudaMemcpyDeviceToHost, first));
  CHECK(cudaStreamSynchronize(first));
  for (int value : host) EXPECT(value == kLaunches * 4 * 10 + kLaunches * 2);
  CHECK(cudaGraphExecDestroy(ready));
  CHECK(cudaGraphDestroy(graph));
  return verdict("graphs");
}
