// SPDX-License-Identifier: Apache-2.0
//
// From the clock, /proc/cpuinfo and CUDA's driver.
#include "perf/common/provenance.h"

#include <fmt/chrono.h>

#include <chrono>
#include <fstream>

#include "base/host_name.h"
#include "host/memory/gpu.h"

namespace peal::perf {

std::string cpu_model(std::istream& cpuinfo) {
  for (std::string line; std::getline(cpuinfo, line);) {
    const size_t colon = line.find(':');
    if (colon == line.npos) continue;
    const std::string name = line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1);
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    if (begin == line.npos) continue;
    if (name == "model name" || name == "Processor" || name == "cpu") return line.substr(begin);
  }
  return "";
}

Provenance provenance_of_run(bool on_gpu, int device) {
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  const std::string host = host_name();
  std::ifstream cpuinfo("/proc/cpuinfo");
  return {.date = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", now),
          .version = PEAL_VERSION,
          .host = host.empty() ? "unknown" : host,
          .cpu = cpu_model(cpuinfo),
          .gpu = on_gpu ? Gpu::open(device, 0)->name() : ""};
}

}  // namespace peal::perf
