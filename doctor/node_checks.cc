// SPDX-License-Identifier: Apache-2.0
//
// Limits, settings, launcher; and all checks in their order.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <sstream>

#include "doctor/checks.h"
#include "host/base/error.h"

namespace peal::doctor {
namespace {

namespace fs = std::filesystem;

uint64_t heap_bytes(const Machine& machine) {
  try {
    return settings(machine).heap_size;
  } catch (const Error&) {  // check_settings says so
    return Config::defaults().heap_size;
  }
}

// Folders of a variable such as PATH, below the machine's root and without the first slash.
std::vector<std::string> folders_of(const std::string& list) {
  std::vector<std::string> folders;
  std::istringstream parts(list);
  for (std::string part; std::getline(parts, part, ':');) {
    const std::string relative = fs::path(part).relative_path().string();
    if (!relative.empty()) folders.push_back(relative);
  }
  return folders;
}

// The first of `folders` that holds `file`; empty: none.
std::string holding(const Machine& machine, const std::vector<std::string>& folders,
                    const char* file) {
  const auto found = std::ranges::find_if(
      folders, [&](const std::string& folder) { return machine.exists(folder + "/" + file); });
  return found == folders.end() ? "" : *found;
}

}  // namespace

Findings check_settings(const Machine& machine) {
  try {
    const Config config = settings(machine);
    allowed_nics(machine);
    const std::string found = config.given.empty()
                                  ? "all defaults"
                                  : fmt::format("{} set by the environment", config.given.size());
    return {{"settings", "", Level::kOk, found}};
  } catch (const Error& error) {
    return {{"settings", "", Level::kFail, error.what(),
             "correct or unset the variable; docs/settings.md lists all"}};
  }
}

Findings check_memlock(const Machine& machine) {
  constexpr const char* kRemedy =
      "ulimit -l unlimited; for good a file in /etc/security/limits.d: * - memlock unlimited; in a "
      "container --ulimit memlock=-1 or --cap-add=IPC_LOCK";
  const std::string limit = machine.memlock_bytes == kUnlimited
                                ? "unlimited"
                                : format_size(machine.memlock_bytes / 1024 * 1024);
  if (connectx(machine).empty()) {
    return {{"memlock", "", Level::kSkip, limit + "; no ConnectX that pins memory"}};
  }
  if (machine.has(Capability::kIpcLock)) {
    return {{"memlock", "", Level::kOk, limit + "; this process may exceed it"}};
  }
  const uint64_t heap = heap_bytes(machine);
  if (machine.memlock_bytes < heap) {
    return {{"memlock", "", Level::kFail,
             fmt::format("{}, less than a heap of {}", limit, format_size(heap)), kRemedy}};
  }
  if (machine.memlock_bytes != kUnlimited) {
    return {{"memlock", "", Level::kWarn, limit + ": counts for all windows of a PE together",
             kRemedy}};
  }
  return {{"memlock", "", Level::kOk, limit}};
}

Findings check_mpi(const Machine& machine) {
  const std::string programs = holding(machine, folders_of(machine.variable("PATH")), "mpirun");
  if (programs.empty()) {
    return {{"mpi", "", Level::kWarn, "no mpirun in PATH",
             "sudo apt-get install openmpi-bin libopenmpi-dev; or start PEs without MPI by "
             "peal-run"}};
  }
  std::vector<std::string> libraries = folders_of(machine.variable("LD_LIBRARY_PATH"));
  for (const char* folder : {"usr/lib/x86_64-linux-gnu", "usr/lib64", "usr/lib"}) {
    libraries.push_back(folder);
  }
  for (const char* folder : {"lib", "lib64"}) {
    libraries.push_back((fs::path(programs).parent_path() / folder).string());
  }
  if (holding(machine, libraries, "libmpi.so.40").empty()) {
    return {{"mpi", "", Level::kWarn,
             fmt::format("/{}/mpirun, but no libmpi.so.40: not Open MPI 4, or not found", programs),
             "install Open MPI 4, put its lib folder into LD_LIBRARY_PATH and rebuild "
             "//bootstrap:libpeal_mpi.so; or start PEs without MPI by peal-run"}};
  }
  return {{"mpi", "", Level::kOk, fmt::format("/{}/mpirun, Open MPI 4", programs)}};
}

Findings examine(const Machine& machine) {
  using Check = Findings (*)(const Machine&);
  constexpr Check kChecks[] = {check_settings,
                               check_mpi,
                               check_gpu_driver,
                               check_cuda,
                               check_gdrcopy,
                               check_nic,
                               check_devx,
                               check_link,
                               check_gid,
                               check_mtu,
                               check_lossless,
                               check_memlock,
                               check_doorbell_mapping,
                               check_peermem,
                               check_dma_buf,
                               check_distance,
                               check_acs,
                               check_iommu};
  Findings all;
  for (const Check check : kChecks) {
    Findings some = check(machine);
    all.insert(all.end(), std::make_move_iterator(some.begin()),
               std::make_move_iterator(some.end()));
  }
  return all;
}

}  // namespace peal::doctor
