// SPDX-License-Identifier: Apache-2.0
//
// How kernels are started, how one that fails is told of, and how large a grid may be.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "simt/lanes/kernels.h"
#include "simt/runtime/cuda_runtime.h"
#include "simt/runtime/groups.h"
#include "simt/runtime/state.h"

namespace {

namespace cg = cooperative_groups;
using peal::simt::default_stream;
using peal::simt::cuda::start;

void add(int* sum, int value) { atomicAdd(sum, value); }
void add_half(int* sum, double value) { atomicAdd(sum, static_cast<int>(value * 2)); }
const peal::simt::OfferedKernel<&add> offered;

// Every block sees what every other wrote before the barrier.
void meet(unsigned* arrived, unsigned* seen) {
  for (unsigned round = 1; round <= 3; ++round) {
    atomicAdd(arrived, 1);
    cg::this_grid().sync();
    if (atomicAdd(arrived, 0) == round * cg::this_grid().size()) atomicAdd(seen, 1);
    cg::this_grid().sync();
  }
}

void meet_but_some(unsigned* seen) {
  if (threadIdx.x % 2 == 1) return;
  cg::this_grid().sync();
  atomicAdd(seen, 1);
}

TEST(CudaLaunches, StartAGridInOrder) {
  int sum = 0;
  EXPECT_EQ(start(default_stream(), {4, 64}, "add", [&] { add(&sum, 2); }), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(sum, 512);
}

TEST(CudaLaunches, RefuseAGridThatCudaRefuses) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(start(default_stream(), {1, 1025}, "wide", [] {}), cudaErrorInvalidConfiguration);
  EXPECT_EQ(start(default_stream(), {0, 32}, "none", [] {}), cudaErrorInvalidConfiguration);
  EXPECT_EQ(start(default_stream(), {1, 32, 1 << 20}, "large", [] {}), cudaErrorInvalidValue);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("kernel wide: launch: threads = 1025"), std::string::npos) << said;
  EXPECT_NE(said.find("kernel none: launch: blocks = 0"), std::string::npos) << said;
  EXPECT_NE(said.find("kernel large: launch: shared_bytes = 1048576"), std::string::npos) << said;
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);  // such a launch breaks nothing
}

TEST(CudaLaunches, AFailureIsToldOnceAndEndsAllCalls) {
  // Programs that look at the error of the last call only must not miss it.
  testing::internal::CaptureStderr();
  EXPECT_EQ(start(default_stream(), {2, 32}, "trapped",
                  [] {
                    if (threadIdx.x == 5 && blockIdx.x == 1) __trap();
                  }),
            cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 8), cudaErrorLaunchFailure);
  EXPECT_EQ(start(default_stream(), {1, 1}, "late", [] {}), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "peal: kernel trapped: block (1,0,0), thread (5,0,0): __trap() was called\n");
  EXPECT_EQ(cudaDeviceReset(), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  int sum = 0;
  EXPECT_EQ(start(default_stream(), {1, 1}, "after", [&] { add(&sum, 1); }), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(sum, 1);
}

TEST(CudaLaunches, AFailureOfPealsOwnWorkIsToldWhenItsStreamIsWaitedFor) {
  peal::simt::WorkStream stream;
  stream.add([] { throw peal::simt::LaneError("a call on a stream failed"); });
  testing::internal::CaptureStderr();
  EXPECT_EQ(cudaStreamSynchronize(peal::simt::cuda::handle_of(stream)), cudaErrorLaunchFailure);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "peal: a call on a stream failed\n");
  EXPECT_EQ(cudaDeviceReset(), cudaSuccess);
}

TEST(CudaLaunches, StartAKernelByItsAddress) {
  int sum = 0;
  int* to = &sum;
  int value = 3;
  void* arguments[] = {&to, &value};
  EXPECT_EQ(cudaLaunchKernel(reinterpret_cast<const void*>(add), 2, 32, arguments, 0, nullptr),
            cudaSuccess);
  value = 0;  // arguments were copied
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(sum, 192);
  double half = 1.5;
  void* typed[] = {&to, &half};
  EXPECT_EQ(cudaLaunchKernel(add_half, dim3(1), dim3(8, 2), typed), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(sum, 192 + 48);
}

TEST(CudaLaunches, RefuseAnAddressThatWasNotOffered) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(cudaLaunchKernel(reinterpret_cast<const void*>(add_half), 1, 1, nullptr, 0, nullptr),
            cudaErrorInvalidDeviceFunction);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("OfferedKernel"), std::string::npos);
  EXPECT_EQ(cudaLaunchKernel(static_cast<const void*>(nullptr), 1, 1, nullptr, 0, nullptr),
            cudaErrorInvalidDeviceFunction);
  cudaGetLastError();
}

