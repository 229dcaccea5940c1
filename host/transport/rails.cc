// SPDX-License-Identifier: Apache-2.0
#include "host/transport/rails.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "host/base/error.h"
#include "host/base/random.h"
#include "host/job/together.h"
#include "host/nic/hca_list.h"
#include "host/transport/warn_once.h"

namespace peal {
namespace {

static_assert(nic::kMaxNics == kMaxRails);

using Library = std::shared_ptr<const nic::VerbsLibrary>;

Library library_for(const Config& config, nic::NicUse use) {
  return nic::VerbsLibrary::open(nic::LibrarySearch::from(config, use));
}

[[noreturn]] void refuse_all(const std::vector<nic::UnusableNic>& nics, ErrorCode code) {
  std::vector<std::string> reasons;
  for (const nic::UnusableNic& nic : nics) reasons.push_back(nic.why);
  fail(code, "{}", fmt::join(reasons, "; "));
}

// A setting that cannot be is an error in every way of using a NIC.
bool worth_another_try(const Error& error) { return error.code() != ErrorCode::kConfiguration; }

// A random number: it differs also between PEs of one process, between jobs with the same ranks,
// and between equal pids in two containers.
uint64_t random_owner() {
  uint64_t owner = 0;
  std::memcpy(&owner, random_bytes().data(), sizeof(owner));
  return owner | 1;
}

// Registers a page as windows will be, and as queues will be: an operating system may take GPU
// memory for the one and not for the other. When the queues themselves are registered routes are
// decided.
void try_memory(const IbgdaNic& nic) {
  const Backing page = queue_memory(nic.gpu, 4096);
  const nic::Memory memory = memory_of(nic.gpu, page.address(), page.bytes());
  const nic::MemoryRegion window(nic.device, nic.domain, memory);
  if (nic.device.use() == nic::NicUse::kDriven) {
    const nic::QueueRegion queues(nic.device, memory);
  }
}

void check_link_layer(const nic::Device& device, std::optional<nic::LinkLayer> wanted) {
  const nic::LinkLayer layer = device.port().link_layer;
  if (!wanted || layer == *wanted) return;
  fail(ErrorCode::kUnsupported, "{} is {}, and all PEs can go by {}", device.name(),
       to_string(layer), to_string(*wanted));
}

}  // namespace

// What a PE has.
struct Rails::Found {
  struct Link {
    nic::LinkLayer layer;
    uint32_t gbits;
    char nic[32];
  };
  Link link[nic::kMaxNics];  // by rail
  uint32_t nics;
  PlacementOffer placement;
  bool opened;
};

Rails::Found Rails::found() const {
  Found found{};
  found.opened = true;
  found.nics = static_cast<uint32_t>(opened_.nics.size());
  found.placement = placement_offer();
  for (size_t rail = 0; rail < nic::kMaxNics; ++rail) {
    const nic::Device& device = opened_.nics[nic_of(static_cast<uint32_t>(rail))].device;
    found.link[rail] = {device.port().link_layer, device.port().gbits, {}};
    device.name().copy(found.link[rail].nic, sizeof found.link[rail].nic - 1);
  }
  return found;
}

// All of its choice, or else again without what could not be opened.
void Rails::open_by(const Library& library, const Config& config, const std::shared_ptr<Gpu>& gpu) {
  std::optional<nic::GpuPlace> place;
  if (gpu) place = {gpu->index(), gpu->pci_address()};
  const nic::DeviceOptions options = {.list = nic::HcaList::from(config, library->software()),
                                      .path = nic::PathSettings::from(config, library->software()),
                                      .use = library->use()};
  nic::ChoiceOptions wish = {.list = options.list,
                             .rails = static_cast<size_t>(std::max(0, config.rails))};
  std::optional<Error> first;
  for (bool again = true; again;) {
    const nic::Choice choice = nic::choose_nics(*library, place, wish);
    opened_.why = choice.why;
    opened_.left_out = choice.left_out;
    opened_.nics.clear();
    again = false;
    for (const std::string& name : choice.names) {
      const auto same = [&](const nic::UnusableNic& other) { return other.name == name; };
      if (std::ranges::any_of(wish.refused, same)) refuse_all(wish.refused, first->code());
      try {
        opened_.nics.emplace_back(nic::Device(library, name, options), gpu,
                                  config.relaxed_ordering);
        check_link_layer(opened_.nics.back().device, link_layer_);
        try_memory(opened_.nics.back());
      } catch (const Error& error) {
        if (!worth_another_try(error) || options.list.chooses()) throw;
        if (!first) first = error;
        wish.refused.push_back({name, error.what()});
        again = true;
        break;
      }
    }
  }
}

// The software NIC leaves its host by UDP at most (PEAL_SOFTNIC_UDP), so between hosts any real one
// is better. False when there is none.
bool Rails::open_foreign(const Config& config, const std::shared_ptr<Gpu>& gpu) {
  const Library library = library_for(config, nic::NicUse::kVerbs);
  if (library->software()) return false;
  open_by(library, config, gpu);
  opened_.why_proxy = fmt::format("{} is no mlx5 device, and kernels drive no other", names());
  return true;
}

void Rails::open(const Config& config, const std::shared_ptr<Gpu>& gpu, bool one_host) {
  const bool automatic = config.transport == TransportKind::kAuto;
  if (config.transport == TransportKind::kProxy) {
    return open_by(library_for(config, nic::NicUse::kVerbs), config, gpu);
  }
  std::optional<Error> refused;
  try {
    const Library library = library_for(config, nic::NicUse::kDriven);
    if (automatic && library->software() && !one_host && open_foreign(config, gpu)) return;
    return open_by(library, config, gpu);
  } catch (const Error& error) {
    if (!worth_another_try(error)) throw;
    refused = error;
  }
  // Does it work without what kernels need? If not, that is not what is wrong.
  try {
    open_by(library_for(config, nic::NicUse::kVerbs), config, gpu);
  } catch (const Error&) {
    throw *refused;
  }
  if (!automatic) {
    fail(refused->code(), "{}; PEAL_TRANSPORT=proxy (or auto) lets a CPU thread drive {}",
         refused->what(), names());
  }
  opened_.why_proxy = refused->what();
}

std::string Rails::warning() const {
  std::vector<std::string> lines;
  for (const nic::UnusableNic& nic : opened_.left_out) {
    lines.push_back(
        fmt::format("{0} is left out and {1} used: {2}; PEAL_HCA=^{0} starts without this warning",
                    nic.name, names(), nic.why));
  }
  if (!opened_.why_proxy.empty()) {
    lines.push_back(
        fmt::format("kernels cannot drive {}: {}; a CPU thread posts for them, which is slower; "
                    "PEAL_TRANSPORT=proxy starts so without this warning",
                    names(), opened_.why_proxy));
  }
  return fmt::format("{}", fmt::join(lines, "\n"));
}

Rails::Rails(const Config& config, std::shared_ptr<Gpu> gpu, Bootstrap& bootstrap, const Log& log,
             bool one_host)
    : owner_(random_owner()) {
  std::vector<Found> all = gather_together(bootstrap, [&] {
    open(config, gpu, one_host);
    return found();
  });
  all = open_alike(config, gpu, bootstrap, one_host, std::move(all));
  for (const Found& found : all) count_ = std::max(count_, found.nics);
  std::vector<PlacementOffer> offers;
  for (const Found& found : all) offers.push_back(found.placement);
  agree_on_signal_ops(config.signal_ops, offers);
  std::vector<std::string> named;
  for (const IbgdaNic& nic : opened_.nics) named.push_back(nic.device.name());
  for (const nic::UnusableNic& nic : opened_.left_out) named.push_back(nic.name);
  warn_once(bootstrap, log, warning(), std::move(named));
  if (bootstrap.rank() == 0) warn_of_rates(log, all);
}

// A PE that has NICs of both kinds takes those that the others have, too. What cannot be had is an
// error later, which names two PEs (check_ends()).
std::vector<Rails::Found> Rails::open_alike(const Config& config, const std::shared_ptr<Gpu>& gpu,
                                            Bootstrap& bootstrap, bool one_host,
                                            std::vector<Found> first) {
  const auto layer_of = [](const Found& one) { return one.link[0].layer; };
  const auto as_first = [&](const Found& one) {
    return std::ranges::equal(one.link, first[0].link, {}, &Found::Link::layer,
                              &Found::Link::layer);
  };
  if (std::ranges::all_of(first, as_first)) return first;
  using nic::LinkLayer;
  const auto most = std::ranges::count(first, LinkLayer::kEthernet, layer_of) * 2;
  std::array<LinkLayer, 2> layers = {LinkLayer::kInfiniBand, LinkLayer::kEthernet};
  if (most > std::ssize(first)) std::ranges::reverse(layers);
  for (const LinkLayer layer : layers) {
    Opened before = std::exchange(opened_, {});
    link_layer_ = layer;
    Found mine{};
    try {
      open(config, gpu, one_host);
      mine = found();
    } catch (const Error&) {
      mine = {};
    }
    std::vector<Found> all = gather(bootstrap, mine);
    if (std::ranges::all_of(all, &Found::opened)) return all;
    opened_ = std::move(before);
  }
  link_layer_.reset();
  return first;
}

void Rails::warn_of_rates(const Log& log, const std::vector<Found>& all) {
  struct Rate {
    size_t pe;
    const Found::Link* link;
  };
  std::vector<Rate> rates;
  for (size_t pe = 0; pe < all.size(); ++pe) {
    for (const Found::Link& link : all[pe].link) {
      if (link.gbits != 0) rates.push_back({pe, &link});
    }
  }
  if (rates.empty()) return;
  const auto gbits = [](const Rate& rate) { return rate.link->gbits; };
  const auto [slow, fast] = std::ranges::minmax_element(rates, {}, gbits);
  if (gbits(*slow) == gbits(*fast)) return;
  log.warn(
      "nic",
      "PE {} goes by {} at {} Gb/s and PE {} by {} at {}: transfers between such are as slow as "
      "the slower link, and so is what waits for all; PEAL_HCA chooses NICs",
      slow->pe, slow->link->nic, gbits(*slow), fast->pe, fast->link->nic, gbits(*fast));
}

PlacementOffer Rails::placement_offer() const {
  std::vector<PlacementOffer> offers;
  for (const IbgdaNic& nic : opened_.nics) {
    PlacementOffer& offer = offers.emplace_back();
    offer.facts = nic.device.placement();
    nic.device.name().copy(offer.nic, sizeof offer.nic - 1);
  }
  return least_ordered(offers);
}

void Rails::agree_on_signal_ops(SignalOpsSetting asked, const std::vector<PlacementOffer>& offers) {
  signal_ops_ = choose_signal_ops(asked, offers);
  for (IbgdaNic& nic : opened_.nics) {
    const bool must = nic::placement_of(nic.device.placement()) != nic::Placement::kInOrder;
    if (signal_ops_.forced && must) nic.order = nic::QueueOrder::kForced;
    if (signal_ops_.any_order()) nic.order = nic::QueueOrder::kAny;
  }
}

std::string Rails::names() const {
  std::string names;
  for (const IbgdaNic& nic : opened_.nics) names += (names.empty() ? "" : "+") + nic.device.name();
  return names;
}

std::string Rails::model() const {
  if (opened_.nics.size() == 1) return opened_.nics[0].device.model();
  const nic::Device& first = opened_.nics[0].device;
  return first.software() ? fmt::format("{}({})", first.model(), names()) : names();
}

}  // namespace peal
