// SPDX-License-Identifier: Apache-2.0
//
// Launches with attributes, and how large a grid or a block may be.
#include "tests/cuda_programs/check.h"

__global__ void add(int* sum, int value, double more) {
  atomicAdd(sum, value + static_cast<int>(more));
}
template <typename T>
__global__ void store(T* to, T value) {
  *to = value;
}

int* sum;

void launch_with_attributes() {
  cudaLaunchConfig_t config = {};
  cudaLaunchAttribute attributes[3];
  config.gridDim = 2;
  config.blockDim = dim3(8, 2);
  config.attrs = attributes;
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = attributes[1].val.clusterDim.y = 1;
  attributes[1].val.clusterDim.z = 1;
  config.numAttrs = 2;
  *sum = 0;
  CHECK(cudaLaunchKernelEx(&config, add, sum, 1, 2.0f));  // a float becomes a double
  attributes[2].id = cudaLaunchAttributeCooperative;
  attributes[2].val.cooperative = 1;
  config.numAttrs = 3;
  CHECK(cudaLaunchKernelEx(&config, add, sum, short{1}, 1.0));
  int value = 10;
  double more = 0;
  void* arguments[] = {&sum, &value, &more};
  CHECK(cudaLaunchKernelExC(&config, (const void*)add, arguments));
  CHECK(cudaDeviceSynchronize());
  EXPECT(*sum == 32 * (3 + 2 + 10));

#ifdef __PEAL_CC__  // where there are no clusters
  attributes[1].val.clusterDim.x = 2;
  EXPECT(cudaLaunchKernelEx(&config, add, sum, 1, 1.0) == cudaErrorInvalidClusterSize);
  EXPECT(cudaGetLastError() == cudaErrorInvalidClusterSize);
  EXPECT(cudaLaunchKernelEx(nullptr, add, sum, 1, 1.0) == cudaErrorInvalidValue);
  EXPECT(cudaGetLastError() == cudaErrorInvalidValue);
  int clusters = 0;
  EXPECT(cudaOccupancyMaxActiveClusters(&clusters, add, &config) == cudaErrorInvalidClusterSize);
  EXPECT(cudaGetLastError() == cudaErrorInvalidClusterSize);
  int launches_clusters = 1;
  CHECK(cudaDeviceGetAttribute(&launches_clusters, cudaDevAttrClusterLaunch, 0));
  EXPECT(launches_clusters == 0);
#endif
}

void ask_for_sizes() {
  int blocks = 0, threads = 0, same_blocks = 0, same_threads = 0, resident = 0;
  CHECK(cudaOccupancyMaxPotentialBlockSize(&blocks, &threads, add));
  EXPECT(blocks > 0 && threads > 0 && threads <= 1024 && threads % 32 == 0);
  CHECK(cudaOccupancyMaxPotentialBlockSize(&same_blocks, &same_threads, (const void*)add));
  EXPECT(blocks == same_blocks && threads == same_threads);
  CHECK(cudaOccupancyMaxPotentialBlockSize(&same_blocks, &same_threads, (void*)add, 0, 64));
  EXPECT(same_threads <= 64);
  CHECK(cudaOccupancyMaxPotentialBlockSize(&blocks, &threads, store<float>));
  EXPECT(threads > 0);
  CHECK(cudaOccupancyMaxPotentialBlockSizeWithFlags(&blocks, &threads, store<int>, 0, 128, 0));
  EXPECT(threads <= 128);
  CHECK(cudaOccupancyMaxPotentialBlockSizeVariableSMem(
      &blocks, &threads, add, [](int block) { return block * sizeof(double); }));
  EXPECT(threads > 0 && blocks > 0);
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, store<int>, 256, 0));
  EXPECT(resident > 0 && resident <= 32);
  int with_memory = 0;
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&with_memory, store<int>, 256,
                                                               40 * 1024, 0));
  EXPECT(with_memory > 0 && with_memory <= resident);
  size_t bytes = 0;
  CHECK(cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, store<int>, 2, 64));
  EXPECT(bytes >= 48 * 1024);
}

int main() {
  CHECK(cudaMallocManaged(&sum, sizeof(int)));
  launch_with_attributes();
  ask_for_sizes();
  store<<<1, 1>>>(sum, 7);
  CHECK(cudaDeviceSynchronize());
  EXPECT(*sum == 7);
  return verdict("launches");
}
