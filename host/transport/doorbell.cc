// SPDX-License-Identifier: Apache-2.0
#include "host/transport/doorbell.h"

#include <fmt/format.h>

#include <utility>

#include "host/base/error.h"

namespace peal {

Bells::Bells(std::shared_ptr<Assist> assist, Backing words, size_t count)
    : assist_(std::move(assist)), words_(std::move(words)) {
  assist_->watch(of(0), count);
}

Bells::~Bells() {
  if (assist_) assist_->forget(of(0));
}

uint64_t* Bells::of(size_t index) const {
  return words_ ? reinterpret_cast<uint64_t*>(words_->address()) + index : register_;
}

namespace {

// A software NIC on a GPU puts the page where the caller's GPU is.
nic::RegisterPage open_page(const nic::Device& device, const Gpu* gpu) {
  if (gpu == nullptr) return nic::RegisterPage(device);
  return gpu->within([&](const cuda::Driver&) { return nic::RegisterPage(device); });
}

}  // namespace

Doorbell::Doorbell(const nic::Device& device, std::shared_ptr<Gpu> gpu, DoorbellKind asked)
    : gpu_(std::move(gpu)), page_(open_page(device, gpu_.get())) {
  if (asked == DoorbellKind::kCpu) {
    assist(device, "PEAL_DOORBELL=cpu");
    return;
  }
  if (!gpu_ && page_.write_combining()) {  // kernels on a CPU flush nothing
    assist(device, "its page combines the writes of a CPU");
    return;
  }
  try {
    map(device);
  } catch (const Error& error) {
    if (asked == DoorbellKind::kGpu) {
      fail(
          ErrorCode::kUnsupported,
          "PEAL_DOORBELL=gpu, but kernels cannot ring {}: {}; PEAL_DOORBELL=auto lets a CPU thread "
          "ring for them",
          device.name(), error.what());
    }
    pinned_.reset();
    assist(device, error.what());
    warning_ = fmt::format(
        "kernels cannot ring {}: {}; a CPU thread rings for them, which is slower; "
        "PEAL_DOORBELL=cpu starts so without this warning",
        device.name(), error.what());
  }
}

// Lets the kernels ring, if they cannot yet. A software NIC's page is memory; a ConnectX's are
// registers, which CUDA maps if asked for that.
void Doorbell::map(const nic::Device& device) {
  auto* const page = static_cast<std::byte*>(page_.base());
  const ptrdiff_t offset = static_cast<std::byte*>(page_.doorbell()) - page;
  std::byte* mapped = page;
  if (gpu_ && !gpu_->knows(page)) {
    pinned_ = device.software() ? pin(gpu_, page, nic::RegisterPage::kBytes)
                                : pin_registers(gpu_, page, nic::RegisterPage::kBytes);
    // For what was registered the driver answers, not for any place in it.
    mapped = static_cast<std::byte*>(gpu_->pointer_to(page));
  }
  address_ = reinterpret_cast<uint64_t*>(mapped + offset);
}

void Doorbell::assist(const nic::Device& device, const std::string& why) {
  if (gpu_ && gpu_->holds(page_.base())) {
    fail(ErrorCode::kUnsupported,
         "{}: the doorbell page of {} ({}) is memory of a GPU, which no CPU thread can write; set "
         "PEAL_DOORBELL=gpu or auto",
         why, device.name(), device.model());
  }
  why_assisted_ = why;
  assist_ = std::make_shared<Assist>(static_cast<uint64_t*>(page_.doorbell()));
}

Bells Doorbell::bells(size_t count) const {
  if (!assist_) return Bells(address_);
  const size_t bytes = count * sizeof(uint64_t);
  return {assist_,
          gpu_ ? make_pinned_backing(gpu_, bytes, "doorbell words")
               : make_host_backing(bytes, "peal-bells"),
          count};
}

std::string Doorbell::describe() const {
  if (!assist_) return fmt::format("kernels ring ({} doorbell page)", page_.kind());
  return fmt::format("a CPU thread rings for kernels ({} doorbell page): {}", page_.kind(),
                     why_assisted_);
}

}  // namespace peal
