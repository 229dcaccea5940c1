// SPDX-License-Identifier: Apache-2.0
//
// What peal-cc makes of <<<>>>, __global__ and __shared__ (simt/cc), written by hand.
#include "simt/runtime/syntax.h"

#include <gtest/gtest.h>

#include <vector>

#include "simt/lanes/launch.h"
#include "simt/runtime/cuda_runtime.h"

namespace peal::simt::cuda {
namespace {

// __global__ void add(int* sums, int value) { __shared__ int all; ... }
void add(int* sums, int value) {
  enter("add", &offered_kernel<static_cast<void (*)(int*, int)>(&add)>, [=]() mutable {
    struct Shared {
      int all;
    };
    auto& in_block = shared<Shared>();
    auto& all = in_block.all;
    if (threadIdx.x == 0) all = 0;
    __syncthreads();
    value += static_cast<int>(threadIdx.x);  // a lane's own copy
    atomicAdd(&all, value);
    __syncthreads();
    if (threadIdx.x == 0) sums[blockIdx.x] = all;
  });
}

TEST(Syntax, AKernelThatTheHostCallsStartsAGrid) {
  std::vector<int> sums(3);
  (static_cast<void>(Configured(3, 4)), add(sums.data(), 10));
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(sums, (std::vector<int>{46, 46, 46}));
}

TEST(Syntax, AKernelOffersItself) {
  std::vector<int> sums(2);
  int* to = sums.data();
  int value = 1;
  void* arguments[] = {&to, &value};
  ASSERT_EQ(cudaLaunchKernel(reinterpret_cast<const void*>(add), dim3(2), dim3(2), arguments),
            cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(sums, (std::vector<int>{3, 3}));
}

void own_address(const void** seen) {
  enter("own_address", &offered_kernel<&own_address>, [=]() mutable { *seen = simt::kernel(); });
}

// Messages name it by its address.
TEST(Syntax, AGridKnowsTheAddressOfItsKernel) {
  const void* seen = nullptr;
  (static_cast<void>(Configured(1, 1)), own_address(&seen));
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(seen, reinterpret_cast<const void*>(own_address));
}

TEST(Syntax, AGridThatCannotRunIsAnErrorOfCudas) {
  int sum = 0;
  (static_cast<void>(Configured(1, 2000)), add(&sum, 1));
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  int no_stream = 0;
  (static_cast<void>(Configured(1, 1, 0, reinterpret_cast<cudaStream_t>(&no_stream))),
   add(&sum, 1));
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(sum, 0);
}

TEST(Syntax, CallsThatAreNoLaunchesAreTold) {
  int sum = 0;
  try {
    add(&sum, 1);
    FAIL();
  } catch (const LaneError& error) {
    EXPECT_STREQ(error.what(), "kernel add: called by the host without <<<...>>>");
  }
  testing::internal::CaptureStderr();
  (static_cast<void>(Configured(1, 1)), [] {}());
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "peal-cc: <<<...>>>: what was called is no kernel that peal-cc compiled\n");
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDeviceFunction);
  EXPECT_THROW(launch({1, 1}, [] { Configured(1, 1); }).wait(), LaneError);
}

// f<<<...>>>(g()), where g starts kernels of its own.
TEST(Syntax, LaunchesNest) {
  std::vector<int> sums(2);
  const auto inner = [&] {
    (static_cast<void>(Configured(1, 1)), add(&sums[1], 5));
    return 7;
  };
  (static_cast<void>(Configured(1, 1)), add(sums.data(), inner()));
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(sums, (std::vector<int>{7, 5}));
}

}  // namespace
}  // namespace peal::simt::cuda
