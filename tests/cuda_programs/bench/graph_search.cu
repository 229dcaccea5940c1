// SPDX-License-Identifier: Apache-2.0
//
// Breadth-first search of a graph in compressed rows: a queue of each level, filled by atomics.
#include <queue>
#include <vector>

#include "tests/cuda_programs/check.h"

constexpr int kNodes = 500, kThreads = 64;

__global__ void expand(const int* rows, const int* edges, int* depth, const int* queue, int count,
                       int* next, int* next_count, int level) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const int node = queue[i];
  for (int e = rows[node]; e < rows[node + 1]; ++e) {
    if (atomicCAS(&depth[edges[e]], -1, level) == -1) next[atomicAdd(next_count, 1)] = edges[e];
  }
}

template <typename T>
T* on_device(const std::vector<T>& host) {
  T* data;
  CHECK(cudaMalloc(&data, host.size() * sizeof(T)));
  CHECK(cudaMemcpy(data, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
  return data;
}

int main() {
  std::vector<int> rows = {0}, edges, expected(kNodes, -1);
  for (int i = 0; i < kNodes; ++i) {
    for (int j = 0; j < i % 4; ++j) edges.push_back((i * 17 + j * 101 + 1) % (kNodes - 10));
    if (i + 1 < kNodes - 20 && i % 3 == 0) edges.push_back(i + 1);
    rows.push_back((int)edges.size());
  }
  const int start = 7;
  std::queue<int> waiting({start});
  for (expected[start] = 0; !waiting.empty(); waiting.pop()) {
    const int node = waiting.front();
    for (int e = rows[node]; e < rows[node + 1]; ++e) {
      if (expected[edges[e]] != -1) continue;
      expected[edges[e]] = expected[node] + 1;
      waiting.push(edges[e]);
    }
  }
  std::vector<int> depth(kNodes, -1);
  depth[start] = 0;
  int *const on_rows = on_device(rows), *const on_edges = on_device(edges);
  int* const on_depth = on_device(depth);
  int *queue = on_device(std::vector<int>(kNodes, start)), *next = on_device(depth), *next_count;
  CHECK(cudaMallocManaged(&next_count, sizeof(int)));
  int levels = 0;
  for (int count = 1; count > 0; count = *next_count, std::swap(queue, next)) {
    *next_count = 0;
    expand<<<(count + kThreads - 1) / kThreads, kThreads>>>(on_rows, on_edges, on_depth, queue,
                                                            count, next, next_count, ++levels);
    CHECK(cudaDeviceSynchronize());
  }
  CHECK(cudaMemcpy(depth.data(), on_depth, kNodes * sizeof(int), cudaMemcpyDeviceToHost));
  EXPECT(levels > 5);
  for (int i = 0; i < kNodes; ++i) EXPECT(depth[i] == expected[i]);
  return verdict("graph_search");
}
