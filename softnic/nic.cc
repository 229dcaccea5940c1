// SPDX-License-Identifier: Apache-2.0
//
// The NIC of this process: its place on the fabric, and the engine that answers its control calls.
#include "softnic/nic.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <stdexcept>
#include <system_error>

#include "base/files.h"
#include "softnic/control/commands.h"
#include "softnic/control/control.h"
#include "softnic/driver.h"
#include "softnic/engine/placement.h"
#include "softnic/gpu/client.h"
#include "softnic/presentation/settings.h"
#include "softnic/wire/fabric.h"
#include "softnic/wire/route.h"
#include "softnic/wire/wire.h"

namespace peal::softnic {

namespace {

/// The engine as a thread of this process, talking to others through shared memory.
struct CpuEngine {
  CpuEngine(Fabric& fabric, const Router& router, const Settings& settings,
            const PresentedDevice& device)
      : tables(fabric.lid(), static_cast<uint32_t>(fabric.generation()), settings.timing),
        wire(tables.port, fabric, router),
        control(tables, driver),
        driver(tables.port, wire) {
    tables.port.by_value = settings.doorbell_by_value;
    tables.port.pci_atomics = device.pci_atomics;
    if (settings.placement) {
      placement = std::make_unique<Placement>(*settings.placement + fabric.lid());
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
  std::unique_ptr<Placement> placement;
  ShmWire wire;
  Control control;
  EngineThread driver;  // last: its thread uses all of the above
};

}  // namespace

struct Nic::State {
  explicit State(const PresentedDevice& as);
  /// By the engine in charge.
  Outcome run(const Command& command) const {
    return gpu != nullptr ? gpu->run(command) : cpu->control.run(command);
  }
  int event_fd() const { return gpu != nullptr ? gpu->event_fd() : cpu->control.event_fd(); }

  bool admit(const void* address);
  void decide(const void* address);
  void move_to_gpu(const void* address);
  gpu::Hello introduction(const void* address) const;
  void watch_events();
  Refusal set_faults(const FaultPlan& plan) const;

  /// Makes a queue pair, if the device has one left.
  Created counted(const Command& make) {
    if (queue_pairs.fetch_add(1) >= device.max_qp) {
      queue_pairs.fetch_sub(1);
      return {0, {CommandStatus::kNoResources, "no queue pair left: max_qp of the presentation"}};
    }
    const Created created = run(make);
    if (created.refusal.refused()) queue_pairs.fetch_sub(1);
    return created;
  }
  Refusal released(const Command& destroy) {
    const Refusal refusal = run(destroy).refusal;
    if (!refusal.refused()) queue_pairs.fetch_sub(1);
    return refusal;
  }

