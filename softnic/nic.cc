// SPDX-License-Identifier: Apache-2.0
//
// The NIC of this process: its place on the fabric, and the engine that answers its control calls.
#include "softnic/nic.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <stdexcept>

#include "base/search.h"
#include "softnic/driver.h"
#include "softnic/engine/placement.h"
#include "softnic/gpu/client.h"
#include "softnic/wire/roce/socket.h"
#include "softnic/wire/wires.h"

namespace peal::softnic {

/// Where NICs of other hosts reach this one, and who they are.
struct UdpEnd {
  explicit UdpEnd(const Settings& settings)
      : socket({settings.udp.begin(), settings.udp.end()}), remotes(socket.address()) {}

  roce::Socket socket;
  roce::RemoteNics remotes;
};

namespace {

std::unique_ptr<UdpEnd> udp_end(const Settings& settings, const PresentedDevice& device) {
  if (settings.udp.empty() || !device.ethernet) return nullptr;
  return std::make_unique<UdpEnd>(settings);
}

std::optional<InternetAddress> address_of(const UdpEnd* end) {
  if (end == nullptr) return std::nullopt;
  return end->socket.address().byte;
}

}  // namespace

/// The engine as a thread of this process, talking to others through shared memory and by UDP.
struct CpuEngine {
  CpuEngine(Fabric& fabric, const Router& router, const Settings& settings,
            const PresentedDevice& device, UdpEnd* end)
      : tables(fabric.lid(), static_cast<uint32_t>(fabric.generation()), settings.timing),
        wire(tables.port, fabric, router),
        udp(end == nullptr
                ? nullptr
                : std::make_unique<roce::UdpWire>(tables.port, end->socket, end->remotes)),
        control(tables, driver),
        driver(tables.port, Wires(wire, udp.get(), &fabric)) {
    tables.port.by_value = settings.doorbell_by_value;
    tables.port.pci_atomics = device.pci_atomics;
    if (settings.placement) {
      placement = std::make_unique<WritePlacement>(*settings.placement + fabric.lid());
      tables.port.placement = placement.get();
    }
    driver.start([this] { control.collect(); });
  }

  void share(std::optional<SharedRegion> region) {
    const Runner::Pause pause(driver);
    if (region) wire.share(std::move(*region));
  }
  void take_back(uint32_t key) {
    const Runner::Pause pause(driver);
    wire.take_back(key);
  }

