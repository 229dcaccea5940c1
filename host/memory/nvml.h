// SPDX-License-Identifier: Apache-2.0
//
// What the driver's management library (libnvidia-ml) knows of GPUs and CUDA does not tell: of
// those that CUDA_VISIBLE_DEVICES hides, and which GPUs of other hosts are in the same NVLink
// domain. Found by dlopen; without it both are unknown.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "host/base/cuda_driver.h"

namespace peal {

/// Where in an NVLink fabric of several hosts a GPU is: all GPUs of a clique reach each other.
struct FabricPlace {
  char cluster[16];
  uint32_t clique;
  uint32_t joined;  // 0: in none

  bool reaches(const FabricPlace& other) const;
};

class Nvml {
 public:
  /// Null, and `why` says so, where the library is missing or does not start.
  static std::shared_ptr<const Nvml> open(std::string* why,
                                          const std::string& path = "libnvidia-ml.so.1");

  /// What two GPUs of this host are to each other.
  struct Pair {
    bool known = false;
    bool reads_and_writes = false;
    bool nvlink = false;
    bool atomics = false;
  };
  Pair pair(const cuda::Uuid& from, const cuda::Uuid& to) const;

  FabricPlace place(const cuda::Uuid& gpu) const;

 private:
  struct Library;
  explicit Nvml(std::shared_ptr<const Library> library) : library_(std::move(library)) {}
  std::shared_ptr<const Library> library_;
};

}  // namespace peal
