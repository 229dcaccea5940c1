// SPDX-License-Identifier: Apache-2.0
//
// Reading sysfs, comparing paths, dealing NICs out.
#include "host/nic/topology.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>

namespace peal::nic {
namespace {

namespace fs = std::filesystem;
using std::string_view;

constexpr string_view kNvidia = "0x10de";
constexpr string_view kDisplayClass = "0x03";  // VGA and 3D controllers

/// The first line of a file, without blanks at its ends; empty if it cannot be read.
std::string line_of(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  const size_t first = line.find_first_not_of(" \t");
  if (first == std::string::npos) return "";
  return line.substr(first, line.find_last_not_of(" \t\r") + 1 - first);
}

std::optional<int> number_of(string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// Names in a folder, sorted; none if it cannot be read.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Takes hexadecimal digits and `end` off the front of `text`; nullopt when they are not there.
std::optional<string_view> take_hex(string_view& text, size_t least, size_t most, char end) {
  const size_t digits =
      std::min(text.find_first_not_of("0123456789abcdef"), text.size());  // npos when all are
  if (digits < least || digits > most) return std::nullopt;
  const string_view taken = text.substr(0, digits);
  text.remove_prefix(digits);
  if (end != '\0') {
    if (!text.starts_with(end)) return std::nullopt;
    text.remove_prefix(1);
  }
  return taken;
}

bool is_root_complex(string_view name) {
  if (!name.starts_with("pci")) return false;
  name.remove_prefix(3);
  return take_hex(name, 4, 8, ':') && take_hex(name, 2, 2, '\0') && name.empty();
}

/// `device` is a folder below devices/ or a link to one. What is not of PCI in its real path is
/// left out: buses above the root complex, functions that drivers add below the device.
PciPlace place_of(const fs::path& device) {
  PciPlace place;
  std::error_code error;
  const fs::path real = fs::canonical(device, error);
  if (error) return place;
  fs::path folder;
  fs::path pci_folder;
  for (const fs::path& part : real) {
    folder /= part;
    const std::string name = part.string();
    const bool address = !name.empty() && pci_address(name) == name;
    if (!address && !is_root_complex(name)) continue;
    place.path.push_back(name);
    if (address) place.address = name;
    pci_folder = folder;
  }
  if (place.address.empty()) return {};
  place.numa_node = std::max(-1, number_of(line_of(pci_folder / "numa_node")).value_or(-1));
  return place;
}

std::vector<NicPort> ports_of(const fs::path& folder) {
  std::vector<NicPort> ports;
  for (const std::string& name : names_in(folder)) {
    const std::optional<int> number = number_of(name);
    if (!number) continue;
    std::string state = line_of(folder / name / "state");  // "4: ACTIVE"
    if (const size_t colon = state.find(": "); colon != std::string::npos) {
      state.erase(0, colon + 2);
    }
    ports.push_back(
        {*number, state, line_of(folder / name / "link_layer"), line_of(folder / name / "rate")});
  }
  std::sort(ports.begin(), ports.end(),
            [](const NicPort& a, const NicPort& b) { return a.number < b.number; });
  return ports;
}

/// How many parts from the root complex down two devices share.
size_t shared_parts(const PciPlace& a, const PciPlace& b) {
  const auto end = std::mismatch(a.path.begin(), a.path.end(), b.path.begin(), b.path.end());
  return static_cast<size_t>(std::distance(a.path.begin(), end.first));
}

/// Nearest first: below one switch the deeper common bridge is nearer.
using Closeness = std::pair<Distance, size_t>;
Closeness closeness(const PciPlace& a, const PciPlace& b) {
  return {distance(a, b), ~shared_parts(a, b)};
}

using Indices = std::vector<size_t>;

/// Which of `nics` are nearest to `gpu`, in their order.
Indices nearest(const PciPlace& gpu, const std::vector<PciPlace>& nics) {
  Indices best;
  for (size_t i = 0; i < nics.size(); ++i) {
    if (best.empty() || closeness(gpu, nics[i]) < closeness(gpu, nics[best[0]])) {
      best = {i};
    } else if (closeness(gpu, nics[i]) == closeness(gpu, nics[best[0]])) {
      best.push_back(i);
    }
  }
  return best;
}

/// The NIC of GPU `mine`: every GPU takes of its nearest ones that which fewest GPUs have. GPUs
/// with less choice come first, so that the others can give way.
size_t dealt_nic(const std::vector<PciPlace>& gpus, size_t mine,
                 const std::vector<PciPlace>& nics) {
  std::vector<Indices> choices;
  for (const PciPlace& gpu : gpus) choices.push_back(nearest(gpu, nics));
  Indices order(gpus.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return choices[a].size() < choices[b].size(); });
  std::vector<size_t> users(nics.size());
  for (const size_t gpu : order) {
    const size_t nic = *std::min_element(choices[gpu].begin(), choices[gpu].end(),
                                         [&](size_t a, size_t b) { return users[a] < users[b]; });
    if (gpu == mine) return nic;
    ++users[nic];
  }
  return 0;
}

}  // namespace

const char* to_string(Distance distance) {
  switch (distance) {
    case Distance::kSameSwitch:
      return "same PCIe switch";
    case Distance::kSameRootComplex:
      return "same root complex";
    case Distance::kSameNumaNode:
      return "same NUMA node";
    case Distance::kAcrossSockets:
      return "other NUMA node";
    case Distance::kUnknown:
      break;
  }
  return "distance unknown";
}

Distance distance(const PciPlace& a, const PciPlace& b) {
  const size_t shared = shared_parts(a, b);
  if (shared > 1) return Distance::kSameSwitch;
  if (shared == 1) return Distance::kSameRootComplex;
  if (a.numa_node < 0 || b.numa_node < 0) return Distance::kUnknown;
  return a.numa_node == b.numa_node ? Distance::kSameNumaNode : Distance::kAcrossSockets;
}

std::string pci_address(string_view given) {
  std::string lower(given);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (std::count(lower.begin(), lower.end(), ':') == 1) lower.insert(0, "0000:");
  string_view rest = lower;
  const auto domain = take_hex(rest, 4, 8, ':');
  const string_view device = rest;
  if (!domain || !take_hex(rest, 2, 2, ':') || !take_hex(rest, 2, 2, '.') ||
      !take_hex(rest, 1, 1, '\0') || !rest.empty()) {
    return "";
  }
  // sysfs writes at least four digits of the domain, and more only where needed.
  const size_t zeros = std::min(domain->find_first_not_of('0'), domain->size());
  return std::string(domain->substr(std::min(zeros, domain->size() - 4))) + ":" +
         std::string(device);
}

Topology Topology::read(const fs::path& root) {
  Topology topology;
  const fs::path pci = root / "sys/bus/pci/devices";
  for (const std::string& name : names_in(pci)) {
    if (line_of(pci / name / "vendor") != kNvidia) continue;
    if (!line_of(pci / name / "class").starts_with(kDisplayClass)) continue;
    PciPlace place = place_of(pci / name);
    if (place.address.empty()) place.address = pci_address(name);
    topology.gpus.push_back(std::move(place));
  }
  const fs::path infiniband = root / "sys/class/infiniband";
  for (const std::string& name : names_in(infiniband)) {
    topology.nics.push_back(
        {name, place_of(infiniband / name / "device"), ports_of(infiniband / name / "ports")});
  }
  const auto by_address = [](const NicPlace& a, const NicPlace& b) {
    return std::tie(a.pci.address, a.name) < std::tie(b.pci.address, b.name);
  };
  std::sort(topology.nics.begin(), topology.nics.end(), by_address);
  return topology;
}

const NicPlace* Topology::nic(string_view name) const {
  const auto found = std::find_if(nics.begin(), nics.end(),
                                  [name](const NicPlace& nic) { return nic.name == name; });
  return found == nics.end() ? nullptr : &*found;
}

std::vector<RankedNic> rank_nics(const Topology& topology, string_view gpu,
                                 const std::vector<std::string>& names) {
  if (names.empty()) return {};
  std::vector<PciPlace> gpus = topology.gpus;
  const std::string address = pci_address(gpu);
  const auto found = std::find_if(gpus.begin(), gpus.end(), [&](const PciPlace& place) {
    return !address.empty() && place.address == address;
  });
  const auto mine = static_cast<size_t>(std::distance(gpus.begin(), found));
  if (found == gpus.end()) gpus.push_back({address, {}, -1});
  std::vector<PciPlace> nics;
  for (const std::string& name : names) {
    const NicPlace* const nic = topology.nic(name);
    nics.push_back(nic ? nic->pci : PciPlace{});
  }
  Indices order(nics.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return closeness(gpus[mine], nics[a]) < closeness(gpus[mine], nics[b]);
  });
  const auto first = std::find(order.begin(), order.end(), dealt_nic(gpus, mine, nics));
  std::rotate(order.begin(), first, std::next(first));
  std::vector<RankedNic> ranked;
  for (const size_t i : order) ranked.push_back({names[i], distance(gpus[mine], nics[i])});
  return ranked;
}

}  // namespace peal::nic
