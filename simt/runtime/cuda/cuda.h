// SPDX-License-Identifier: Apache-2.0
//
// Included by CUDA programs under this name: the driver API. Calls that need a GPU's machine code
// or page tables do not compile, and the message says so.
#pragma once

#include <cstddef>

#include "simt/runtime/cuda_runtime.h"
#include "simt/runtime/driver.h"

#define CUDA_VERSION CUDART_VERSION
#define CUDAAPI
#define CUDA_CB

#define CU_STREAM_LEGACY cudaStreamLegacy
#define CU_STREAM_PER_THREAD cudaStreamPerThread

namespace peal::simt::cuda {

/// False, but not before somebody asks.
template <class... Asked>
inline constexpr bool kHasDriver = sizeof...(Asked) == ~size_t{0};

}  // namespace peal::simt::cuda

#define PEAL_NO_DRIVER(name, remedy)                                                       \
  template <class... Arguments>                                                            \
  CUresult name(Arguments&&...) {                                                          \
    static_assert(::peal::simt::cuda::kHasDriver<Arguments...>,                            \
                  #name ": kernels on a CPU have no such call of CUDA's driver. " remedy); \
    return CUDA_ERROR_NOT_SUPPORTED;                                                       \
  }

#define PEAL_NO_MODULE(name)                                                                   \
  PEAL_NO_DRIVER(name,                                                                         \
                 "They are part of the program: cudaGetFuncBySymbol() answers the CUfunction " \
                 "of a kernel.")
PEAL_NO_MODULE(cuModuleLoad)
PEAL_NO_MODULE(cuModuleLoadData)
PEAL_NO_MODULE(cuModuleLoadDataEx)
PEAL_NO_MODULE(cuModuleLoadFatBinary)
PEAL_NO_MODULE(cuModuleUnload)
PEAL_NO_MODULE(cuModuleGetFunction)
PEAL_NO_MODULE(cuModuleGetGlobal)
PEAL_NO_MODULE(cuLibraryLoadData)
PEAL_NO_MODULE(cuLibraryGetKernel)
PEAL_NO_MODULE(cuLinkCreate)
#undef PEAL_NO_MODULE

#define PEAL_NO_MAPPING(name) PEAL_NO_DRIVER(name, "cuMemAlloc() and cudaMalloc() give memory.")
PEAL_NO_MAPPING(cuMemCreate)
PEAL_NO_MAPPING(cuMemRelease)
PEAL_NO_MAPPING(cuMemAddressReserve)
PEAL_NO_MAPPING(cuMemAddressFree)
PEAL_NO_MAPPING(cuMemMap)
PEAL_NO_MAPPING(cuMemUnmap)
PEAL_NO_MAPPING(cuMemSetAccess)
PEAL_NO_MAPPING(cuMemGetAllocationGranularity)
PEAL_NO_MAPPING(cuMemExportToShareableHandle)
PEAL_NO_MAPPING(cuMemImportFromShareableHandle)
PEAL_NO_MAPPING(cuPointerSetAttribute)
#undef PEAL_NO_MAPPING

#define PEAL_NO_WAIT(name) \
  PEAL_NO_DRIVER(name, "A kernel, or peal's calls on a stream, wait for a word and write it.")
PEAL_NO_WAIT(cuStreamWaitValue32)
PEAL_NO_WAIT(cuStreamWaitValue64)
PEAL_NO_WAIT(cuStreamWriteValue32)
PEAL_NO_WAIT(cuStreamWriteValue64)
PEAL_NO_WAIT(cuStreamBatchMemOp)
#undef PEAL_NO_WAIT

PEAL_NO_DRIVER(cuGetProcAddress, "Call the function by its name.")
PEAL_NO_DRIVER(cuTensorMapEncodeTiled, "A CPU has no tensor memory accelerator.")

#undef PEAL_NO_DRIVER
