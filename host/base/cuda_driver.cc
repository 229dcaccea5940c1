// SPDX-License-Identifier: Apache-2.0
#include "host/base/cuda_driver.h"

#include <dlfcn.h>

#include "base/library.h"
#include "host/base/error.h"

namespace peal::cuda {

std::string Driver::text(Result error) const {
  const char* name = nullptr;
  const char* description = nullptr;
  if (error_name(error, &name) != kSuccess || error_string(error, &description) != kSuccess) {
    return fmt::format("CUDA error {}", error);
  }
  return fmt::format("{} ({})", description, name);
}

Loaded load_driver(const std::string& path) {
  void* const library = load_library(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return {nullptr, fmt::format("dlopen({}): {}", path, ::dlerror())};
  auto driver = std::make_shared<Driver>();
  LibraryFunctions functions(library);
#define PEAL_CUDA_RESOLVE(member, symbol, parameters) functions.find(driver->member, symbol);
  PEAL_CUDA_FUNCTIONS(PEAL_CUDA_RESOLVE)
  const char* const required = functions.missing();
  PEAL_CUDA_VIRTUAL_MEMORY_FUNCTIONS(PEAL_CUDA_RESOLVE)
  driver->virtual_memory = functions.missing() == nullptr;
  PEAL_CUDA_POOL_FUNCTIONS(PEAL_CUDA_RESOLVE)
  driver->pools = functions.missing() == nullptr;
  PEAL_CUDA_OPTIONAL_FUNCTIONS(PEAL_CUDA_RESOLVE)
#undef PEAL_CUDA_RESOLVE
  if (required) {
    return {nullptr, fmt::format("{} has no function {}: its driver is too old", path, required)};
  }
  const Result result = driver->init(0);
  if (result != kSuccess) return {nullptr, "cuInit: " + driver->text(result)};
  return {std::move(driver), ""};
}

}  // namespace peal::cuda
