// SPDX-License-Identifier: Apache-2.0
//
// The NIC of this process: its place on the fabric, and the engine that answers its control calls.
#include "softnic/nic.h"

#include <dlfcn.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cstdio>
#include <stdexcept>
#include <system_error>

#include "softnic/control.h"
#include "softnic/driver.h"
#include "softnic/fabric.h"
#include "softnic/gpu/client.h"
#include "softnic/settings.h"
#include "softnic/wire.h"

namespace peal::softnic {

namespace {

/// The engine as a thread of this process, talking to others through shared memory.
struct CpuEngine {
  CpuEngine(Fabric& fabric, const Timing& timing)
      : tables(fabric.lid(), static_cast<uint32_t>(fabric.generation()), timing),
        wire(tables.port, fabric),
        control(tables, driver),
        driver(tables.port, wire) {
    driver.start([this] { control.collect(); });
  }

  Tables tables;
  ShmWire wire;
  Control control;
  Driver driver;  // last: its thread uses all of the above
};

}  // namespace

struct Nic::State {
  State();
  Commands& commands() const {
    return gpu != nullptr ? static_cast<Commands&>(*gpu) : cpu->control;
  }

  bool admit(const void* address);
  void decide(const void* address);
  void move_to_gpu(const void* address);
  gpu::Hello introduction(const void* address) const;
  void watch_events();

  Settings settings;
  Fabric fabric;
  std::unique_ptr<gpu::Exporter> exporter = gpu::make_cuda_exporter();
  std::unique_ptr<CpuEngine> cpu;  // until the GPU takes over
  std::unique_ptr<gpu::Client> gpu;
  const void* home = nullptr;  // the memory that decided for the GPU
  bool decided = false;
  gpu::Fd events;  // epoll: readable while the engine in charge has events
};

Nic::State::State()
    : settings(Settings::from_environment()),
      fabric(settings),
      cpu(std::make_unique<CpuEngine>(fabric, settings.timing)),
      events(epoll_create1(EPOLL_CLOEXEC)) {
  if (!events.valid()) throw std::system_error(errno, std::generic_category(), "softnic: epoll");
  watch_events();
  if (settings.faults) cpu->control.set_faults(*settings.faults);
}

void Nic::State::watch_events() {
  const int fd = commands().event_fd();
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
  Dl_info info = {};
  static const char here = 0;
  if (dladdr(&here, &info) == 0 || info.dli_fname == nullptr) return "peal_softnic_engine";
  const std::string file = info.dli_fname;
  const size_t slash = file.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : file.substr(0, slash);
  const std::string built = folder + "/../gpu/peal_softnic_engine";
  return access(built.c_str(), X_OK) == 0 ? built : folder + "/peal_softnic_engine";
}

/// Takes the numbers [1, used) that `make` hands out in order, then gives back those not in use.
template <class Exists, class Make, class Free>
void claim_numbers(uint32_t used, Exists exists, Make make, Free free) {
  for (uint32_t number = 1; number < used; ++number) {
    if (make().number != number) throw std::runtime_error("the GPU engine counts differently");
  }
  for (uint32_t number = 1; number < used; ++number) {
    if (!exists(number)) free(number);
  }
}

}  // namespace

/// Before the first memory there are only protection domains and UAR pages: numbers.
void Nic::State::move_to_gpu(const void* address) {
  if (settings.faults) {
    throw std::runtime_error(
        "PEAL_SOFTNIC_FAULTS needs the CPU engine (PEAL_SOFTNIC_ENGINE=cpu), and this NIC is to "
        "run "
        "on a GPU");
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
  const Control& control = cpu->control;
  static std::byte page;
  claim_numbers(
      control.pds_used(), [&](uint32_t n) { return control.pd_exists(n); },
      [&] { return client->allocate_pd(); }, [&](uint32_t n) { client->free_pd(n); });
  claim_numbers(
      control.uars_used(), [&](uint32_t n) { return control.uar_exists(n); },
      [&] { return client->attach_uar(&page); }, [&](uint32_t n) { client->detach_uar(n); });
  gpu = std::move(client);
  home = address;
  cpu.reset();
  watch_events();
}

std::shared_ptr<Nic> Nic::open() { return std::shared_ptr<Nic>(new Nic()); }

Nic::Nic() : state_(std::make_unique<State>()) {}
Nic::~Nic() = default;

uint16_t Nic::lid() const { return state_->fabric.lid(); }
uint64_t Nic::guid() const { return state_->fabric.guid(); }

Created Nic::allocate_pd() { return state_->commands().allocate_pd(); }
Refusal Nic::free_pd(uint32_t pd) { return state_->commands().free_pd(pd); }

bool Nic::admit(const void* address) { return state_->admit(address); }

bool Nic::on_gpu() const { return state_->gpu != nullptr; }

std::shared_ptr<std::byte> Nic::gpu_page(size_t bytes) const {
  return on_gpu() ? state_->exporter->allocate_beside(state_->home, bytes) : nullptr;
}

Created Nic::register_memory(const MemoryKeyConfig& config) {
  return state_->commands().register_memory(config);
}
Refusal Nic::deregister_memory(uint32_t key) { return state_->commands().deregister_memory(key); }

Created Nic::create_cq(const CompletionQueueConfig& config) {
  return state_->commands().create_cq(config);
}
Refusal Nic::destroy_cq(uint32_t cqn) { return state_->commands().destroy_cq(cqn); }
uint64_t Nic::cq_produced(uint32_t cqn) const { return state_->commands().cq_produced(cqn); }
Refusal Nic::arm_cq(uint32_t cqn, uint32_t consumed, bool solicited_only,
                    CompletionListener& listener) {
  return state_->commands().arm_cq(cqn, consumed, solicited_only, listener);
}

Created Nic::create_qp(const QueuePairConfig& config) {
  return state_->commands().create_qp(config);
}
Refusal Nic::modify_qp(uint32_t qpn, QpState from, const QueuePairAttributes& to) {
  return state_->commands().modify_qp(qpn, from, to);
}
Refusal Nic::query_qp(uint32_t qpn, QueuePairAttributes* answer) const {
  return state_->commands().query_qp(qpn, answer);
}
Refusal Nic::destroy_qp(uint32_t qpn) { return state_->commands().destroy_qp(qpn); }

Created Nic::create_dc_target(const DcTargetConfig& config) {
  return state_->commands().create_dc_target(config);
}
Refusal Nic::destroy_dc_target(uint32_t dctn) { return state_->commands().destroy_dc_target(dctn); }

Created Nic::attach_uar(std::byte* page) { return state_->commands().attach_uar(page); }
Refusal Nic::detach_uar(uint32_t page_id) { return state_->commands().detach_uar(page_id); }

bool Nic::next_event(AsyncEvent* event) { return state_->commands().next_event(event); }
int Nic::event_fd() const { return state_->events.get(); }
Violations Nic::violations() const { return state_->commands().violations(); }
bool Nic::port_up() const { return state_->commands().port_up(); }
Refusal Nic::set_faults(const FaultPlan& plan) { return state_->commands().set_faults(plan); }

}  // namespace peal::softnic
