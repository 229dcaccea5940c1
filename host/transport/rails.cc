// SPDX-License-Identifier: Apache-2.0
#include "host/transport/rails.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "host/base/error.h"
#include "host/nic/choice.h"
#include "host/nic/hca_list.h"

namespace peal {
namespace {

static_assert(nic::kMaxNics == mlx5::kMaxRails);

// What a PE has.
struct Found {
  uint32_t nics;  // 0: it failed
};

}  // namespace

void Rails::open(const Config& config, const std::shared_ptr<Gpu>& gpu, nic::NicUse use) {
  const auto library = nic::VerbsLibrary::open(nic::LibrarySearch::from(config, use));
  std::optional<nic::GpuPlace> place;
  if (gpu) place = {gpu->index(), gpu->pci_address()};
  const nic::DeviceOptions options = {.list = nic::HcaList::from(config, library->software()),
                                      .path = nic::PathSettings::from(config, library->software()),
                                      .use = use};
  const nic::Choice choice = nic::choose_nics(
      *library, place,
      {.list = options.list, .rails = static_cast<size_t>(std::max(0, config.rails))});
  why_ = choice.why;
  for (const std::string& name : choice.names) {
    nics_.emplace_back(nic::Device(library, name, options), gpu, config.relaxed_ordering);
  }
}

Rails::Rails(const Config& config, std::shared_ptr<Gpu> gpu, Bootstrap& bootstrap,
             nic::NicUse use) {
  std::optional<Error> failed;
  try {
    open(config, gpu, use);
  } catch (const Error& error) {
    failed = error;
  }
  const std::vector<Found> all =
      gather(bootstrap, Found{failed ? 0u : static_cast<uint32_t>(nics_.size())});
  if (failed) throw *failed;
  for (size_t pe = 0; pe < all.size(); ++pe) {
    if (all[pe].nics == 0) {
      fail(ErrorCode::kUnsupported, "PE {} could not open its NIC (its message says why)", pe);
    }
    count_ = std::max(count_, all[pe].nics);
  }
}

std::string Rails::model() const {
  if (nics_.size() == 1) return nics_[0].device.model();
  std::string names;
  for (const IbgdaNic& nic : nics_) names += (names.empty() ? "" : "+") + nic.device.name();
  const nic::Device& first = nics_[0].device;
  return first.software() ? fmt::format("{}({})", first.model(), names) : names;
}

}  // namespace peal
