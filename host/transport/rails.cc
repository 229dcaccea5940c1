// SPDX-License-Identifier: Apache-2.0
#include "host/transport/rails.h"

#include <fmt/format.h>

#include <algorithm>
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

static_assert(nic::kMaxNics == mlx5::kMaxRails);

using Library = std::shared_ptr<const nic::VerbsLibrary>;

// What a PE has.
struct Found {
  uint32_t nics;
  PlacementOffer placement;
};

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

// By chance: PEs of one process, of jobs with the same ranks, and with the same pid in two
// containers have different ones.
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
  if (nic.device.use() == nic::NicUse::kDevx) {
    const nic::Umem queues(nic.device, memory);
  }
}

}  // namespace

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
    why_ = choice.why;
    left_out_ = choice.left_out;
    nics_.clear();
    again = false;
    for (const std::string& name : choice.names) {
      const auto same = [&](const nic::UnusableNic& other) { return other.name == name; };
      if (std::ranges::any_of(wish.refused, same)) refuse_all(wish.refused, first->code());
      try {
        nics_.emplace_back(nic::Device(library, name, options), gpu, config.relaxed_ordering);
        try_memory(nics_.back());
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

// The software NIC does not leave its host, so between hosts any real one is better. False when
// there is none.
bool Rails::open_foreign(const Config& config, const std::shared_ptr<Gpu>& gpu) {
  const Library library = library_for(config, nic::NicUse::kVerbs);
  if (library->software()) return false;
  open_by(library, config, gpu);
  why_proxy_ = fmt::format("{} is no mlx5 device, and kernels drive no other", names());
  return true;
}

void Rails::open(const Config& config, const std::shared_ptr<Gpu>& gpu, bool one_host) {
  const bool automatic = config.transport == TransportKind::kAuto;
  if (config.transport == TransportKind::kProxy) {
    return open_by(library_for(config, nic::NicUse::kVerbs), config, gpu);
  }
  std::optional<Error> refused;
  try {
    const Library library = library_for(config, nic::NicUse::kDevx);
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
  why_proxy_ = refused->what();
}

std::string Rails::warning() const {
  std::vector<std::string> lines;
  for (const nic::UnusableNic& nic : left_out_) {
    lines.push_back(
        fmt::format("{0} is left out and {1} used: {2}; PEAL_HCA=^{0} starts without this warning",
                    nic.name, names(), nic.why));
  }
  if (!why_proxy_.empty()) {
    lines.push_back(
        fmt::format("kernels cannot drive {}: {}; a CPU thread posts for them, which is slower; "
                    "PEAL_TRANSPORT=proxy starts so without this warning",
                    names(), why_proxy_));
  }
  return fmt::format("{}", fmt::join(lines, "\n"));
}

Rails::Rails(const Config& config, std::shared_ptr<Gpu> gpu, Bootstrap& bootstrap, const Log& log,
             bool one_host)
    : owner_(random_owner()) {
  const std::vector<Found> all = gather_together(bootstrap, [&] {
    open(config, gpu, one_host);
    return Found{static_cast<uint32_t>(nics_.size()), placement_offer()};
  });
  for (const Found& found : all) count_ = std::max(count_, found.nics);
  std::vector<PlacementOffer> offers;
  for (const Found& found : all) offers.push_back(found.placement);
  agree_on_signal_ops(config.signal_ops, offers);
  std::vector<std::string> named;
  for (const IbgdaNic& nic : nics_) named.push_back(nic.device.name());
  for (const nic::UnusableNic& nic : left_out_) named.push_back(nic.name);
  warn_once(bootstrap, log, warning(), std::move(named));
}

PlacementOffer Rails::placement_offer() const {
  std::vector<PlacementOffer> offers;
  for (const IbgdaNic& nic : nics_) {
    PlacementOffer& offer = offers.emplace_back();
    offer.facts = nic.device.placement();
    nic.device.name().copy(offer.nic, sizeof offer.nic - 1);
  }
  return least_ordered(offers);
}

void Rails::agree_on_signal_ops(SignalOpsSetting asked, const std::vector<PlacementOffer>& offers) {
  signal_ops_ = choose_signal_ops(asked, offers);
  for (IbgdaNic& nic : nics_) {
    const bool must = nic::placement_of(nic.device.placement()) != nic::Placement::kInOrder;
    if (signal_ops_.forced && must) nic.order = nic::QueueOrder::kForced;
    if (signal_ops_.any_order()) nic.order = nic::QueueOrder::kAny;
  }
}

std::string Rails::names() const {
  std::string names;
  for (const IbgdaNic& nic : nics_) names += (names.empty() ? "" : "+") + nic.device.name();
  return names;
}

std::string Rails::model() const {
  if (nics_.size() == 1) return nics_[0].device.model();
  const nic::Device& first = nics_[0].device;
  return first.software() ? fmt::format("{}({})", first.model(), names()) : names();
}

}  // namespace peal
