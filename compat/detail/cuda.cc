// SPDX-License-Identifier: Apache-2.0
#include "compat/detail/cuda.h"

#include <dlfcn.h>

#include "host/base/error.h"

namespace peal::compat {
namespace {

// A function of the driver, if this process has loaded it.
template <class Function>
Function* driver_function(const char* name) {
  void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return driver == nullptr ? nullptr : reinterpret_cast<Function*>(::dlsym(driver, name));
}

// `finder` is the driver's function that answers where an object of `code` lies.
template <class Code>
void fill(const char* finder, Code* code, const char* name, const void* from, size_t bytes) {
  using Address = unsigned long long;
  auto* const find = driver_function<int(Address*, size_t*, Code*, const char*)>(finder);
  auto* const copy = driver_function<int(Address, const void*, size_t)>("cuMemcpyHtoD_v2");
  if (find == nullptr || copy == nullptr) {
    fail(ErrorCode::kUnsupported, "no CUDA driver is in use by this process");
  }
  Address object = 0;
  size_t found = 0;
  if (const int error = find(&object, &found, code, name); error != 0 || found != bytes) {
    fail(ErrorCode::kInvalidArgument,
         "its code has no {} of {} bytes (CUDA error {}): compile it against peal's nvshmem.h of "
         "this version, without -rdc",
         name, bytes, error);
  }
  if (const int error = copy(object, from, bytes); error != 0) {
    fail(ErrorCode::kSystem, "cuMemcpyHtoD: CUDA error {}", error);
  }
}

}  // namespace

int gpu_in_use() {
  auto* const device_of_thread = driver_function<int(int*)>("cuCtxGetDevice");
  int device = -1;
  const bool known = device_of_thread != nullptr && device_of_thread(&device) == 0;
  return known ? device : -1;
}

void fill_object(CUmod_st* module, const char* name, const void* from, size_t bytes) {
  fill("cuModuleGetGlobal_v2", module, name, from, bytes);
}

void fill_object(CUlib_st* library, const char* name, const void* from, size_t bytes) {
  fill("cuLibraryGetGlobal", library, name, from, bytes);
}

}  // namespace peal::compat
