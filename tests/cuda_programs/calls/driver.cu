// SPDX-License-Identifier: Apache-2.0
//
// The driver API: a program that knows it and no other, but for how it comes by a kernel.
#include <cuda.h>
#include <string.h>

#include "tests/cuda_programs/check.h"

#define DRIVER(call)                                              \
  do {                                                            \
    const CUresult result_of_call = (call);                       \
    const char* text = "";                                        \
    if (result_of_call != CUDA_SUCCESS) {                         \
      cuGetErrorString(result_of_call, &text);                    \
      printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, text); \
      exit(1);                                                    \
    }                                                             \
  } while (0)

__global__ void scale(float* data, float by, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] *= by;
}

void ask(CUdevice device) {
  int version = 0, count = 0, major = 0, threads = 0;
  char name[100];
  size_t bytes = 0;
  DRIVER(cuDriverGetVersion(&version));
  DRIVER(cuDeviceGetCount(&count));
  DRIVER(cuDeviceGetName(name, sizeof name, device));
  DRIVER(cuDeviceTotalMem(&bytes, device));
  DRIVER(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
  DRIVER(cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, device));
  EXPECT(version >= 12000 && count > 0 && strlen(name) > 0 && bytes > 0 && threads == 1024);
  EXPECT(major >= 5);
  CUdevice none;
  EXPECT(cuDeviceGet(&none, 1000) == CUDA_ERROR_INVALID_DEVICE);
  const char* text = nullptr;
  DRIVER(cuGetErrorName(CUDA_ERROR_INVALID_DEVICE, &text));
  EXPECT(strcmp(text, "CUDA_ERROR_INVALID_DEVICE") == 0);
  DRIVER(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
  EXPECT(strcmp(text, "out of memory") == 0);
  EXPECT(cuGetErrorName((CUresult)12345, &text) == CUDA_ERROR_INVALID_VALUE);
}

void run(CUfunction kernel) {
  constexpr int kCount = 1000;
  float host[kCount];
  for (int i = 0; i < kCount; ++i) host[i] = (float)i;
  CUdeviceptr data, start;
  size_t bytes = 0;
  CUstream stream;
  CUevent begin, end;
  DRIVER(cuMemAlloc(&data, sizeof host));
  DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  DRIVER(cuEventCreate(&begin, CU_EVENT_DEFAULT));
  DRIVER(cuEventCreate(&end, CU_EVENT_DEFAULT));
  DRIVER(cuMemcpyHtoDAsync(data, host, sizeof host, stream));
  DRIVER(cuEventRecord(begin, stream));
  float by = 3;
  int n = kCount;
  void* arguments[] = {&data, &by, &n};
  DRIVER(cuLaunchKernel(kernel, 4, 1, 1, 256, 1, 1, 0, stream, arguments, nullptr));
  DRIVER(cuEventRecord(end, stream));
  DRIVER(cuMemcpyDtoHAsync(host, data, sizeof host, stream));
  DRIVER(cuStreamSynchronize(stream));
  for (int i = 0; i < kCount; ++i) EXPECT(host[i] == 3 * i);
  float milliseconds = -1;
  DRIVER(cuEventElapsedTime(&milliseconds, begin, end));
  EXPECT(milliseconds >= 0 && cuEventQuery(end) == CUDA_SUCCESS);

  DRIVER(cuMemGetAddressRange(&start, &bytes, data + 40));
  EXPECT(start == data && bytes == sizeof host);
  CUmemorytype type;
  DRIVER(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, data));
  EXPECT(type == CU_MEMORYTYPE_DEVICE);
  DRIVER(cuMemsetD32(data, 0x40000000, 10));
  DRIVER(cuMemsetD8(data + 40, 0, 8));
  DRIVER(cuMemcpyDtoH(host, data, 60));
  EXPECT(host[9] == 2 && host[10] == 0 && host[12] == 36);
  EXPECT(cuLaunchKernel(kernel, 0, 1, 1, 256, 1, 1, 0, stream, arguments, nullptr) ==
         CUDA_ERROR_INVALID_VALUE);
  EXPECT(cuMemFree(data + 4) == CUDA_ERROR_INVALID_VALUE);
  DRIVER(cuMemFree(data));
  DRIVER(cuEventDestroy(begin));
  DRIVER(cuEventDestroy(end));
  DRIVER(cuStreamDestroy(stream));
}

int main() {
  DRIVER(cuInit(0));
  CUdevice device, current_device;
  CUcontext context, current, primary;
  DRIVER(cuDeviceGet(&device, 0));
  ask(device);
  DRIVER(cuDevicePrimaryCtxRetain(&primary, device));
  DRIVER(cuCtxSetCurrent(primary));
  DRIVER(cuCtxGetCurrent(&current));
  EXPECT(current == primary);
  CUfunction kernel;
  CHECK(cudaGetFuncBySymbol(&kernel, (const void*)scale));
  int threads = 0;
  DRIVER(cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel));
  EXPECT(threads == 1024);
  run(kernel);
#ifdef __PEAL_CC__  // CUDA 13 creates contexts by other parameters
  DRIVER(cuCtxCreate(&context, 0, device));
  DRIVER(cuCtxGetCurrent(&current));
  EXPECT(current == context);
  DRIVER(cuCtxGetDevice(&current_device));
  EXPECT(current_device == device);
  run(kernel);
  DRIVER(cuCtxPopCurrent(&current));
  EXPECT(current == context);
  DRIVER(cuCtxPushCurrent(context));
  DRIVER(cuCtxDestroy(context));
  EXPECT(cuCtxSetCurrent(context) == CUDA_ERROR_INVALID_CONTEXT);
  EXPECT(cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr) ==
         CUDA_ERROR_INVALID_HANDLE);
#else
  context = primary;
  DRIVER(cuCtxGetDevice(&current_device));
#endif
  DRIVER(cuCtxSynchronize());
  DRIVER(cuDevicePrimaryCtxRelease(device));
  cudaGetLastError();
  return verdict("driver");
}