TEST(CudaLaunches, ACooperativeGridMeets) {
  unsigned arrived = 0, seen = 0;
  unsigned *first = &arrived, *second = &seen;
  void* arguments[] = {&first, &second};
  EXPECT_EQ(cudaLaunchCooperativeKernel(meet, 5, 40, arguments), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(seen, 3u * 5 * 40);
}

TEST(CudaLaunches, ACooperativeGridDoesNotWaitForWhoHasEnded) {
  unsigned seen = 0;
  unsigned* to = &seen;
  void* arguments[] = {&to};
  EXPECT_EQ(cudaLaunchCooperativeKernel(meet_but_some, 3, 32, arguments), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(seen, 48u);
}

TEST(CudaLaunches, AGraphRunsACooperativeGridAgain) {
  unsigned arrived = 0, seen = 0;
  unsigned *first = &arrived, *second = &seen;
  void* arguments[] = {&first, &second};
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
  EXPECT_EQ(cudaMemsetAsync(first, 0, sizeof(unsigned), stream), cudaSuccess);
  EXPECT_EQ(cudaLaunchCooperativeKernel(meet, 2, 32, arguments, 0, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  EXPECT_EQ(cudaGraphInstantiate(&ready, graph), cudaSuccess);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(cudaGraphLaunch(ready, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(seen, 2u * 3 * 64);
  cudaGraphExecDestroy(ready);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

TEST(CudaLaunches, AnOrdinaryGridHasNoBarrier) {
  testing::internal::CaptureStderr();
  bool valid = true;
  start(default_stream(), {1, 1}, "alone", [&] { valid = cg::this_grid().is_valid(); });
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_FALSE(valid);
  start(default_stream(), {2, 32}, "alone", [] { cg::this_grid().sync(); });
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("cudaLaunchCooperativeKernel"),
            std::string::npos);
  EXPECT_EQ(cudaDeviceReset(), cudaSuccess);
}

TEST(CudaLaunches, ACooperativeGridMustFit) {
  unsigned* to = nullptr;
  void* arguments[] = {&to};
  cudaLaunchAttribute cooperative{};
  cooperative.id = cudaLaunchAttributeCooperative;
  cooperative.val.cooperative = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = 1u << 20;
  config.blockDim = 1024;
  config.attrs = &cooperative;
  config.numAttrs = 1;
  const auto expect_refusal = [](const auto& launch) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(launch(), cudaErrorCooperativeLaunchTooLarge);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("meet_but_some: launch: 1048576 x 1 x 1 blocks of 1024 threads, which must "
                        "all be resident"),
              std::string::npos)
        << said;
    EXPECT_EQ(cudaGetLastError(), cudaErrorCooperativeLaunchTooLarge);
  };
  expect_refusal(
      [&] { return cudaLaunchCooperativeKernel(meet_but_some, 1u << 20, 1024, arguments); });
  expect_refusal([&] { return cudaLaunchKernelEx(&config, meet_but_some, to); });
}

TEST(CudaLaunches, RunAGridOfMoreLanesThanMayBeResident) {
  int sum = 0;
  int* to = &sum;
  int value = 1;
  void* arguments[] = {&to, &value};
  EXPECT_EQ(cudaLaunchKernel(add, 4096, 256, arguments), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(sum, 4096 * 256);
}

TEST(CudaLaunches, TellHowLargeAGridMayBe) {
  int blocks = 0, threads = 0;
  EXPECT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 256, 0), cudaSuccess);
  EXPECT_GE(blocks, 1);
  EXPECT_LE(blocks, 8);
  EXPECT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 32, 200 * 1024),
            cudaSuccess);
  EXPECT_EQ(blocks, 1);
  EXPECT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 2000, 0), cudaSuccess);
  EXPECT_EQ(blocks, 0);
  EXPECT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 0, 0),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaOccupancyMaxPotentialBlockSize(&blocks, &threads, add, 0, 96), cudaSuccess);
  EXPECT_EQ(threads, 96);
  EXPECT_GE(blocks, 1);
  cudaGetLastError();
}

TEST(CudaLaunches, TakeAttributesOfKernels) {
  cudaFuncAttributes attributes{};
  EXPECT_EQ(cudaFuncGetAttributes(&attributes, add), cudaSuccess);
  EXPECT_EQ(attributes.maxThreadsPerBlock, 1024);
  EXPECT_EQ(cudaFuncSetAttribute(add, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 * 1024),
            cudaSuccess);
  EXPECT_EQ(cudaFuncSetAttribute(add, cudaFuncAttributeMaxDynamicSharedMemorySize, 228 * 1024),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncSetAttribute(add, static_cast<cudaFuncAttribute>(99), 1),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncGetAttributes(nullptr, add), cudaErrorInvalidValue);
  cudaGetLastError();
}

}  // namespace
