// SPDX-License-Identifier: Apache-2.0
//
// An engine runner without a GPU: the engine's step on a thread, over memory that PEs share by
// descriptor. Tests of everything around the kernel run on it.
#include <sys/mman.h>
#include <sys/prctl.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/patience.h"
#include "softnic/gpu/engine_runner.h"
#include "softnic/gpu/lossy.h"

namespace peal::softnic::gpu {

namespace {

constexpr uint32_t kLids = 1025;
constexpr uint32_t kBudget = 64;
constexpr Patience::Nap kLongestNap{200};

size_t bytes_of(std::span<const ProcessMemory> extents) {
  size_t bytes = 0;
  for (const ProcessMemory& extent : extents) bytes += extent.bytes;
  return bytes;
}

class HostEngineRunner : public EngineRunner {
 public:
  ~HostEngineRunner() override { stop(); }

  std::byte* map(std::span<const ProcessMemory> extents, std::span<const Fd> descriptors) override {
    void* const memory = mmap(nullptr, bytes_of(extents), PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw EngineRunnerError(std::string("mmap: ") + std::strerror(errno));
    std::byte* at = static_cast<std::byte*>(memory);
    for (size_t i = 0; i < extents.size(); ++i) {
      if (extents[i].kind != ProcessMemory::Kind::kDescriptor || !descriptors[i]) {
        throw EngineRunnerError("this engine maps memory by descriptor only");
      }
      if (mmap(at, extents[i].bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
               descriptors[i].get(), 0) == MAP_FAILED) {
        throw EngineRunnerError(std::string("mmap: ") + std::strerror(errno));
      }
      at += extents[i].bytes;
    }
    return static_cast<std::byte*>(memory);
  }
  void unmap(std::span<const ProcessMemory> extents, std::byte* memory) override {
    munmap(memory, bytes_of(extents));
  }

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
    prctl(PR_SET_TIMERSLACK, 1000);  // or a sleep of 20 us takes 70
    Patience patience(kLongestNap);
    const bool lossy = ports_.front()->faults != nullptr;
    while (!stop_.load(std::memory_order_relaxed)) {
      bool tells = false;
      const bool worked = lossy ? lossy_round({by_lid_.data(), kLids}, work_.data(),
                                              static_cast<uint32_t>(work_.size()), lossy_wire_,
                                              monotonic_ns(), &tells)
                                : round(&tells);
      if (tells) attention_.store(true, std::memory_order_relaxed);
      patience.after(worked);
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

std::unique_ptr<EngineRunner> make_engine_runner(const GpuId&) {
  return std::make_unique<HostEngineRunner>();
}

}  // namespace peal::softnic::gpu
