// SPDX-License-Identifier: Apache-2.0
#include "host/storage/cufile.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <utility>

#include "base/library.h"

namespace peal::storage::cufile {
namespace {

constexpr const char* kLibrary = "libcufile.so.0";
constexpr const char* kKernelModule = "/proc/driver/nvidia-fs";

}  // namespace

std::string text(CufileResult result) {
  if (result.code == kCudaError) return fmt::format("CUDA error {}", result.cuda);
  return fmt::format("cuFile error {}", result.code);
}

std::string text(ssize_t answer, int error) {
  if (answer == -1) return std::strerror(error);
  return fmt::format("cuFile error {}", -answer);
}

// Without its kernel module libcufile copies by buffers of its own, as peal does anyway. And from
// the first failure on, of which that is one, it writes cufile.log into the program's folder: only
// CUFILE_LOGFILE_PATH says otherwise, in an environment that is the program's and not peal's
// (cuFileSetParameterString of CUDA 13.0 does not).
LoadedCufile load(const std::string& setting) {
  if (setting == "off") return {nullptr, "as asked"};
  const bool automatic = setting == "auto";
  if (automatic && !std::filesystem::exists(kKernelModule)) {
    return {nullptr, fmt::format("no nvidia-fs in this kernel; PEAL_CUFILE={} uses it all the same",
                                 kLibrary)};
  }
  const std::string path = automatic ? kLibrary : setting;
  void* const found = load_library(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (found == nullptr) return {nullptr, fmt::format("dlopen({}): {}", path, ::dlerror())};
  auto library = std::make_shared<CufileLibrary>();
  LibraryFunctions functions(found);
#define PEAL_CUFILE_RESOLVE(member, symbol, answer, parameters) \
  functions.find(library->member, symbol);
  PEAL_CUFILE_FUNCTIONS(PEAL_CUFILE_RESOLVE)
#undef PEAL_CUFILE_RESOLVE
  if (const char* const missing = functions.missing()) {
    return {nullptr, fmt::format("{} has no function {}", path, missing)};
  }
  const CufileResult opened = library->driver_open();
  if (opened.code != kSuccess && opened.code != kDriverAlreadyOpen) {
    return {nullptr, "cuFileDriverOpen: " + text(opened)};
  }
  return {std::move(library), ""};
}

FileHandle::FileHandle(std::shared_ptr<const CufileLibrary> library, int fd)
    : library_(std::move(library)) {
  Descriptor descriptor = {};
  descriptor.type = kHandleFd;
  descriptor.fd = fd;
  const CufileResult result = library_->register_handle(&handle_, &descriptor);
  if (result.code == kSuccess) return;
  handle_ = nullptr;
  why_not_ = "cuFileHandleRegister: " + text(result);
}

FileHandle::~FileHandle() {
  if (handle_ != nullptr) library_->release_handle(handle_);
}

}  // namespace peal::storage::cufile
