// SPDX-License-Identifier: Apache-2.0
#include "host/nic/choice.h"

#include <fmt/format.h>

#include <vector>

#include "host/base/error.h"
#include "host/nic/device.h"
#include "host/nic/topology.h"

namespace peal::nic {
namespace {

using Names = std::vector<std::string>;

/// What keeps peal from driving that NIC by a port that the list allows, as far as sysfs tells;
/// empty if nothing does.
std::string obstacle(const NicPlace* nic, const HcaList& list) {
  if (!nic) return "";
  std::string first;
  for (const NicPort& port : nic->ports) {
    if (!list.allows(nic->name, port.number)) continue;
    if (port.state.empty() || port.state == "ACTIVE") return "";
    if (first.empty()) first = fmt::format("port {} {}", port.number, port.state);
  }
  return first;
}

Names allowed_names(const VerbsLibrary& library, const HcaList& list) {
  const Names all = mlx5_names(library);
  Names allowed;
  for (const std::string& name : all) {
    if (list.allows(name)) allowed.push_back(name);
  }
  if (!allowed.empty()) return allowed;
  if (all.empty())
    fail(ErrorCode::kUnsupported, "no mlx5 device at all by {}", library.description());
  fail(ErrorCode::kUnsupported, "{} allows no mlx5 device by {}: it has {}; PEAL_HCA chooses one",
       list.description(), library.description(), fmt::join(all, ", "));
}

std::string relation(Distance distance, int gpu) {
  if (distance == Distance::kUnknown) return fmt::format("distance to GPU {} unknown", gpu);
  const bool apart = distance == Distance::kAcrossSockets;
  return fmt::format("{} {} GPU {}", to_string(distance), apart ? "than" : "as", gpu);
}

}  // namespace

Choice choose_nic(const VerbsLibrary& library, const HcaList& list,
                  const std::optional<GpuPlace>& gpu, const std::filesystem::path& root) {
  const bool software = library.software();
  const Topology topology = software ? Topology() : Topology::read(root);
  const Names allowed = allowed_names(library, list);
  Names candidates;
  Names others;
  for (const std::string& name : allowed) {
    const std::string why_not = obstacle(topology.nic(name), list);
    if (why_not.empty())
      candidates.push_back(name);
    else
      others.push_back(fmt::format("{} ({})", name, why_not));
  }
  if (candidates.empty()) candidates = allowed;

  Choice choice{candidates[0], candidates.size() == 1
                                   ? "the only one"
                                   : fmt::format("the first of {}", candidates.size())};
  if (gpu && !software) {
    const RankedNic nearest = rank_nics(topology, gpu->address, candidates)[0];
    choice = {nearest.name, relation(nearest.distance, gpu->index)};
  }
  choice.why = choice.name + ": " + choice.why;
  if (!list.empty()) choice.why += ", of those that " + list.description() + " allows";
  if (!others.empty()) choice.why += fmt::format("; not usable: {}", fmt::join(others, ", "));
  return choice;
}

}  // namespace peal::nic
