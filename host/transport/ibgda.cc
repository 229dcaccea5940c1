// SPDX-License-Identifier: Apache-2.0
//
// Opening the NIC that lies nearest.
#include "host/transport/ibgda.h"

#include <optional>
#include <utility>

#include "host/nic/choice.h"
#include "host/nic/hca_list.h"

namespace peal {
namespace {

// Next to a GPU it is worth its fences: there the NIC itself may be many lanes of one.
nic::Ordering payload_ordering(RelaxedOrdering asked, bool on_gpu) {
  const bool relaxed = asked == RelaxedOrdering::kOn || (asked == RelaxedOrdering::kAuto && on_gpu);
  return relaxed ? nic::Ordering::kRelaxed : nic::Ordering::kStrict;
}

// The NIC nearest to `gpu`, which may be null; `why` gets the reason.
nic::Device open_device(const Config& config, const Gpu* gpu, nic::NicUse use, std::string& why) {
  const auto library = nic::VerbsLibrary::open(nic::LibrarySearch::from(config, use));
  std::optional<nic::GpuPlace> place;
  if (gpu) place = {gpu->index(), gpu->pci_address()};
  const nic::DeviceOptions options = {.list = nic::HcaList::from(config, library->software()),
                                      .path = nic::PathSettings::from(config, library->software()),
                                      .use = use};
  const nic::Choice choice = nic::choose_nic(*library, options.list, place);
  why = choice.why;
  return nic::Device(library, choice.name, options);
}

}  // namespace

IbgdaNic::IbgdaNic(const Config& config, std::shared_ptr<Gpu> kernels_gpu, nic::NicUse use)
    : gpu(std::move(kernels_gpu)),
      payload(payload_ordering(config.relaxed_ordering, gpu != nullptr)),
      device(open_device(config, gpu.get(), use, why)),
      domain(device) {}

nic::Memory memory_of(const std::shared_ptr<Gpu>& gpu, std::byte* address, size_t bytes) {
  if (!gpu || !gpu->holds(address)) return {address, bytes};
  return {address, bytes,
          [gpu](std::byte* first_page, size_t whole) { return gpu->lend(first_page, whole); }};
}

}  // namespace peal
