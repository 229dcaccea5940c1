// SPDX-License-Identifier: Apache-2.0
//
// CUDA's errors: those that calls of simt answer, and those that programs ask for by name. Numbers
// are CUDA's.
#pragma once

// clang-format off
#define PEAL_SIMT_CUDA_ERRORS(X)                                                              \
  X(cudaSuccess, 0, "no error")                                                               \
  X(cudaErrorInvalidValue, 1, "invalid argument")                                             \
  X(cudaErrorMemoryAllocation, 2, "out of memory")                                            \
  X(cudaErrorInitializationError, 3, "initialization error")                                  \
  X(cudaErrorInvalidConfiguration, 9, "invalid configuration argument")                       \
  X(cudaErrorInvalidPitchValue, 12, "invalid pitch argument")                                 \
  X(cudaErrorInvalidSymbol, 13, "invalid device symbol")                                      \
  X(cudaErrorInvalidDevicePointer, 17, "invalid device pointer")                              \
  X(cudaErrorInvalidTexture, 18, "invalid texture reference")                                 \
  X(cudaErrorInvalidChannelDescriptor, 20, "invalid channel descriptor")                      \
  X(cudaErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy")                 \
  X(cudaErrorInvalidFilterSetting, 26, "linear filtering not supported for non-float type")   \
  X(cudaErrorInvalidNormSetting, 27, "read as normalized float not supported for 32-bit")     \
  X(cudaErrorInsufficientDriver, 35, "CUDA driver version is insufficient")                   \
  X(cudaErrorMissingConfiguration, 52, "kernel launch without its configuration")             \
  X(cudaErrorInvalidDeviceFunction, 98, "invalid device function")                            \
  X(cudaErrorNoDevice, 100, "no CUDA-capable device is detected")                             \
  X(cudaErrorInvalidDevice, 101, "invalid device ordinal")                                    \
  X(cudaErrorUnsupportedLimit, 215, "limit is not supported on this device")                  \
  X(cudaErrorInvalidResourceHandle, 400, "invalid resource handle")                           \
  X(cudaErrorIllegalState, 401, "the operation cannot be done in the present state")          \
  X(cudaErrorSymbolNotFound, 500, "named symbol not found")                                   \
  X(cudaErrorNotReady, 600, "device not ready")                                               \
  X(cudaErrorIllegalAddress, 700, "an illegal memory access was encountered")                 \
  X(cudaErrorLaunchOutOfResources, 701, "too many resources requested for launch")            \
  X(cudaErrorLaunchTimeout, 702, "the launch timed out and was terminated")                   \
  X(cudaErrorPeerAccessAlreadyEnabled, 704, "peer access is already enabled")                 \
  X(cudaErrorPeerAccessNotEnabled, 705, "peer access has not been enabled")                   \
  X(cudaErrorAssert, 710, "device-side assert triggered")                                     \
  X(cudaErrorHostMemoryAlreadyRegistered, 712, "host memory is already registered")           \
  X(cudaErrorHostMemoryNotRegistered, 713, "host memory is not registered")                   \
  X(cudaErrorIllegalInstruction, 715, "an illegal instruction was encountered")               \
  X(cudaErrorMisalignedAddress, 716, "misaligned address")                                    \
  X(cudaErrorLaunchFailure, 719, "unspecified launch failure")                                \
  X(cudaErrorCooperativeLaunchTooLarge, 720, "too many blocks in cooperative launch")         \
  X(cudaErrorNotPermitted, 800, "operation not permitted")                                    \
  X(cudaErrorNotSupported, 801, "operation not supported")                                    \
  X(cudaErrorStreamCaptureUnsupported, 900, "operation not permitted while a stream captures") \
  X(cudaErrorStreamCaptureInvalidated, 901, "the capture was ended by an earlier error")      \
  X(cudaErrorStreamCaptureMerge, 902, "the operation would merge two captures")               \
  X(cudaErrorStreamCaptureUnmatched, 903, "this stream did not begin the capture")            \
  X(cudaErrorStreamCaptureUnjoined, 904, "the capture has work that did not come back")       \
  X(cudaErrorStreamCaptureIsolation, 905, "captured work depends on work outside")            \
  X(cudaErrorStreamCaptureImplicit, 906, "the operation would depend on captured work")       \
  X(cudaErrorCapturedEvent, 907, "the event was recorded in a capture")                       \
  X(cudaErrorInvalidClusterSize, 912, "cluster misconfiguration")                             \
  X(cudaErrorUnknown, 999, "unknown error")
// clang-format on

#define PEAL_SIMT_ENUMERATOR(NAME, NUMBER, TEXT) NAME = NUMBER,
typedef enum cudaError : unsigned { PEAL_SIMT_CUDA_ERRORS(PEAL_SIMT_ENUMERATOR) } cudaError_t;
#undef PEAL_SIMT_ENUMERATOR

namespace peal::simt::cuda::calls {

/// The error's name, its sentence. Of numbers that are none: "unrecognized error code".
const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);

/// The last error of the calling thread; the first of them forgets it. A kernel that failed stays
/// the last error until cudaDeviceReset().
cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();

}  // namespace peal::simt::cuda::calls