  Settings settings;
  PresentedDevice device;
  Fabric fabric;
  std::vector<Gid> gids;
  Router router;
  std::unique_ptr<gpu::Exporter> exporter = gpu::make_cuda_exporter();
  std::unique_ptr<CpuEngine> cpu;  // until the GPU takes over
  std::unique_ptr<gpu::Client> gpu;
  int home = 0;  // GPU of the memory that decided for one, which may be gone since
  bool decided = false;
  std::atomic<uint32_t> queue_pairs = 0;
  Fd events;  // epoll: readable while the engine in charge has events
};

Nic::State::State(const PresentedDevice& as)
    : settings(Settings::from_environment()),
      device(as),
      fabric(settings),
      gids(gid_table(device, fabric.lid(), fabric.guid())),
      router(fabric, device, gids),
      cpu(std::make_unique<CpuEngine>(fabric, router, settings, device)),
      events(epoll_create1(EPOLL_CLOEXEC)) {
  if (!events) throw std::system_error(errno, std::generic_category(), "softnic: epoll");
  watch_events();
  fabric.announce({.ethernet = device.ethernet,
                   .active = device.active(),
                   .subnet = device.subnet,
                   .gids = gids});
  if (settings.faults) cpu->control.set_faults(*settings.faults);
}

void Nic::State::watch_events() {
  const int fd = event_fd();
  epoll_event event = {};
  event.events = EPOLLIN;
  if (epoll_ctl(events.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    throw std::system_error(errno, std::generic_category(), "softnic: epoll_ctl");
  }
}

bool Nic::State::admit(const void* address) {
  const bool on_gpu = exporter->owns(address);
  if (!decided) decide(address);
  decided = true;
  if (gpu == nullptr) {
    if (!on_gpu) return false;
    throw std::runtime_error(
        "GPU memory, and this NIC runs on the CPU (PEAL_SOFTNIC_ENGINE=cpu, "
        "or its first memory was not a GPU's)");
  }
  if (on_gpu) return true;
  throw std::runtime_error(
      "memory of the host, and this NIC runs on a GPU, which reaches GPU "
      "memory only");
}

void Nic::State::decide(const void* address) {
  const bool wanted = settings.engine == EngineChoice::kGpu ||
                      (settings.engine == EngineChoice::kAuto && exporter->owns(address));
  if (wanted) move_to_gpu(address);
}

gpu::Hello Nic::State::introduction(const void* address) const {
  gpu::Hello hello;
  hello.lid = fabric.lid();
  hello.epoch = static_cast<uint32_t>(fabric.generation());
  hello.timing = settings.timing;
  hello.insists = settings.gpu.has_value();
  hello.gpu = settings.gpu ? exporter->gpu_at(*settings.gpu) : exporter->gpu_for_nic(address);
  return hello;
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
void Nic::State::move_to_gpu(const void* address) {
  if (cpu->control.has_queues()) {
    throw std::runtime_error(
        "memory of a GPU, and this NIC has queues in the host's: register the GPU's memory "
        "first, or set PEAL_SOFTNIC_ENGINE=cpu");
  }
  const std::string program =
      settings.engine_program.empty() ? program_beside_library() : settings.engine_program;
  auto client = std::make_unique<gpu::Client>(
      gpu::Client::Place{.directory = fabric.directory(), .program = program},
      introduction(address), *exporter);
  if (exporter->takes_turns(address, client->gpu())) {
    std::fprintf(stderr,
                 "softnic: the NIC's kernel takes turns with yours on one GPU, so completions take "
                 "milliseconds: run MPS (nvidia-cuda-mps-control -d), or name another GPU in "
                 "PEAL_SOFTNIC_GPU\n");
  }
  static std::byte page;
  claim_numbers(*client, cpu->control.pds(), AllocatePd{});
  claim_numbers(*client, cpu->tables.pages, AttachUar{&page});
  claim_numbers(*client, cpu->tables.cqs, CreateCq{});
  gpu = std::move(client);
  home = exporter->number_of(address);
  cpu.reset();
  if (settings.faults) {
    const Refusal refusal = set_faults(*settings.faults);
    if (refusal.refused())
      throw std::runtime_error("PEAL_SOFTNIC_FAULTS: " + std::string(refusal.reason));
  }
  watch_events();
}

Refusal Nic::State::set_faults(const FaultPlan& plan) const {
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

std::shared_ptr<Nic> Nic::open(const PresentedDevice& device) {
  return std::shared_ptr<Nic>(new Nic(device));
}

Nic::Nic(const PresentedDevice& device) : state_(std::make_unique<State>(device)) {}
Nic::~Nic() = default;

namespace {

Refusal only_on_cpu(const char* what) { return {CommandStatus::kBadOperation, what}; }

}  // namespace

uint16_t Nic::lid() const { return state_->fabric.lid(); }
uint64_t Nic::guid() const { return state_->fabric.guid(); }
uint64_t Nic::fabric() const { return state_->fabric.identity(); }
const std::string& Nic::directory() const { return state_->fabric.directory(); }
std::string Nic::trouble() const { return state_->fabric.trouble(); }
const PresentedDevice& Nic::device() const { return state_->device; }
const std::vector<Gid>& Nic::gids() const { return state_->gids; }
const Router& Nic::router() const { return state_->router; }

Outcome Nic::run(const Command& command) const { return state_->run(command); }

bool Nic::admit(const void* address) { return state_->admit(address); }

bool Nic::is_gpu_memory(const void* address) const { return state_->exporter->owns(address); }

bool Nic::on_gpu() const { return state_->gpu != nullptr; }

std::shared_ptr<std::byte> Nic::gpu_page(size_t bytes) const {
  return on_gpu() ? state_->exporter->allocate(bytes, state_->home) : nullptr;
}

Created Nic::register_memory(const Key& config) {
  const Created created = run(RegisterMemory{config});
  if (!created.refusal.refused() && !on_gpu()) {
    state_->cpu->share(SharedRegion::of(created.number, config.memory, config.bytes));
  }
  return created;
}
Refusal Nic::change_memory(uint32_t key, const Key& config) {
  if (on_gpu()) return only_on_cpu("an engine on a GPU changes no memory keys");
  const Refusal refusal = state_->cpu->control.change_memory(key, config);
  if (!refusal.refused()) {
    state_->cpu->take_back(key);
    state_->cpu->share(SharedRegion::of(key, config.memory, config.bytes));
  }
  return refusal;
}
Refusal Nic::deregister_memory(uint32_t key) {
  const Refusal refusal = run(DeregisterMemory{key});
  if (!refusal.refused() && !on_gpu()) state_->cpu->take_back(key);
  return refusal;
}

Refusal Nic::arm_cq(uint32_t cqn, uint32_t consumed, bool solicited_only,
                    CompletionListener& listener) {
  if (on_gpu()) return only_on_cpu("an engine on a GPU raises no completion events");
  return state_->cpu->control.arm_cq(cqn, consumed, solicited_only, listener);
}

Refusal Nic::arm_srq(uint32_t srqn, uint32_t limit) {
  if (on_gpu()) return only_on_cpu("an engine on a GPU takes nothing from shared receive queues");
  return state_->cpu->control.arm_srq(srqn, limit);
}
uint32_t Nic::srq_limit(uint32_t srqn) const {
  return on_gpu() ? 0 : state_->cpu->control.srq_limit(srqn);
}

Created Nic::create_qp(const QueuePairConfig& config) { return state_->counted(CreateQp{config}); }
Refusal Nic::query_qp(uint32_t qpn, QueuePairAttributes* answer) const {
  const Outcome outcome = run(QueryQp{qpn});
  *answer = outcome.attributes;
  return outcome.refusal;
}
Refusal Nic::destroy_qp(uint32_t qpn) { return state_->released(DestroyQp{qpn}); }

Created Nic::create_dc_target(const DcTargetConfig& config) {
  return state_->counted(CreateDcTarget{config});
}
Refusal Nic::destroy_dc_target(uint32_t dctn) { return state_->released(DestroyDcTarget{dctn}); }

bool Nic::next_event(AsyncEvent* event) {
  return on_gpu() ? state_->gpu->next_event(event) : state_->cpu->control.next_event(event);
}
int Nic::event_fd() const { return state_->events.get(); }
bool Nic::port_up() const { return run(QueryPort{}).number != 0; }
Refusal Nic::set_faults(const FaultPlan& plan) { return state_->set_faults(plan); }

}  // namespace peal::softnic
