// SPDX-License-Identifier: Apache-2.0
//
// The way between GPU and NIC: how long it is, and what on it turns traffic away.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "doctor/checks.h"

namespace peal::doctor {
namespace {

constexpr size_t kMostNamed = 4;  // of a list in one line

std::string few_of(const std::vector<std::string>& names) {
  const auto end = names.begin() + static_cast<ptrdiff_t>(std::min(names.size(), kMostNamed));
  return fmt::format("{}{}", fmt::join(names.begin(), end, ", "),
                     names.size() > kMostNamed ? ", ..." : "");
}

// The list of extended capabilities: little-endian headers of id, version and next offset.
constexpr size_t kExtended = 0x100;
constexpr unsigned kAcs = 0x000d;
constexpr size_t kAcsControl = 6;   // from the capability's header
constexpr int kMostEntries = 1024;  // what a list without loops can hold

unsigned byte_at(std::string_view bytes, size_t at) {
  return at < bytes.size() ? static_cast<unsigned char>(bytes[at]) : 0u;
}

unsigned word_at(std::string_view bytes, size_t at) {
  return byte_at(bytes, at) | byte_at(bytes, at + 1) << 8;
}

/// GPUs and the ConnectX: between them data goes.
std::vector<nic::PciPlace> endpoints(const Machine& machine) {
  std::vector<nic::PciPlace> devices = nvidia_gpus(machine);
  for (const NicReport& nic : connectx(machine)) devices.push_back(nic.pci);
  return devices;
}

bool usable(const NicReport& nic) {
  return std::ranges::any_of(
      nic.ports, [](const PortReport& port) { return port.active() && !port.ethernet; });
}

// The NICs with an active InfiniBand port; all of them where none has one.
std::vector<std::string> candidates(const Machine& machine) {
  std::vector<std::string> good;
  std::vector<std::string> all;
  for (const NicReport& nic : connectx(machine)) {
    all.push_back(nic.name);
    if (usable(nic)) good.push_back(nic.name);
  }
  return good.empty() ? all : good;
}

Finding judge(const std::string& gpu, const nic::RankedNic& nearest) {
  const std::string found = fmt::format("{}: {}", nearest.name, to_string(nearest.distance));
  if (nearest.distance == nic::Distance::kUnknown) {
    return {"distance", gpu, Level::kSkip, found + " (virtual machines hide the bus)"};
  }
  if (nearest.distance == nic::Distance::kSameSwitch) {
    return {"distance", gpu, Level::kOk, found};
  }
  return {"distance", gpu, Level::kWarn, found + ", traffic passes the CPU",
          "no NIC that peal may use is nearer: look at PEAL_HCA, at ports that are down, and at "
          "nvidia-smi topo -m; best are GPU and NIC below one PCIe switch"};
}

}  // namespace

std::optional<unsigned> acs_control(std::string_view config) {
  if (config.size() < kExtended + 4) return std::nullopt;
  size_t at = kExtended;
  for (int entry = 0; entry < kMostEntries && at >= kExtended; ++entry) {
    if (word_at(config, at) == kAcs) return word_at(config, at + kAcsControl);
    at = word_at(config, at + 2) >> 4 & ~size_t{3};
  }
  return 0;
}

Findings check_distance(const Machine& machine) {
  if (auto skip = unless_gpu_and_nic(machine, "distance"); !skip.empty()) return skip;
  const nic::Topology topology = nic::Topology::read(machine.root);
  const auto names = candidates(machine);
  Findings findings;
  for (const nic::PciPlace& gpu : topology.gpus) {
    findings.push_back(judge(gpu.address, rank_nics(topology, gpu.address, names).at(0)));
  }
  if (findings.empty()) findings.push_back({"distance", "", Level::kSkip, "GPU not in sysfs"});
  return findings;
}

Findings check_acs(const Machine& machine) {
  if (auto skip = unless_gpu_and_nic(machine, "acs"); !skip.empty()) return skip;
  std::set<std::string> bridges;
  for (const nic::PciPlace& device : endpoints(machine)) {
    if (device.path.size() < 2) continue;  // root complex, bridges, the device itself
    bridges.insert(device.path.begin() + 1, device.path.end() - 1);
  }
  std::vector<std::string> redirecting;
  for (const std::string& bridge : bridges) {
    const auto control = acs_control(machine.bytes("sys/bus/pci/devices/" + bridge + "/config"));
    if (!control) {
      return {{"acs", "", Level::kSkip, "only an administrator may see it: sudo tools/doctor"}};
    }
    if (redirects(*control)) redirecting.push_back(bridge);
  }
  if (redirecting.empty()) {
    return {{"acs", "", Level::kOk,
             fmt::format("off in all {} bridges above GPUs and NICs", bridges.size())}};
  }
  return {{"acs", "", Level::kWarn,
           fmt::format("on in {} bridge{}, which send GPU-NIC traffic by the CPU: {}",
                       redirecting.size(), redirecting.size() == 1 ? "" : "s", few_of(redirecting)),
           fmt::format("off in the BIOS, or until reboot, for each: sudo setpci -s {} "
                       "ECAP_ACS+6.w=0000; leave it on in virtual machines",
                       redirecting.front())}};
}

Findings check_iommu(const Machine& machine) {
  if (auto skip = unless_gpu_and_nic(machine, "iommu"); !skip.empty()) return skip;
  std::vector<std::string> translated;
  bool any = false;
  for (const nic::PciPlace& device : endpoints(machine)) {
    const std::string type =
        machine.text("sys/bus/pci/devices/" + device.address + "/iommu_group/type");
    any = any || !type.empty();
    if (type.starts_with("DMA")) translated.push_back(device.address);
  }
  if (!translated.empty()) {
    return {
        {"iommu", "", Level::kWarn,
         "translates, which slows GPU-NIC traffic or stops it: " + few_of(translated),
         "add iommu=pt to the kernel's command line (GRUB_CMDLINE_LINUX), update-grub, reboot; or "
         "turn it off in the BIOS"}};
  }
  return {{"iommu", "", Level::kOk, any ? "passes through" : "off"}};
}

}  // namespace peal::doctor
