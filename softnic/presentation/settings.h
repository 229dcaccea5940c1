// SPDX-License-Identifier: Apache-2.0
//
// The environment variables of the software NIC; settings.cc is their only reader.
//
//   PEAL_SOFTNIC_FABRIC         NICs see each other when they name the same fabric    (default)
//   PEAL_SOFTNIC_DIR            where the files of the fabric live                    (/dev/shm)
//   PEAL_SOFTNIC_TIMEOUT_SCALE  factor on every transport retry time, 0.001 .. 1000   (1)
//   PEAL_SOFTNIC_DOORBELL       value or record: which of the two counts               (value)
//   PEAL_SOFTNIC_ENGINE         cpu, gpu, or auto: gpu when the first memory is a GPU's (auto)
//   PEAL_SOFTNIC_GPU            number of the GPU that runs the NIC           (not the kernels')
//   PEAL_SOFTNIC_ENGINE_PROGRAM the GPU engine's program                   (beside the library)
//   PEAL_SOFTNIC_FAULTS         a fault plan, or the absolute path of a file with one   (none)
//   PEAL_SOFTNIC_PRESENT        as which hardware, or an absolute path         (one InfiniBand NIC)
//   PEAL_SOFTNIC_PLACEMENT      WRITEs of a queue pair: ordered, any or any:SEED          (ordered)
//   PEAL_SOFTNIC_UDP            addresses to reach others by, one for each NIC              (none)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/internet.h"
#include "softnic/engine/fault_plan.h"
#include "softnic/engine/objects.h"
#include "softnic/presentation/present.h"

namespace peal::softnic {

enum class EngineChoice { kAuto, kCpu, kGpu };

struct Settings {
  std::string fabric = "default";
  std::string directory = "/dev/shm";
  Timing timing;
  bool doorbell_by_value = true;  // of an engine on the CPU
  EngineChoice engine = EngineChoice::kAuto;
  std::optional<int> gpu;
  std::string engine_program;  // empty: beside the library
  std::optional<FaultPlan> faults;
  Presentation present;  // the devices, in order
  /// Seed by which WRITEs are placed out of order; nothing: they are placed as they arrive.
  std::optional<uint64_t> placement;
  /// RoCE v2 over UDP: a NIC takes the first whose port is free. Nothing: none does.
  /// Addresses of IPv6, or of IPv4 as ::ffff:a.b.c.d.
  std::vector<InternetAddress> udp;

  /// Reads the environment. Throws std::invalid_argument naming the variable, its value and what
  /// it may be.
  static Settings from_environment();
  /// The part of it that says which devices there are.
  static Presentation presentation_from_environment();
};

}  // namespace peal::softnic
