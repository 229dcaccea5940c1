// SPDX-License-Identifier: Apache-2.0
//
// A machine as the checks see it: a tree with proc, sys, usr and dev, and a few answers that files
// do not hold. All of it is data, so that a test can make up any machine; observe() takes this one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "host/base/config.h"
#include "host/nic/hca_list.h"
#include "host/nic/topology.h"

namespace peal::doctor {

/// A port as libibverbs describes it, in its numbers.
struct ProbedPort {
  int number = 1;
  int state = 0;       // 4 = active
  int active_mtu = 0;  // bytes
  int max_mtu = 0;     // bytes
};

/// What came of opening a NIC, allocating a doorbell page, and asking whether queues may lie in a
/// dma-buf. 0 = worked, else an errno.
struct ProbedNic {
  std::string name;
  int open_error = 0;
  int uar_error = 0;
  int dma_buf_error = 0;
  std::string lacks;  // capabilities that a kernel needs; empty: none
  std::vector<ProbedPort> ports;
};

struct VerbsView {
  std::string library;  // which was opened; empty: none
  std::string problem;  // why there is no answer
  std::vector<ProbedNic> nics;

  const ProbedNic* find(std::string_view name) const;
};

struct CudaView {
  int version = 0;  // of the driver's interface: 12040 = 12.4; 0: no driver
  int gpus = 0;
  int unordered = 0;    // of those: GPUs that show kernels a NIC's writes in no order
  std::string problem;  // why there is no answer
};

struct GdrcopyView {
  std::string name;     // "GDRCopy 2.6" with its driver opened; empty: none
  std::string problem;  // why there is no answer
};

inline constexpr uint64_t kUnlimited = ~uint64_t{0};

/// Capabilities of Linux that matter here: bits of CapEff.
enum class Capability { kIpcLock = 14, kSysAdmin = 21 };

struct Machine {
  std::filesystem::path root = "/";
  std::map<std::string, std::string> environment;
  uint64_t memlock_bytes = 0;  // RLIMIT_MEMLOCK, soft
  VerbsView verbs;
  CudaView cuda;
  GdrcopyView gdrcopy;

  /// Where `path`, such as "proc/cmdline", lies.
  std::filesystem::path at(std::string_view path) const { return root / path; }
  bool exists(std::string_view path) const;
  /// The whole file; empty if it cannot be read.
  std::string bytes(std::string_view path) const { return bytes_of(at(path)); }
  /// The file without white space at its ends; empty if it cannot be read.
  std::string text(std::string_view path) const { return text_of(at(path)); }
  /// Names in a folder, sorted; empty if it cannot be read.
  std::vector<std::string> names(std::string_view path) const { return names_in(at(path)); }
  /// A variable; empty if not set.
  std::string variable(const std::string& name) const;
  /// The caller holds it in the first user namespace's sense of /proc/self/status.
  bool has(Capability capability) const;
};

/// A port of a NIC as sysfs shows it.
struct PortReport {
  int number = 1;
  std::string state;  // "ACTIVE"
  std::string phys;   // "LinkUp"
  std::string rate;   // "400 Gb/sec (4X NDR)"
  bool ethernet = false;

  bool active() const { return state == "ACTIVE"; }
};

struct NicReport {
  std::string name;   // "mlx5_0"
  nic::PciPlace pci;  // its address may be empty
  std::string firmware;
  std::string netdev;  // of an Ethernet port, or empty
  std::vector<PortReport> ports;
};

/// "mlx5_0/1".
inline std::string port_name(const NicReport& nic, const PortReport& port) {
  return nic.name + "/" + std::to_string(port.number);
}

/// ConnectX of the machine that peal may use, with those of their ports that it may: what PEAL_HCA
/// and its like allow. A list that is malformed allows all.
std::vector<NicReport> connectx(const Machine& machine);

/// RDMA devices that are no ConnectX, by name.
std::vector<std::string> foreign_nics(const Machine& machine);

/// GPUs by NVIDIA.
std::vector<nic::PciPlace> nvidia_gpus(const Machine& machine);

/// peal's settings as it would read them, and the list of NICs in them. Both throw kConfiguration.
Config settings(const Machine& machine);
nic::HcaList allowed_nics(const Machine& machine);

/// This machine. Libraries are asked in processes of their own, for at most a second and a half:
/// one that crashes or hangs costs its answer only.
Machine observe(const char* const* environment);

}  // namespace peal::doctor
