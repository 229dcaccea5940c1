// SPDX-License-Identifier: Apache-2.0
//
// Reading proc and sys. Nothing here fails: what cannot be read is absent.
#include "doctor/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>

#include "host/base/error.h"

namespace peal::doctor {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRdmaFolder = "sys/class/infiniband";
constexpr const char* kMellanox = "0x15b3";

// "4: ACTIVE" -> "ACTIVE".
std::string behind_colon(const std::string& text) {
  const size_t colon = text.find(':');
  return colon == std::string::npos ? text : trimmed(text.substr(colon + 1));
}

bool is_connectx(const Machine& machine, const std::string& name) {
  const std::string device = std::string(kRdmaFolder) + "/" + name + "/device";
  return machine.text(device + "/vendor") == kMellanox && name.find("mlx4") == std::string::npos;
}

NicReport describe(const Machine& machine, const nic::NicPlace& place) {
  const std::string folder = std::string(kRdmaFolder) + "/" + place.name;
  const auto netdevs = machine.names(folder + "/device/net");
  NicReport nic{.name = place.name,
                .pci = place.pci,
                .firmware = machine.text(folder + "/fw_ver"),
                .netdev = netdevs.empty() ? "" : netdevs.front(),
                .ports = {}};
  for (const nic::NicPort& port : place.ports) {
    const std::string phys = fmt::format("{}/ports/{}/phys_state", folder, port.number);
    nic.ports.push_back({.number = port.number,
                         .state = port.state,
                         .phys = behind_colon(machine.text(phys)),
                         .rate = port.rate,
                         .ethernet = port.link_layer == "Ethernet"});
  }
  return nic;
}

}  // namespace

const ProbedNic* VerbsView::find(std::string_view name) const {
  const auto found = std::ranges::find(nics, name, &ProbedNic::name);
  return found == nics.end() ? nullptr : &*found;
}

bool Machine::exists(std::string_view path) const {
  std::error_code error;
  return fs::exists(at(path), error);
}

std::string Machine::variable(const std::string& name) const {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

bool Machine::has(Capability capability) const {
  const std::string status = text("proc/self/status");
  constexpr std::string_view kField = "CapEff:";
  const size_t at_field = status.find(kField);
  if (at_field == std::string::npos) return false;
  const size_t digits = status.find_first_not_of(" \t", at_field + kField.size());
  if (digits == std::string::npos) return false;
  uint64_t held = 0;
  std::from_chars(status.data() + digits, status.data() + status.size(), held, 16);
  return (held >> static_cast<int>(capability) & 1) != 0;
}

Config settings(const Machine& machine) {
  std::vector<std::string> lines;
  for (const auto& [name, value] : machine.environment) lines.push_back(name + "=" + value);
  std::vector<const char*> pointers;
  for (const std::string& line : lines) pointers.push_back(line.c_str());
  pointers.push_back(nullptr);
  return Config::from_environment(pointers.data());
}

nic::HcaList allowed_nics(const Machine& machine) {
  constexpr bool kSoftware = false;
  return nic::HcaList::from(settings(machine), kSoftware);
}

std::vector<NicReport> connectx(const Machine& machine) {
  nic::HcaList list;
  try {
    list = allowed_nics(machine);
  } catch (const Error&) {  // check_settings says so
  }
  std::vector<NicReport> nics;
  for (const nic::NicPlace& place : nic::Topology::read(machine.root).nics) {
    if (!is_connectx(machine, place.name) || !list.allows(place.name)) continue;
    nics.push_back(describe(machine, place));
    std::erase_if(nics.back().ports,
                  [&](const PortReport& port) { return !list.allows(place.name, port.number); });
  }
  return nics;
}

std::vector<std::string> foreign_nics(const Machine& machine) {
  auto names = machine.names(kRdmaFolder);
  std::erase_if(names, [&](const std::string& name) { return is_connectx(machine, name); });
  return names;
}

std::vector<nic::PciPlace> nvidia_gpus(const Machine& machine) {
  return nic::Topology::read(machine.root).gpus;
}

}  // namespace peal::doctor
