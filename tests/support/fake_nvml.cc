// SPDX-License-Identifier: Apache-2.0
//
// Its layouts and numbers are written down once more, after nvidia-ml-py.
#include "tests/support/fake_nvml.h"

#include <cstdlib>
#include <cstring>

namespace {

FakeNvml state;
constexpr int kInvalidArgument = 2;
constexpr int kNotFound = 6;
constexpr int kP2pStatusNotSupported = 5;

bool can(int capability) {
  switch (capability) {
    case 0:  // read
    case 1:  // write
      return state.peer_access;
    case 2:
      return state.nvlink;
    case 3:
      return state.atomics;
    default:
      return false;
  }
}

}  // namespace

extern "C" {

FakeNvml* fake_nvml() { return &state; }

int nvmlInit_v2() {
  if (state.refuse_start == 0) ++state.live;
  return state.refuse_start;
}
int nvmlShutdown() {
  --state.live;
  return 0;
}
// "GPU-00000000-0000-0000-0000-000000000002"
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  if (std::strlen(uuid) != 40 || std::strncmp(uuid, "GPU-", 4) != 0) return kInvalidArgument;
  const long number = std::strtol(uuid + 28, nullptr, 16);
  if (number < 1 || number > state.gpus) return kNotFound;
  *device = reinterpret_cast<void*>(number);
  return 0;
}
int nvmlDeviceGetP2PStatus(void*, void*, int capability, int* status) {
  *status = can(capability) ? 0 : kP2pStatusNotSupported;
  return 0;
}
int nvmlDeviceGetGpuFabricInfo(void*, void* info) {
  char* const bytes = static_cast<char*>(info);
  std::memset(bytes, 0, 28);
  std::memset(bytes, state.cluster, 16);
  std::memcpy(bytes + 20, &state.clique, sizeof(state.clique));
  bytes[24] = state.cluster == 0 ? 0 : 3;
  return 0;
}

}  // extern "C"
