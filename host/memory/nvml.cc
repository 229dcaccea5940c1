// SPDX-License-Identifier: Apache-2.0
//
// Declarations are written out after NVIDIA's nvidia-ml-py: names, numbers, layouts.
#include "host/memory/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>

#include "base/library.h"
#include "host/base/error.h"

namespace peal {
namespace {

using NvmlDevice = void*;
constexpr int kSuccess = 0;
enum P2pCapability : int { kRead = 0, kWrite = 1, kNvlink = 2, kAtomics = 3 };
constexpr int kStatusOk = 0;          // NVML_P2P_STATUS_OK
constexpr unsigned char kJoined = 3;  // NVML_GPU_FABRIC_STATE_COMPLETED

// nvmlGpuFabricInfo_t
struct FabricInfo {
  char cluster[16];
  int status;
  uint32_t clique;
  unsigned char state;
  unsigned char padding[3];
};

std::string text_of(const cuda::Uuid& gpu) {
  std::string text = "GPU";
  for (size_t i = 0; i < sizeof(gpu.bytes); ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(gpu.bytes[i]));
  }
  return text;
}

}  // namespace

bool FabricPlace::reaches(const FabricPlace& other) const {
  return joined != 0 && other.joined != 0 && clique == other.clique &&
         std::memcmp(cluster, other.cluster, sizeof(cluster)) == 0;
}

struct Nvml::Library {
  int (*start)() = nullptr;
  int (*stop)() = nullptr;
  int (*find)(const char*, NvmlDevice*) = nullptr;
  int (*p2p_status)(NvmlDevice, NvmlDevice, int, int*) = nullptr;
  int (*fabric_info)(NvmlDevice, FabricInfo*) = nullptr;  // null in drivers before 535
  bool started = false;

  Library() = default;
  ~Library() {
    if (started) stop();
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  NvmlDevice device(const cuda::Uuid& gpu) const {
    NvmlDevice found = nullptr;
    return find(text_of(gpu).c_str(), &found) == kSuccess ? found : nullptr;
  }
};

std::shared_ptr<const Nvml> Nvml::open(std::string* why, const std::string& path) {
  void* const handle = load_library(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    *why = fmt::format("dlopen({}): {}", path, ::dlerror());
    return nullptr;
  }
  auto library = std::make_shared<Library>();
  LibraryFunctions functions(handle);
  functions.find(library->start, "nvmlInit_v2");
  functions.find(library->stop, "nvmlShutdown");
  functions.find(library->find, "nvmlDeviceGetHandleByUUID");
  functions.find(library->p2p_status, "nvmlDeviceGetP2PStatus");
  if (functions.missing() != nullptr) {
    *why = path + " lacks functions: its driver is too old";
    return nullptr;
  }
  functions.find(library->fabric_info, "nvmlDeviceGetGpuFabricInfo");
  if (const int result = library->start(); result != kSuccess) {
    *why = fmt::format("nvmlInit: error {}", result);
    return nullptr;
  }
  library->started = true;
  return std::make_shared<const Nvml>(Nvml(std::move(library)));
}

Nvml::Pair Nvml::pair(const cuda::Uuid& from, const cuda::Uuid& to) const {
  const NvmlDevice here = library_->device(from);
  const NvmlDevice there = library_->device(to);
  if (here == nullptr || there == nullptr) return {};
  const auto can = [&](P2pCapability what) {
    int status = -1;
    return library_->p2p_status(here, there, what, &status) == kSuccess && status == kStatusOk;
  };
  return {true, can(kRead) && can(kWrite), can(kNvlink), can(kAtomics)};
}

FabricPlace Nvml::place(const cuda::Uuid& gpu) const {
  FabricPlace place{};
  const NvmlDevice device = library_->device(gpu);
  if (device == nullptr || library_->fabric_info == nullptr) return place;
  FabricInfo info{};
  if (library_->fabric_info(device, &info) != kSuccess || info.state != kJoined) return place;
  // Without an id a GPU is in no fabric of several hosts, whatever its state.
  if (std::ranges::all_of(info.cluster, [](char byte) { return byte == 0; })) return place;
  std::memcpy(place.cluster, info.cluster, sizeof(place.cluster));
  place.clique = info.clique;
  place.joined = 1;
  return place;
}

}  // namespace peal
