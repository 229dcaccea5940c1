// SPDX-License-Identifier: Apache-2.0
//
// CUDA's driver, where this process has loaded it: no toolkit is needed to build what uses it, the
// few declarations are written out.
#pragma once

#include <dlfcn.h>

namespace peal::softnic::gpu {

// The driver's types and numbers, as its manual has them.
using DriverResult = int;
using DevicePointer = unsigned long long;
constexpr DriverResult kSuccess = 0;

inline DevicePointer device_pointer(const void* address) {
  return reinterpret_cast<DevicePointer>(address);
}

/// The driver's library, where this process has loaded it, and its functions.
class Library {
 public:
  /// A function of whatever type is asked for; null where there is none.
  struct Symbol {
    void* address;
    template <class F>
    operator F*() const {
      return reinterpret_cast<F*>(address);
    }
  };
  Symbol operator[](const char* name) {
    void* const found = handle_ == nullptr ? nullptr : dlsym(handle_, name);
    complete_ = complete_ && found != nullptr;
    return {found};
  }
  bool complete() const { return complete_; }

 private:
  void* handle_ = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  bool complete_ = true;
};

}  // namespace peal::softnic::gpu
