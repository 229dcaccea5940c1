// SPDX-License-Identifier: Apache-2.0
#include "host/nic/topology.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <iterator>
#include <numeric>
#include <optional>
#include <tuple>

#include "base/files.h"

namespace peal::nic {
namespace {

namespace fs = std::filesystem;
using std::string_view;

constexpr string_view kNvidia = "0x10de";
constexpr string_view kDisplayClass = "0x03";  // VGA and 3D controllers

std::optional<int> number_of(string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
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
  place.numa_node = std::max(-1, number_of(text_of(pci_folder / "numa_node")).value_or(-1));
  return place;
}

std::vector<NicPort> ports_of(const fs::path& folder) {
  std::vector<NicPort> ports;
  for (const std::string& name : names_in(folder)) {
    const std::optional<int> number = number_of(name);
    if (!number) continue;
    std::string state = text_of(folder / name / "state");  // "4: ACTIVE"
    if (const size_t colon = state.find(": "); colon != std::string::npos) {
      state.erase(0, colon + 2);
    }
    ports.push_back(
        {*number, state, text_of(folder / name / "link_layer"), text_of(folder / name / "rate")});
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

/// GPUs and the NICs in question, as they lie; `mine` is the GPU that asks.
struct Places {
  Places(const Topology& topology, string_view gpu, const std::vector<std::string>& names);

  std::vector<PciPlace> gpus;
  size_t mine;
  std::vector<PciPlace> nics;
  std::vector<Indices> choices;  // by GPU: which NICs are nearest
};

Places::Places(const Topology& topology, string_view gpu, const std::vector<std::string>& names)
    : gpus(topology.gpus) {
  const std::string address = pci_address(gpu);
  const auto found = std::find_if(gpus.begin(), gpus.end(), [&](const PciPlace& place) {
    return !address.empty() && place.address == address;
  });
  mine = static_cast<size_t>(std::distance(gpus.begin(), found));
  if (found == gpus.end()) gpus.push_back({address, {}, -1});
  for (const std::string& name : names) {
    const NicPlace* const nic = topology.nic(name);
    nics.push_back(nic ? nic->pci : PciPlace{});
  }
  for (const PciPlace& place : gpus) choices.push_back(nearest(place, nics));
}

/// GPUs that are further away from all of them than this one do not count.
NicShare share_of(const Places& places, size_t gpu) {
  const Indices& mine = places.choices[gpu];
  const auto closeness_of = [&places](size_t one) {
    return closeness(places.gpus[one], places.nics[places.choices[one][0]]);
  };
  size_t gpus = 0;
  for (size_t other = 0; other < places.gpus.size(); ++other) {
    const Indices& theirs = places.choices[other];
    const bool common =
        std::find_first_of(theirs.begin(), theirs.end(), mine.begin(), mine.end()) != theirs.end();
    if (common && closeness_of(other) <= closeness_of(gpu)) ++gpus;
  }
  return {std::max<size_t>(1, mine.size() / gpus), mine.size(), gpus};
}

/// The NICs of GPU `mine`: every GPU takes of its nearest ones those which fewest GPUs have. GPUs
/// with less choice come first, so that the others can give way.
Indices dealt_nics(const Places& places) {
  Indices order(places.gpus.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return places.choices[a].size() < places.choices[b].size();
  });
  std::vector<size_t> users(places.nics.size());
  for (const size_t gpu : order) {
    Indices taken = places.choices[gpu];
    std::stable_sort(taken.begin(), taken.end(),
                     [&](size_t a, size_t b) { return users[a] < users[b]; });
    taken.resize(share_of(places, gpu).nics);
    if (gpu == places.mine) return taken;
    for (const size_t nic : taken) ++users[nic];
  }
  return {};
}

}  // namespace

const char* to_string(Distance distance) {
  static constexpr const char* kNames[] = {"same PCIe switch", "same root complex",
                                           "same NUMA node", "other NUMA node", "distance unknown"};
  return kNames[static_cast<size_t>(distance)];
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
    if (text_of(pci / name / "vendor") != kNvidia) continue;
    if (!text_of(pci / name / "class").starts_with(kDisplayClass)) continue;
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
  const Places places(topology, gpu, names);
  const PciPlace& mine = places.gpus[places.mine];
  Indices order(names.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return closeness(mine, places.nics[a]) < closeness(mine, places.nics[b]);
  });
  const Indices own = dealt_nics(places);
  std::stable_partition(order.begin(), order.end(), [&own](size_t nic) {
    return std::find(own.begin(), own.end(), nic) != own.end();
  });
  std::vector<RankedNic> ranked;
  for (const size_t i : order) ranked.push_back({names[i], distance(mine, places.nics[i])});
  return ranked;
}

NicShare share_of(const Topology& topology, string_view gpu,
                  const std::vector<std::string>& names) {
  const Places places(topology, gpu, names);
  return share_of(places, places.mine);
}

}  // namespace peal::nic