  Tables tables;
  std::unique_ptr<WritePlacement> placement;
  ShmWire wire;
  std::unique_ptr<roce::UdpWire> udp;
  Control control;
  EngineThread driver;  // last: its thread uses all of the above
};

SoftwareNic::SoftwareNic(const PresentedDevice& device)
    : settings_(Settings::from_environment()),
      device_(device),
      fabric_(settings_),
      udp_(udp_end(settings_, device_)),
      gids_(gid_table(device_, fabric_.lid(), fabric_.guid(), address_of(udp_.get()))),
      router_(fabric_, device_, gids_, udp_ == nullptr ? nullptr : &udp_->remotes),
      exporter_(gpu::make_cuda_exporter()),
      cpu_(std::make_unique<CpuEngine>(fabric_, router_, settings_, device_, udp_.get())) {
  events_.add(cpu_->control.event_fd());
  fabric_.announce({.ethernet = device_.ethernet,
                    .active = device_.active(),
                    .subnet = device_.subnet,
                    .gids = gids_});
  if (settings_.faults) cpu_->control.set_faults(*settings_.faults);
}
SoftwareNic::~SoftwareNic() = default;

Outcome SoftwareNic::run(const Command& command) const {
  return on_gpu() ? gpu_->run(command) : cpu_->control.run(command);
}

Created SoftwareNic::counted(const Command& make) {
  if (queue_pairs_.fetch_add(1) >= device_.max_qp) {
    queue_pairs_.fetch_sub(1);
    return {0, {CommandStatus::kNoResources, "no queue pair left: max_qp of the presentation"}};
  }
  const Created created = run(make);
  if (created.refusal.refused()) queue_pairs_.fetch_sub(1);
  return created;
}

Refusal SoftwareNic::released(const Command& destroy) {
  const Refusal refusal = run(destroy).refusal;
  if (!refusal.refused()) queue_pairs_.fetch_sub(1);
  return refusal;
}

namespace {

/// One for all NICs of the process, gone with the last.
std::shared_ptr<GpuCopier> copier_for(const gpu::Exporter& exporter, const void* address) {
  static std::mutex mutex;
  static std::weak_ptr<GpuCopier> of_process;
  const std::lock_guard lock(mutex);
  std::shared_ptr<GpuCopier> copier = of_process.lock();
  if (copier == nullptr) {
    copier = exporter.make_copier(address);
    of_process = copier;
    gpu_copier = copier.get();
  }
  return copier;
}

}  // namespace

bool SoftwareNic::wants_gpu(bool memory_of_gpu) const {
  if (settings_.engine != EngineChoice::kAuto) return settings_.engine == EngineChoice::kGpu;
  return memory_of_gpu && !kept_on_cpu_ && udp_ == nullptr && !cpu_->control.has_queues();
}

bool SoftwareNic::admit(const void* address) {
  const bool of_gpu = exporter_->owns(address);
  if (!decided_ && wants_gpu(of_gpu)) move_to_gpu(address);
  decided_ = true;
  if (on_gpu()) {
    if (of_gpu) return true;
    throw std::runtime_error(
        "memory of the host, and this NIC runs on a GPU (PEAL_SOFTNIC_ENGINE=gpu, or its first "
        "memory was a GPU's), which reaches GPU memory only: PEAL_SOFTNIC_ENGINE=cpu serves both");
  }
  if (!of_gpu) return false;
  if (copier_ == nullptr) copier_ = copier_for(*exporter_, address);
  return true;
}

void SoftwareNic::tell_of_copied_queues() {
  if (on_gpu() || settings_.engine != EngineChoice::kAuto || told_of_copies_) return;
  told_of_copies_ = true;
  const char* cause =
      "its first memory or queue was the host's: register the GPU's memory first, or set "
      "PEAL_SOFTNIC_ENGINE=gpu";
  if (udp_ != nullptr) {
    cause = "it has an address for UDP: unset PEAL_SOFTNIC_UDP";
  } else if (kept_on_cpu_) {
    cause =
        "it was kept there (peal_softnic_keep_on_cpu, or a KSM key): leave that out and set "
        "PEAL_SOFTNIC_ENGINE=gpu";
  }
  std::fprintf(stderr,
               "softnic: queues in a GPU's memory, and this NIC runs on the CPU, which serves them "
               "by copies of some 10 us each, since %s; PEAL_SOFTNIC_ENGINE=cpu says that this is "
               "meant\n",
               cause);
}

void SoftwareNic::keep_on_cpu() {
  if (on_gpu() || settings_.engine == EngineChoice::kGpu) {
    throw std::runtime_error(
        "queues in host memory, and this NIC runs on a GPU (PEAL_SOFTNIC_ENGINE=gpu, or its first "
        "memory was a GPU's): PEAL_SOFTNIC_ENGINE=cpu serves both");
  }
  kept_on_cpu_ = true;
}

namespace {

/// Path of the engine's program: beside the file this code is in, or where the build leaves it.
std::string program_beside_library() {
  static const char here = 0;
  const std::string folder = file_loaded_at(&here).parent_path().string();
  if (folder.empty()) return "peal_softnic_engine";
  const std::string built = folder + "/../gpu/peal_softnic_engine";
  return access(built.c_str(), X_OK) == 0 ? built : folder + "/peal_softnic_engine";
}

/// Takes the numbers of `table`, which `make` hands out in order, and gives back those not in use.
template <class Make, class T>
void claim_numbers(gpu::Client& client, const Table<T>& table, const Make& make) {
  for (uint32_t number = 1; number < table.used(); ++number) {
    if (client.run(make).number != number) {
      throw std::runtime_error("the GPU engine counts differently");
    }
  }
  for (uint32_t number = 1; number < table.used(); ++number) {
    if (!table[number].exists) client.run(Undo<Make>{number});
  }
}

}  // namespace

/// Only what is a number moves: protection domains, UAR pages, completion queues of verbs calls.
void SoftwareNic::move_to_gpu(const void* address) {
  if (udp_ != nullptr) {
    throw std::runtime_error(
        "PEAL_SOFTNIC_ENGINE=gpu, and this NIC has an address for UDP (PEAL_SOFTNIC_UDP), which an "
        "engine "
        "on a GPU does not serve");
  }
  if (cpu_->control.has_queues()) {
    throw std::runtime_error(
        "PEAL_SOFTNIC_ENGINE=gpu, and this NIC has queues in the host's memory: register the GPU's "
        "memory first, or set PEAL_SOFTNIC_ENGINE=cpu");
  }
  const std::string program =
      settings_.engine_program.empty() ? program_beside_library() : settings_.engine_program;
  const gpu::ProcessHello hello = {
      .lid = fabric_.lid(),
      .epoch = static_cast<uint32_t>(fabric_.generation()),
      .timing = settings_.timing,
      .any_placement = settings_.placement.has_value(),
      .insists = settings_.gpu.has_value(),
      .gpu = settings_.gpu ? exporter_->gpu_at(*settings_.gpu) : exporter_->gpu_for_nic(address)};
  auto client = std::make_unique<gpu::Client>(
      gpu::Client::Place{.directory = fabric_.directory(), .program = program}, hello, *exporter_);
  if (exporter_->takes_turns(address, client->gpu())) {
    std::fprintf(stderr,
                 "softnic: the NIC's kernel takes turns with yours on one GPU, so completions take "
                 "milliseconds: run MPS (nvidia-cuda-mps-control -d), or name another GPU in "
                 "PEAL_SOFTNIC_GPU\n");
  }
  static std::byte page;
  claim_numbers(*client, cpu_->control.pds(), AllocatePd{});
  claim_numbers(*client, cpu_->tables.pages, AttachUar{&page});
  claim_numbers(*client, cpu_->tables.cqs, CreateCq{});
  gpu_ = std::move(client);
  home_ = exporter_->number_of(address);
  cpu_.reset();
  if (settings_.faults) {
    const Refusal refusal = set_faults(*settings_.faults);
    if (refusal.refused())
      throw std::runtime_error("PEAL_SOFTNIC_FAULTS: " + std::string(refusal.reason));
  }
  events_.add(gpu_->event_fd());
}

Refusal SoftwareNic::set_faults(const FaultPlan& plan) {
  FaultRules part = {.seed = plan.seed, .total = plan.count, .first = 0, .rule = {}};
  Refusal refusal;
  do {
    const uint32_t left = std::min(plan.count - part.first, FaultRules::kMost);
    std::copy_n(plan.rule + part.first, left, part.rule);
    refusal = run(part).refusal;
    part.first += left;
  } while (!refusal.refused() && part.first < plan.count);
  return refusal;
}

namespace {

Refusal only_on_cpu(const char* what) { return {CommandStatus::kBadOperation, what}; }

}  // namespace

bool SoftwareNic::is_gpu_memory(const void* address) const { return exporter_->owns(address); }

std::shared_ptr<std::byte> SoftwareNic::gpu_page(size_t bytes) const {
  return on_gpu() ? exporter_->allocate(bytes, home_) : nullptr;
}

std::byte* SoftwareNic::as_engine_has(std::byte* memory) const {
  return on_gpu() || !exporter_->owns(memory) ? memory : with_mark(memory);
}

Created SoftwareNic::register_memory(const Key& config) {
  Key key = config;
  key.memory = as_engine_has(config.memory);
  const Created created = run(RegisterMemory{key});
  if (!created.refusal.refused() && !on_gpu() && !in_gpu(key.memory)) {
    cpu_->share(SharedRegion::of(created.number, config.memory, config.bytes));
  }
  return created;
}
Refusal SoftwareNic::change_memory(uint32_t key, const Key& config) {
  if (on_gpu()) return only_on_cpu("an engine on a GPU changes no memory keys");
  Key changed = config;
  changed.memory = as_engine_has(config.memory);
  const Refusal refusal = cpu_->control.change_memory(key, changed);
  if (!refusal.refused()) {
    cpu_->take_back(key);
    if (!in_gpu(changed.memory)) {
      cpu_->share(SharedRegion::of(key, config.memory, config.bytes));
    }
  }
  return refusal;
}
Created SoftwareNic::make_indirect_key(const IndirectKey& config) {
  if (on_gpu()) {
    return {0, only_on_cpu("an engine on a GPU has no indirect memory keys (KSM): set "
                           "PEAL_SOFTNIC_ENGINE=cpu")};
  }
  if (settings_.engine == EngineChoice::kGpu) {
    return {0, only_on_cpu("PEAL_SOFTNIC_ENGINE=gpu, and an engine on a GPU has no indirect memory "
                           "keys (KSM): set PEAL_SOFTNIC_ENGINE=cpu")};
  }
  kept_on_cpu_ = true;  // an engine on a GPU that came later would not know it
  return cpu_->control.make_indirect_key(config);
}
Refusal SoftwareNic::deregister_memory(uint32_t key) {
  const Refusal refusal = run(DeregisterMemory{key});
  if (!refusal.refused() && !on_gpu()) cpu_->take_back(key);
  return refusal;
}

Refusal SoftwareNic::arm_cq(uint32_t cqn, uint32_t consumed, bool solicited_only,
                            CompletionListener& listener) {
  if (on_gpu()) return only_on_cpu("an engine on a GPU raises no completion events");
  return cpu_->control.arm_cq(cqn, consumed, solicited_only, listener);
}

Refusal SoftwareNic::listen_cq(uint32_t cqn, CompletionListener& listener) {
  if (on_gpu()) return only_on_cpu("an engine on a GPU raises no completion events");
  return cpu_->control.listen_cq(cqn, listener);
}

Refusal SoftwareNic::arm_srq(uint32_t srqn, uint32_t limit) {
  if (on_gpu()) return only_on_cpu("an engine on a GPU takes nothing from shared receive queues");
  return cpu_->control.arm_srq(srqn, limit);
}
uint32_t SoftwareNic::srq_limit(uint32_t srqn) const {
  return on_gpu() ? 0 : cpu_->control.srq_limit(srqn);
}

Refusal SoftwareNic::query_qp(uint32_t qpn, QueuePairAttributes* answer) const {
  const Outcome outcome = run(QueryQp{qpn});
  *answer = outcome.attributes;
  return outcome.refusal;
}

bool SoftwareNic::next_event(AsyncEvent* event) {
  return on_gpu() ? gpu_->next_event(event) : cpu_->control.next_event(event);
}

}  // namespace peal::softnic
