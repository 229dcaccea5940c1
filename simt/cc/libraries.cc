// SPDX-License-Identifier: Apache-2.0
#include "simt/cc/libraries.h"

#include <array>
#include <filesystem>
#include <string_view>

namespace peal::cc {
namespace {

namespace fs = std::filesystem;

bool exists_in(const std::string& folder, const char* file) {
  std::error_code none;
  return fs::exists(fs::path(folder) / file, none);
}

bool has(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

bool is_of_cub(std::string_view file) {
  if (has(file, "simt/runtime/cuda/cub/")) return false;  // peal's own, by CUB's names
  return has(file, "/cub/block/") || has(file, "/cub/warp/") || has(file, "/cub/device/");
}

// What each header of a toolkit reads, and none of peal's is called.
bool is_of_toolkit(std::string_view file) { return file.ends_with("/crt/host_defines.h"); }

}  // namespace

bool has_cccl(const std::string& folder) { return exists_in(folder, "cuda/std/version"); }

bool has_cuda(const std::string& folder) {
  return exists_in(folder, "crt/host_config.h") ||
         exists_in(folder, "device_host/nvshmem_types.h") ||
         exists_in(folder, "non_abi/nvshmem_build_options.h");
}

std::string objection_to(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    if (is_of_cub(file)) {
      return file +
             " is read: CUB is written for GPUs alone. peal has a part of it, which is read where "
             "no "
             "-I names CCCL; Thrust has more algorithms";
    }
    if (!is_of_toolkit(file)) continue;
    const std::string folder = fs::path(file).parent_path().parent_path().string();
    for (const std::string& first : files) {
      if (first.starts_with(folder + "/") && !has(first, "/crt/")) {
        return first +
               " is read: a header of a CUDA toolkit that peal does not have, and what it brings "
               "contradicts peal's. Put it behind #ifndef __PEAL_CC__";
      }
    }
  }
  return "";
}

std::string missing_for(const std::string& source) {
  static constexpr std::array<std::string_view, 8> kLibraries = {
      "thrust/",         "cuda/std/", "cuda/barrier", "cuda/pipeline",
      "cuda/functional", "cuda/ptx",  "cuda/latch",   "cuda/semaphore"};
  if (has(source, "#include <cub/")) {
    return "<cub/...>: of CUB, which is written for GPUs, peal has cub/cub.cuh with the parts that "
           "docs/cuda_coverage.md names";
  }
  for (const std::string_view library : kLibraries) {
    if (!has(source, "#include <" + std::string(library))) continue;
    return "<" + std::string(library) +
           "...> is of CUDA's C++ libraries, CCCL: give their folder by -I, that of a toolkit "
           "(.../cuda/include/cccl) or of PyPI's nvidia-cuda-cccl";
  }
  return "";
}

}  // namespace peal::cc
