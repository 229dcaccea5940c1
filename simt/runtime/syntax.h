// SPDX-License-Identifier: Apache-2.0
//
// What CUDA's own syntax becomes when peal-cc rewrites it (simt/cc/rewrite.h). A kernel is one
// function for both sides, as with nvcc: called by the host it starts a grid of itself, called by a
// lane it is the kernel.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>

#include "simt/lanes/dim3.h"
#include "simt/lanes/kernels.h"
#include "simt/lanes/lane.h"
#include "simt/runtime/types.h"

namespace peal::simt::cuda {

/// <<<blocks, threads, shared_bytes, stream>>>: of the first kernel that this thread calls while
/// the object lives.
class Configured {
 public:
  Configured(const Dim3& blocks, const Dim3& threads, size_t shared_bytes = 0,
             cudaStream_t stream = nullptr);
  /// Says so on standard error when no kernel was called; cudaErrorInvalidDeviceFunction then.
  ~Configured();
  Configured(const Configured&) = delete;
  Configured& operator=(const Configured&) = delete;

 private:
  friend void start_configured(const char* kernel, const void* code, std::function<void()> body);

  Dim3 blocks_;
  Dim3 threads_;
  size_t shared_bytes_;
  cudaStream_t stream_;
  Configured* outer_;
  bool taken_ = false;
};

/// Gives a grid of `body` to the stream of this thread's innermost Configured that is not taken.
/// Throws Error where there is none. A grid that cannot run is an error of CUDA's, as there.
/// `code` is the kernel's address, for messages of others; null where it is not known.
void start_configured(const char* kernel, const void* code, std::function<void()> body);

template <auto kKernel>
const void* code_of(const OfferedKernel<kKernel>*) {
  return reinterpret_cast<const void*>(kKernel);
}
inline const void* code_of(std::nullptr_t) { return nullptr; }

/// The body of a kernel, with copies of its parameters: each lane has its own.
template <class Offered, class Body>
void enter(const char* kernel, Offered offered, Body body) {
  if (in_kernel()) return body();
  start_configured(kernel, code_of(offered), [body = std::move(body)] {
    Body own(body);
    own();
  });
}

/// The block's one T of that name: each __shared__ declaration has a type of its own.
template <class T>
T& shared() {
  static char key;
  return *static_cast<T*>(block_shared(&key, sizeof(T), alignof(T)));
}

}  // namespace peal::simt::cuda
