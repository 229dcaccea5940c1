// SPDX-License-Identifier: Apache-2.0
//
// CUDA's calls for devices and errors.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "simt/runtime/cuda/cuda.h"
#include "simt/runtime/cuda_runtime.h"

namespace {

TEST(CudaDevices, AreEightWhereNobodySaysMore) {
  int count = 0;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(count, 8);
  EXPECT_EQ(cudaGetDeviceCount(nullptr), cudaErrorInvalidValue);
  cudaGetLastError();
}

// In a process of its own: the number is read once.
void exit_with_count(const char* devices, const char* variable = "SIMT_DEVICES") {
  ::setenv(variable, devices, 1);
  int count = -1;
  const cudaError_t error = cudaGetDeviceCount(&count);
  std::exit(error == cudaSuccess ? count : 100 + (error == cudaErrorNoDevice));
}

TEST(CudaDevicesDeathTest, AreAsManyAsTheEnvironmentSays) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(exit_with_count("2"), testing::ExitedWithCode(2), "^$");
  EXPECT_EXIT(exit_with_count("0"), testing::ExitedWithCode(101), "^$");
  EXPECT_EXIT(exit_with_count("65"), testing::ExitedWithCode(101),
              "SIMT_DEVICES=65: a number from 0 to 64");
  EXPECT_EXIT(exit_with_count("two"), testing::ExitedWithCode(101), "SIMT_DEVICES=two");
}

/// Programs take their number for that of PEs.
TEST(CudaDevicesDeathTest, AreAsManyAsProcessesOnThisHost) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(exit_with_count("2", "OMPI_COMM_WORLD_LOCAL_SIZE"), testing::ExitedWithCode(2), "^$");
  EXPECT_EXIT(exit_with_count("3", "LOCAL_WORLD_SIZE"), testing::ExitedWithCode(3), "^$");
  EXPECT_EXIT(exit_with_count("4(x2)", "SLURM_STEP_TASKS_PER_NODE"), testing::ExitedWithCode(4),
              "^$");
  EXPECT_EXIT(exit_with_count("4,2", "SLURM_STEP_TASKS_PER_NODE"), testing::ExitedWithCode(8),
              "^$");
  EXPECT_EXIT(exit_with_count("100", "PEAL_TCP_SIZE"), testing::ExitedWithCode(64), "^$");
  const auto asked = [] {
    ::setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2", 1);
    exit_with_count("5");
  };
  EXPECT_EXIT(asked(), testing::ExitedWithCode(5), "^$");
}

TEST(CudaDevices, EachThreadHasOneInUse) {
  int device = -1;
  EXPECT_EQ(cudaSetDevice(3), cudaSuccess);
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(device, 3);
  std::thread([] {
    int other = -1;
    EXPECT_EQ(cudaGetDevice(&other), cudaSuccess);
    EXPECT_EQ(other, 0);
  }).join();
  EXPECT_EQ(cudaSetDevice(8), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaSetDevice(-1), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  cudaGetLastError();
}

TEST(CudaDevices, SayThatTheyAreACpu) {
  cudaDeviceProp all{};
  EXPECT_EQ(cudaGetDeviceProperties(&all, 1), cudaSuccess);
  EXPECT_STREQ(all.name, "peal simt: a CPU");
  EXPECT_EQ(all.warpSize, 32);
  EXPECT_GE(all.multiProcessorCount, 1);
  EXPECT_GT(all.totalGlobalMem, 0u);
  EXPECT_EQ(cudaGetDeviceProperties(&all, 8), cudaErrorInvalidDevice);
  int value = 0;
  EXPECT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrMaxThreadsPerBlock, 0), cudaSuccess);
  EXPECT_EQ(value, 1024);
  EXPECT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0),
            cudaSuccess);
  EXPECT_EQ(value, 227 * 1024);
  EXPECT_EQ(cudaDeviceGetAttribute(&value, static_cast<cudaDeviceAttr>(9999), 0),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 8), cudaErrorInvalidDevice);
  cudaGetLastError();
}

TEST(CudaDevices, ReachEachOther) {
  int can = 0;
  EXPECT_EQ(cudaDeviceCanAccessPeer(&can, 0, 1), cudaSuccess);
  EXPECT_EQ(can, 1);
  EXPECT_EQ(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaSuccess);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
  EXPECT_EQ(cudaDeviceDisablePeerAccess(1), cudaSuccess);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(0, 0), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 4), cudaErrorInvalidValue);
  EXPECT_EQ(cudaDeviceCanAccessPeer(&can, 0, 8), cudaErrorInvalidDevice);
  cudaGetLastError();
}

TEST(CudaDevices, ShareNoMemoryWithOtherProcesses) {
  cudaIpcMemHandle_t handle{};
  int local = 0;
  EXPECT_EQ(cudaIpcGetMemHandle(&handle, &local), cudaErrorNotSupported);
  EXPECT_EQ(cudaIpcCloseMemHandle(&local), cudaErrorNotSupported);
  cudaGetLastError();
}

TEST(CudaDevices, HaveLimitsAndVersions) {
  size_t stack = 0;
  EXPECT_EQ(cudaDeviceGetLimit(&stack, cudaLimitStackSize), cudaSuccess);
  EXPECT_EQ(cudaDeviceSetLimit(cudaLimitStackSize, 1024), cudaSuccess);  // there is more
  size_t same = 0;
  EXPECT_EQ(cudaDeviceGetLimit(&same, cudaLimitStackSize), cudaSuccess);
  EXPECT_EQ(same, stack);
  EXPECT_EQ(cudaDeviceSetLimit(cudaLimitStackSize, size_t{1} << 40), cudaErrorInvalidValue);
  EXPECT_EQ(cudaDeviceSetLimit(static_cast<cudaLimit>(77), 1), cudaErrorUnsupportedLimit);
  int version = 0, least = 1, greatest = 1;
  EXPECT_EQ(cudaRuntimeGetVersion(&version), cudaSuccess);
  EXPECT_EQ(version, CUDART_VERSION);
  EXPECT_EQ(cudaDriverGetVersion(&version), cudaSuccess);
  EXPECT_EQ(version, CUDA_VERSION) << "of cuda.h";
  EXPECT_EQ(version, 13000) << "which nvcc of a toolkit says";
  EXPECT_EQ(cudaDeviceGetStreamPriorityRange(&least, &greatest), cudaSuccess);
  EXPECT_EQ(least, greatest);
  EXPECT_EQ(cudaSetDeviceFlags(cudaDeviceMapHost), cudaSuccess);
  EXPECT_EQ(cudaSetDeviceFlags(0x100), cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST(CudaErrors, HaveNamesAndSentences) {
  EXPECT_STREQ(cudaGetErrorName(cudaErrorInvalidValue), "cudaErrorInvalidValue");
  EXPECT_STREQ(cudaGetErrorString(cudaSuccess), "no error");
  EXPECT_STREQ(cudaGetErrorName(static_cast<cudaError_t>(4242)), "unrecognized error code");
  EXPECT_EQ(static_cast<int>(cudaErrorLaunchFailure), 719);
  EXPECT_EQ(static_cast<int>(cudaErrorNotReady), 600);
}

TEST(CudaErrors, AreTheThreads) {
  EXPECT_EQ(cudaSetDevice(99), cudaErrorInvalidDevice);
  std::thread([] { EXPECT_EQ(cudaGetLastError(), cudaSuccess); }).join();
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

}  // namespace
