// SPDX-License-Identifier: Apache-2.0
//
// Kernels that are started by their address and an array of pointers to arguments, as
// cudaLaunchKernel and cudaLaunchCooperativeKernel start them. A function's address says nothing of
// its parameters, so whoever compiles the kernel offers it:
//
//   const OfferedKernel<&kernel> offered;       // a global of the file; &offered_kernel<&kernel>
//                                               // anywhere in it does the same
//   bind_kernel((const void*)kernel, arguments)  // () is the call, with copies of the arguments
#pragma once

#include <functional>
#include <tuple>
#include <utility>

namespace peal::simt {

/// Makes a call of copies of what `arguments` points at.
using BindKernel = std::function<void()> (*)(void* const* arguments);

/// Once for an address; again is no error.
void offer_kernel(const void* kernel, BindKernel bind);

/// Throws Error where the kernel was not offered.
std::function<void()> bind_kernel(const void* kernel, void* const* arguments);

template <auto kKernel>
class OfferedKernel;

template <class... Parameters, void (*kKernel)(Parameters...)>
class OfferedKernel<kKernel> {
 public:
  OfferedKernel() { offer_kernel(reinterpret_cast<const void*>(kKernel), bind); }

 private:
  static std::function<void()> bind(void* const* arguments) {
    return copy(arguments, std::index_sequence_for<Parameters...>{});
  }
  template <size_t... kAt>
  static std::function<void()> copy([[maybe_unused]] void* const* arguments,
                                    std::index_sequence<kAt...>) {
    return [copies = std::tuple<Parameters...>(*static_cast<Parameters*>(arguments[kAt])...)] {
      std::apply(kKernel, copies);
    };
  }
};

template <auto kKernel>
inline const OfferedKernel<kKernel> offered_kernel;

}  // namespace peal::simt
