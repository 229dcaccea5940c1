// SPDX-License-Identifier: Apache-2.0
//
// Work in pieces on several streams: copy in, compute, copy out, with page-locked memory, a
// callback at the end of each, and priorities.
#include <atomic>

#include "tests/cuda_programs/check.h"

constexpr int kStreams = 4, kPiece = 512;

__global__ void square_plus(const int* in, int* out, int n, int plus) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    out[i] = in[i] * in[i] + plus;
  }
}

std::atomic<int> ended{0};

void CUDART_CB count_up(void* data) { ended += *static_cast<int*>(data); }

int main() {
  constexpr int kCount = kStreams * kPiece;
  int *host, *in, *out, least, greatest, weights[kStreams];
  CHECK(cudaMallocHost(&host, kCount * sizeof(int)));
  CHECK(cudaMalloc(&in, kCount * sizeof(int)));
  CHECK(cudaMalloc(&out, kCount * sizeof(int)));
  CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  cudaStream_t streams[kStreams];
  for (int s = 0; s < kStreams; ++s) {
    CHECK(
        cudaStreamCreateWithPriority(&streams[s], cudaStreamNonBlocking, s % 2 ? least : greatest));
    weights[s] = 1 << s;
  }
  for (int i = 0; i < kCount; ++i) host[i] = i - 700;
  for (int s = 0; s < kStreams; ++s) {
    const int at = s * kPiece;
    const size_t bytes = kPiece * sizeof(int);
    CHECK(cudaMemcpyAsync(in + at, host + at, bytes, cudaMemcpyHostToDevice, streams[s]));
    square_plus<<<2, 64, 0, streams[s]>>>(in + at, out + at, kPiece, s);
    CHECK(cudaMemcpyAsync(host + at, out + at, bytes, cudaMemcpyDeviceToHost, streams[s]));
    CHECK(cudaLaunchHostFunc(streams[s], count_up, &weights[s]));
  }
  for (cudaStream_t stream : streams) {
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaStreamQuery(stream));
    CHECK(cudaStreamDestroy(stream));
  }
  EXPECT(ended == (1 << kStreams) - 1);
  for (int i = 0; i < kCount; ++i) EXPECT(host[i] == (i - 700) * (i - 700) + i / kPiece);
  return verdict("streams");
}
