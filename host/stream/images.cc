// SPDX-License-Identifier: Apache-2.0
#include "host/stream/images.h"

#include <dlfcn.h>

#include <array>
#include <filesystem>

#include "base/files.h"
#include "base/library.h"
#include "host/base/error.h"
#include "kernels/table.h"

namespace peal {
namespace {

constexpr int kParents = 5;
constexpr std::array kFiles = {"kernels/libpeal_kernels.so", "libpeal_kernels.so"};

std::string find_file() {
  const std::filesystem::path start = search_start();
  const std::filesystem::path found = find_above(start, kParents, kFiles);
  if (!found.empty()) return found;
  fail(ErrorCode::kUnsupported,
       "calls on streams and from the host need kernels: no {} in {} or up to {} folders above: "
       "an installation has it in peal/ beside libpeal.so, where tools/install puts it (peal's "
       "workspace builds //kernels:libpeal_kernels.so); or set PEAL_KERNELS",
       kFiles[0], start.string(), kParents);
}

}  // namespace

const void* kernel_image(const std::string& path, std::string_view name) {
  const std::string file = path.empty() ? find_file() : path;
  void* const library = load_library(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    fail(ErrorCode::kUnsupported, "PEAL_KERNELS: dlopen({}): {}", file, ::dlerror());
  }
  using Images = const kernels::Image* (*)(size_t*);
  const auto images = reinterpret_cast<Images>(::dlsym(library, "peal_kernel_images"));
  if (images == nullptr) {
    fail(ErrorCode::kUnsupported, "PEAL_KERNELS: {} is not peal's: it has no peal_kernel_images",
         file);
  }
  size_t count = 0;
  const kernels::Image* const all = images(&count);
  for (size_t i = 0; i < count; ++i) {
    if (all[i].name == name) return all[i].begin;
  }
  fail(
      ErrorCode::kUnsupported,
      "{} has no kernels for GPUs, which calls on streams and from the host launch: build it where "
      "nvcc is",
      file);
}

}  // namespace peal
