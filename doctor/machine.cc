// SPDX-License-Identifier: Apache-2.0
//
// Reading proc and sys. Nothing here fails: what cannot be read is absent.
#include "doctor/machine.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <system_error>

namespace peal::doctor {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRdmaFolder = "sys/class/infiniband";
constexpr const char* kPciFolder = "sys/bus/pci/devices";
constexpr const char* kMellanox = "0x15b3";
constexpr const char* kNvidia = "0x10de";

std::string trimmed(const std::string& text) {
  constexpr const char* kSpace = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

// "4: ACTIVE" -> "ACTIVE".
std::string behind_colon(const std::string& text) {
  const size_t colon = text.find(':');
  return colon == std::string::npos ? text : trimmed(text.substr(colon + 1));
}

bool is_connectx(const Machine& machine, const std::string& name) {
  const std::string device = std::string(kRdmaFolder) + "/" + name + "/device";
  return machine.text(device + "/vendor") == kMellanox && name.find("mlx4") == std::string::npos;
}

// "0000:17:00.0": as sysfs names PCI devices.
bool is_pci_address(const std::string& name) {
  return name.size() >= 12 && name[name.size() - 2] == '.' && name[name.size() - 5] == ':';
}

Port read_port(const Machine& machine, const std::string& folder, int number) {
  return {.number = number,
          .state = behind_colon(machine.text(folder + "/state")),
          .phys = behind_colon(machine.text(folder + "/phys_state")),
          .rate = machine.text(folder + "/rate"),
          .ethernet = machine.text(folder + "/link_layer") == "Ethernet"};
}

Nic read_nic(const Machine& machine, const std::string& name) {
  const std::string folder = std::string(kRdmaFolder) + "/" + name;
  std::error_code error;
  const fs::path device = fs::canonical(machine.at(folder + "/device"), error);
  Nic nic{.name = name,
          .pci = error ? "" : device.filename().string(),
          .firmware = machine.text(folder + "/fw_ver"),
          .netdev = "",
          .ports = {}};
  const auto netdevs = machine.names(folder + "/device/net");
  if (!netdevs.empty()) nic.netdev = netdevs.front();
  for (const std::string& port : machine.names(folder + "/ports")) {
    int number = 0;
    std::from_chars(port.data(), port.data() + port.size(), number);
    nic.ports.push_back(read_port(machine, folder + "/ports/" + port, number));
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

std::string Machine::bytes(std::string_view path) const {
  std::ifstream file(at(path), std::ios::binary);
  if (!file) return "";
  std::ostringstream all;
  all << file.rdbuf();
  return all.str();
}

std::string Machine::text(std::string_view path) const { return trimmed(bytes(path)); }

std::vector<std::string> Machine::names(std::string_view path) const {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(at(path), error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  std::ranges::sort(names);
  return names;
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

std::vector<Nic> connectx(const Machine& machine) {
  const std::string wanted = machine.variable("PEAL_HCA");
  std::vector<Nic> nics;
  for (const std::string& name : machine.names(kRdmaFolder)) {
    if (!is_connectx(machine, name) || (!wanted.empty() && name != wanted)) continue;
    nics.push_back(read_nic(machine, name));
  }
  return nics;
}

std::vector<std::string> foreign_nics(const Machine& machine) {
  auto names = machine.names(kRdmaFolder);
  std::erase_if(names, [&](const std::string& name) { return is_connectx(machine, name); });
  return names;
}

std::vector<PciDevice> nvidia_gpus(const Machine& machine) {
  std::vector<PciDevice> gpus;
  for (const std::string& address : machine.names(kPciFolder)) {
    const std::string folder = std::string(kPciFolder) + "/" + address;
    const bool display = machine.text(folder + "/class").starts_with("0x03");
    if (display && machine.text(folder + "/vendor") == kNvidia) {
      gpus.push_back(locate(machine, address));
    }
  }
  return gpus;
}

PciDevice locate(const Machine& machine, const std::string& address) {
  PciDevice device{.address = address, .bridges = {}};
  std::error_code error;
  fs::path above = fs::canonical(machine.at(kPciFolder) / address, error);
  if (error) return device;
  for (above = above.parent_path(); is_pci_address(above.filename().string());
       above = above.parent_path()) {
    device.bridges.push_back(above.filename().string());
  }
  return device;
}

}  // namespace peal::doctor
