// SPDX-License-Identifier: Apache-2.0
//
// The NIC of this process: its place on the fabric, and the engine that answers its control calls.
#include "softnic/nic.h"

#include "softnic/control.h"
#include "softnic/driver.h"
#include "softnic/fabric.h"
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
  State() : settings(Settings::from_environment()), fabric(settings) {
    cpu = std::make_unique<CpuEngine>(fabric, settings.timing);
  }
  Commands& commands() const { return cpu->control; }

  Settings settings;
  Fabric fabric;
  std::unique_ptr<CpuEngine> cpu;
};

std::shared_ptr<Nic> Nic::open() { return std::shared_ptr<Nic>(new Nic()); }

Nic::Nic() : state_(std::make_unique<State>()) {}
Nic::~Nic() = default;

uint16_t Nic::lid() const { return state_->fabric.lid(); }
uint64_t Nic::guid() const { return state_->fabric.guid(); }

Created Nic::allocate_pd() { return state_->commands().allocate_pd(); }
Refusal Nic::free_pd(uint32_t pd) { return state_->commands().free_pd(pd); }

Created Nic::register_memory(const MemoryKeyConfig& config) {
  return state_->commands().register_memory(config);
}
Refusal Nic::deregister_memory(uint32_t key) { return state_->commands().deregister_memory(key); }

Created Nic::create_cq(const CompletionQueueConfig& config) {
  return state_->commands().create_cq(config);
}
Refusal Nic::destroy_cq(uint32_t cqn) { return state_->commands().destroy_cq(cqn); }
uint64_t Nic::cq_produced(uint32_t cqn) const { return state_->commands().cq_produced(cqn); }

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
int Nic::event_fd() const { return state_->commands().event_fd(); }
Violations Nic::violations() const { return state_->commands().violations(); }

}  // namespace peal::softnic
