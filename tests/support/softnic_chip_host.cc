// SPDX-License-Identifier: Apache-2.0
//
// A chip without a GPU: the engine's step on a thread, over memory that PEs share by descriptor.
// Tests of everything around the kernel run on it.
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "softnic/gpu/chip.h"
#include "softnic/gpu/lossy.h"
#include "softnic/gpu/wire_direct.h"

namespace peal::softnic::gpu {

namespace {

constexpr uint32_t kLids = 1025;
constexpr uint32_t kBudget = 64;

class HostChip : public Chip {
 public:
  ~HostChip() override { stop(); }

  std::byte* map(const Extent& extent, const Fd& descriptor) override {
    if (extent.kind != Extent::Kind::kDescriptor || !descriptor) {
      throw ChipError("this engine maps memory by descriptor only");
    }
    void* memory =
        mmap(nullptr, extent.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0);
    if (memory == MAP_FAILED) throw ChipError(std::string("mmap: ") + std::strerror(errno));
    return static_cast<std::byte*>(memory);
  }
  void unmap(const Extent& extent, std::byte* memory) override { munmap(memory, extent.bytes); }

  void start(std::span<Port* const> ports) override {
    by_lid_.fill(nullptr);
    ports_.assign(ports.begin(), ports.end());
    work_.clear();
    for (Port* port : ports_) {
      by_lid_[port->lid] = port;
      for (uint32_t i = 0; i < port->qp_count; ++i) {
        if (needs_service(port->qps[i])) work_.push_back({port, &port->qps[i]});
      }
    }
    stop_.store(false, std::memory_order_relaxed);
    thread_ = std::thread([this] { run(); });
  }
  void stop() override {
    if (!thread_.joinable()) return;
    stop_.store(true, std::memory_order_relaxed);
    thread_.join();
  }
  bool running() const override { return thread_.joinable(); }
  bool beat() override { return attention_.exchange(false, std::memory_order_relaxed); }

 private:
  void run() {
    const bool lossy = ports_.front()->faults != nullptr;
    while (!stop_.load(std::memory_order_relaxed)) {
      bool tells = false;
      const bool worked = lossy ? lossy_round({by_lid_.data(), kLids}, work_.data(),
                                              static_cast<uint32_t>(work_.size()), lossy_wire_,
                                              monotonic_ns(), &tells)
                                : round(&tells);
      if (tells) attention_.store(true, std::memory_order_relaxed);
      if (!worked) std::this_thread::yield();
    }
  }

  bool round(bool* tells) {
    DirectWire wire{by_lid_.data(), kLids};
    bool worked = false;
    for (const Assignment& each : work_) {
      worked |= advance(*each.port, wire, *each.qp, monotonic_ns(), kBudget);
      if (each.port->events.count > 0) *tells = true;
    }
    return worked;
  }

  std::array<Port*, kLids> by_lid_{};
  std::vector<Port*> ports_;
  std::vector<Assignment> work_;
  LossyWire lossy_wire_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> attention_{false};
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Chip> make_chip(const GpuId&) { return std::make_unique<HostChip>(); }

}  // namespace peal::softnic::gpu
