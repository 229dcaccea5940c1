// SPDX-License-Identifier: Apache-2.0
//
// Opening the NIC that lies nearest, and letting kernels ring it.
#include "host/transport/ibgda.h"

#include <unistd.h>

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
nic::Device open_device(const Config& config, const Gpu* gpu, std::string& why) {
  const auto library = nic::VerbsLibrary::open(nic::LibrarySearch::from(config));
  std::optional<nic::GpuPlace> place;
  if (gpu) place = {gpu->index(), gpu->pci_address()};
  const nic::Choice choice = nic::choose_nics(
      *library, place, {.list = nic::HcaList::from(config, library->software()), .rails = 1});
  why = choice.why;
  return nic::Device(library, choice.names[0]);
}

// Lets the GPU's kernels ring, if there are such and they cannot yet. A software NIC's page is
// memory; a ConnectX's are registers, which CUDA maps if asked for that.
PinnedRange pin_page(const IbgdaNic& nic, const nic::Uar& uar) {
  auto* const page = static_cast<std::byte*>(uar.base());
  const auto bytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  if (!nic.gpu || nic.gpu->knows(page)) return {};
  return nic.device.software() ? pin(nic.gpu, page, bytes) : pin_registers(nic.gpu, page, bytes);
}

}  // namespace

IbgdaNic::IbgdaNic(const Config& config, std::shared_ptr<Gpu> kernels_gpu)
    : gpu(std::move(kernels_gpu)),
      payload(payload_ordering(config.relaxed_ordering, gpu != nullptr)),
      device(open_device(config, gpu.get(), why)),
      domain(device) {}

Doorbell::Doorbell(const IbgdaNic& nic)
    : uar_(nic.device),
      pinned_(pin_page(nic, uar_)),
      address_(static_cast<uint64_t*>(pinned_ ? nic.gpu->pointer_to(uar_.doorbell())
                                              : uar_.doorbell())) {}

}  // namespace peal
