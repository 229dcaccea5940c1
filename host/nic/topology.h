// SPDX-License-Identifier: Apache-2.0
//
// Which NIC is near which GPU, as plain data read from sysfs:
//
//   pci0000:17 / 0000:17:01.0 / 0000:18:00.0 / 0000:19:00.0 / 0000:1b:00.0     a GPU
//   root complex   root port       switch: up       switch: down    the device
//
// Two devices below one root port have a switch between them; with only the root complex in common
// traffic goes through the CPU; with less, by NUMA nodes. What cannot be read is unknown, never an
// error: virtual machines and containers show any part of this or nothing.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace peal::nic {

/// A device's place on PCIe.
struct PciPlace {
  std::string address;            // "0000:1b:00.0"; empty = no PCI device
  std::vector<std::string> path;  // from the root complex down to the device; empty = unknown
  int numa_node = -1;             // -1 = unknown
};

/// A port as the kernel reports it; empty texts are unknown.
struct NicPort {
  int number;
  std::string state;       // "ACTIVE", "DOWN", "INIT", ...
  std::string link_layer;  // "InfiniBand", "Ethernet"
  std::string rate;        // "400 Gb/sec (4X NDR)"
};

struct NicPlace {
  std::string name;  // "mlx5_0"
  PciPlace pci;
  std::vector<NicPort> ports;  // by number
};

/// From near to far.
enum class Distance { kSameSwitch, kSameRootComplex, kSameNumaNode, kAcrossSockets, kUnknown };

/// "same PCIe switch", ...; kAcrossSockets is "other NUMA node", which is what sysfs tells.
const char* to_string(Distance distance);

Distance distance(const PciPlace& a, const PciPlace& b);

/// As sysfs spells a PCI address that CUDA or a person gave: "0000:1B:00.0", "00000000:1b:00.0" and
/// "1b:00.0" are one. Empty if `text` is none.
std::string pci_address(std::string_view text);

/// The GPUs (NVIDIA's) and NICs (any verbs device) of one machine, each by PCI address. All
/// processes of a machine read the same, whatever GPUs they may use.
struct Topology {
  std::vector<PciPlace> gpus;
  std::vector<NicPlace> nics;

  /// Reads `root`/sys; "/" is this machine. Never throws for what is there or is missing.
  static Topology read(const std::filesystem::path& root);

  /// Null when sysfs does not know it.
  const NicPlace* nic(std::string_view name) const;
};

struct RankedNic {
  std::string name;
  Distance distance;
};

/// NICs `names` for the GPU at `gpu` (any spelling), nearest first. Those equally near come in the
/// order of `names`, but for the GPU's own (share_of), which come first: they are dealt out over
/// the machine's GPUs, so that as many NICs are used as can be. Processes that pass the same names
/// agree on it.
std::vector<RankedNic> rank_nics(const Topology& topology, std::string_view gpu,
                                 const std::vector<std::string>& names);

/// How the nearest NICs are shared out.
struct NicShare {
  size_t nics;     // this GPU's own, at least 1: another GPU may have them too where there are few
  size_t nearest;  // NICs that are as near to it
  size_t gpus;     // that have one of those among their nearest, and no further; this one included
};

/// The same number of NICs for every GPU that has the same ones nearest: what does not divide is
/// left over, for a peer with more NICs than this one gains nothing by them. `names` is not empty.
NicShare share_of(const Topology& topology, std::string_view gpu,
                  const std::vector<std::string>& names);

}  // namespace peal::nic
