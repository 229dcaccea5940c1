// SPDX-License-Identifier: Apache-2.0
//
// Managed memory: a list and objects with pointers that host and kernels share, a managed global,
// advice and prefetching.
#include "tests/cuda_programs/check.h"

struct Node {
  int value;
  Node* next;
};

class Managed {
 public:
  void* operator new(size_t bytes) {
    void* pointer = nullptr;
    CHECK(cudaMallocManaged(&pointer, bytes));
    return pointer;
  }
  void operator delete(void* pointer) { cudaFree(pointer); }
};

struct Table : Managed {
  int count;
  int* values;
};

__device__ __managed__ int visits;

__global__ void follow(const Node* list, long long* sum) {
  for (; list != nullptr; list = list->next) {
    *sum += list->value;
    ++visits;
  }
}

__global__ void twice(Table* table) {
  for (int i = threadIdx.x; i < table->count; i += blockDim.x) table->values[i] *= 2;
}

int main() {
  constexpr int kCount = 100;
  Node* list = nullptr;
  long long* sum;
  CHECK(cudaMallocManaged(&sum, sizeof *sum));
  *sum = 0;
  for (int i = 0; i < kCount; ++i) {
    Node* node;
    CHECK(cudaMallocManaged(&node, sizeof(Node)));
    *node = {i, list};
    list = node;
  }
  visits = 10;
  follow<<<1, 1>>>(list, sum);
  CHECK(cudaDeviceSynchronize());
  EXPECT(*sum == kCount * (kCount - 1) / 2 && visits == kCount + 10);

  Table* const table = new Table;
  table->count = kCount;
  CHECK(cudaMallocManaged(&table->values, kCount * sizeof(int)));
  for (int i = 0; i < kCount; ++i) table->values[i] = i;
  twice<<<1, 32>>>(table);
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < kCount; ++i) EXPECT(table->values[i] == 2 * i);
  cudaPointerAttributes attributes;
  CHECK(cudaPointerGetAttributes(&attributes, table));
  EXPECT(attributes.type == cudaMemoryTypeManaged && attributes.devicePointer == table);
  CHECK(cudaFree(table->values));
  delete table;
  return verdict("managed_memory");
}
