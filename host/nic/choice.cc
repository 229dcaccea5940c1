// SPDX-License-Identifier: Apache-2.0
#include "host/nic/choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "host/base/error.h"
#include "host/nic/topology.h"

namespace peal::nic {
namespace {

using Names = std::vector<std::string>;

/// What keeps peal from driving that NIC by a port that the list allows: what was found when it was
/// opened, or what sysfs tells; empty if nothing does.
std::string obstacle(const std::string& name, const Topology& topology,
                     const ChoiceOptions& options) {
  for (const UnusableNic& refused : options.refused) {
    if (refused.name == name) return refused.why;
  }
  const NicPlace* const nic = topology.nic(name);
  if (!nic || options.list.chooses()) return "";
  std::string first;
  for (const NicPort& port : nic->ports) {
    if (!options.list.allows(name, port.number)) continue;
    if (port.state.empty() || port.state == "ACTIVE") return "";
    if (first.empty()) first = fmt::format("port {} {}", port.number, port.state);
  }
  return first;
}

Names allowed_names(const VerbsLibrary& library, const HcaList& list) {
  const Names all = device_names(library);
  Names allowed;
  for (const std::string& name : all) {
    if (list.allows(name)) allowed.push_back(name);
  }
  if (!allowed.empty()) return allowed;
  if (all.empty())
    fail(ErrorCode::kUnsupported, "no {} at all by {}", library.wanted(), library.description());
  fail(ErrorCode::kUnsupported, "{} allows no {} by {}: it has {}; PEAL_HCA chooses one",
       list.description(), library.wanted(), library.description(), fmt::join(all, ", "));
}

std::string relation(Distance distance, int gpu) {
  if (distance == Distance::kUnknown) return fmt::format("distance to GPU {} unknown", gpu);
  const bool apart = distance == Distance::kAcrossSockets;
  return fmt::format("{} {} GPU {}", to_string(distance), apart ? "than" : "as", gpu);
}

/// What `count` NICs are of `all`, where the order alone decides.
std::string order_of(size_t count, size_t all) {
  if (all == 1) return "the only one";
  if (count == 1) return fmt::format("the first of {}", all);
  return count == all ? fmt::format("all {}", all) : fmt::format("the first {} of {}", count, all);
}

/// NICs in the order of preference, and how many of them the PE gets unless it asks for a number.
struct NicPreference {
  std::vector<RankedNic> nics;
  size_t own;
  std::string reason;  // of that number, where there is something to tell
};

NicPreference without_topology(const Names& names, const HcaList& list) {
  NicPreference offer{{}, list.chooses() ? std::min(names.size(), kMaxNics) : 1, ""};
  for (const std::string& name : names) offer.nics.push_back({name, Distance::kUnknown});
  return offer;
}

/// Where nothing is known of distances nothing is known of how many belong to one GPU, either.
NicPreference near_to(const Topology& topology, const GpuPlace& gpu, const Names& names) {
  const NicShare share = share_of(topology, gpu.address, names);
  NicPreference offer{rank_nics(topology, gpu.address, names), std::min(share.nics, kMaxNics), ""};
  if (offer.nics[0].distance == Distance::kUnknown) {
    offer.own = 1;
  } else if (share.nearest > 1) {
    offer.reason = fmt::format("; {} of {} as near, for {} GPU{}", offer.own, share.nearest,
                               share.gpus, share.gpus == 1 ? "" : "s");
  }
  return offer;
}

size_t checked_count(const NicPreference& offer, size_t asked, const VerbsLibrary& library,
                     const std::string& not_usable) {
  if (asked == 0) return offer.own;
  if (asked <= offer.nics.size()) return asked;
  Names names;
  for (const RankedNic& nic : offer.nics) names.push_back(nic.name);
  fail(ErrorCode::kUnsupported,
       "PEAL_RAILS={}, but by {} only {} can be used{}; set PEAL_RAILS to {} or to auto", asked,
       library.description(), fmt::join(names, ", "), not_usable, names.size());
}

/// The NICs of `others` that would have been chosen, or were chosen and then refused.
std::vector<UnusableNic> missed(const std::vector<UnusableNic>& others, const NicPreference& ideal,
                                const ChoiceOptions& options) {
  const size_t count = std::min(options.rails == 0 ? ideal.own : options.rails, ideal.nics.size());
  std::vector<UnusableNic> missed;
  for (const UnusableNic& other : others) {
    const auto same = [&](const auto& nic) { return nic.name == other.name; };
    if (std::ranges::any_of(std::span(ideal.nics).first(count), same) ||
        std::ranges::any_of(options.refused, same)) {
      missed.push_back(other);
    }
  }
  return missed;
}

std::string describe(const std::vector<UnusableNic>& others) {
  Names texts;
  for (const UnusableNic& nic : others) texts.push_back(fmt::format("{} ({})", nic.name, nic.why));
  return texts.empty() ? "" : fmt::format("; not usable: {}", fmt::join(texts, ", "));
}

}  // namespace

Choice choose_nics(const VerbsLibrary& library, const std::optional<GpuPlace>& gpu,
                   const ChoiceOptions& options) {
  const bool software = library.software();
  const Topology topology = software ? Topology() : Topology::read(options.root);
  const Names allowed = allowed_names(library, options.list);
  Names candidates;
  std::vector<UnusableNic> others;
  for (const std::string& name : allowed) {
    const std::string why_not = obstacle(name, topology, options);
    if (why_not.empty())
      candidates.push_back(name);
    else
      others.push_back({name, why_not});
  }
  const std::string not_usable = describe(others);

  const bool placed = gpu && !software;
  const auto offer_of = [&](const Names& names) {
    return placed ? near_to(topology, *gpu, names) : without_topology(names, options.list);
  };
  Choice choice;
  if (candidates.empty()) {
    candidates = allowed;
  } else {
    choice.left_out = missed(others, offer_of(allowed), options);
  }
  const NicPreference offer = offer_of(candidates);
  const size_t count = checked_count(offer, options.rails, library, not_usable);
  Names reasons;
  for (const RankedNic& nic : std::span(offer.nics).first(count)) {
    choice.names.push_back(nic.name);
    if (placed)
      reasons.push_back(fmt::format("{}: {}", nic.name, relation(nic.distance, gpu->index)));
  }
  choice.why = placed ? fmt::format("{}", fmt::join(reasons, ", "))
                      : fmt::format("{}: {}", fmt::join(choice.names, ", "),
                                    order_of(count, candidates.size()));
  choice.why += count == offer.own ? offer.reason : fmt::format("; PEAL_RAILS={}", count);
  if (!options.list.empty()) {
    choice.why += ", of those that " + options.list.description() + " allows";
  }
  choice.why += not_usable;
  return choice;
}

}  // namespace peal::nic
