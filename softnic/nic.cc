// SPDX-License-Identifier: Apache-2.0
//
// Control calls of the software NIC: they check, fill the tables the engine reads, and refuse what
// firmware would refuse. Every call holds the engine still while it changes something.
#include "softnic/nic.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <new>
#include <set>
#include <system_error>

#include "softnic/driver.h"
#include "softnic/fabric.h"
#include "softnic/objects.h"
#include "softnic/settings.h"
#include "softnic/table.h"
#include "softnic/wire.h"

namespace peal::softnic {

namespace {

constexpr uint32_t kMaxKeys = 1u << 20;
constexpr uint32_t kMaxQueuePairs = 1u << 15;
constexpr uint32_t kMaxQueues = 1u << 16;
constexpr uint32_t kMaxDomains = 1u << 15;
constexpr uint32_t kMaxPages = 1u << 15;
constexpr uint32_t kMaxDcConnections = 1u << 13;
constexpr uint32_t kFirstKeyIndex = 16;  // keeps clear of kInvalidLkey and other small numbers
constexpr uint32_t kFirstQpn = 0x40;

/// Something counted: a protection domain or a UAR page, and how many objects use it.
struct Counted {
  bool exists;
  uint32_t users;
};

Refusal refuse_with(CommandStatus status, const char* reason) { return {status, reason}; }

Created refused(CommandStatus status, const char* reason) { return {0, {status, reason}}; }

}  // namespace

struct Nic::State {
  State();
  ~State() {
    driver.reset();
    if (event_fd >= 0) close(event_fd);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  Counted* domain(uint32_t pd) {
    return pd < domains.used() && domains[pd].exists ? &domains[pd] : nullptr;
  }
  Counted* page(uint32_t id) {
    return id < pages.used() && pages[id].exists ? &pages[id] : nullptr;
  }
  void collect();
  Refusal check(const QueuePairConfig& config);
  void count_users(const QueuePair& qp, int32_t by);
  void release_qp(uint32_t qpn);

  Settings settings;
  Fabric fabric;
  Port port;
  Table<Key> keys{kFirstKeyIndex, kMaxKeys};
  Table<CompletionQueue> cqs{1, kMaxQueues};
  Table<QueuePair> qps{kFirstQpn, kMaxQueuePairs};
  Table<DcConnection> dc_connections{1, kMaxDcConnections};
  Table<Counted> domains{1, kMaxDomains};
  Table<Counted> pages{1, kMaxPages};
  std::vector<uint8_t> variants;  // low byte of the key last given to an index
  std::deque<AsyncEvent> events;
  int event_fd = -1;
  std::unique_ptr<ShmWire> wire;
  std::unique_ptr<Driver> driver;
};

Nic::State::State() : settings(Settings::from_environment()), fabric(settings) {
  event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
  if (event_fd < 0) throw std::system_error(errno, std::generic_category(), "softnic: eventfd");
  port.lid = fabric.lid();
  port.keys = keys.data();
  port.cqs = cqs.data();
  port.qps = qps.data();
  port.dc_connections = dc_connections.data();
  port.dc_connection_count = dc_connections.capacity();
  port.dc_epochs = static_cast<uint32_t>(fabric.generation());
  port.timing = settings.timing;
  wire = std::make_unique<ShmWire>(port, fabric);
  driver = std::make_unique<Driver>(port, *wire, [this] { collect(); });
}

/// Runs in the engine thread, under the lock.
void Nic::State::collect() {
  const uint64_t fresh = port.events.count;
  for (uint32_t i = 0; i < fresh; ++i) events.push_back(port.events.event[i]);
  port.events.count = 0;
  // A full counter would only mean 2^64 unread events.
  [[maybe_unused]] const ssize_t written = write(event_fd, &fresh, sizeof(fresh));
}

std::shared_ptr<Nic> Nic::open() { return std::shared_ptr<Nic>(new Nic()); }

Nic::Nic() : state_(std::make_unique<State>()) {}
Nic::~Nic() = default;

uint16_t Nic::lid() const { return state_->fabric.lid(); }
uint64_t Nic::guid() const { return state_->fabric.guid(); }

// ---- protection domains, UAR pages, keys

Created Nic::allocate_pd() {
  const Driver::Pause pause(*state_->driver);
  const uint32_t pd = state_->domains.take();
  if (pd == 0) return refused(CommandStatus::kNoResources, "no protection domain left");
  state_->domains[pd] = {true, 0};
  return {pd, {}};
}

Refusal Nic::free_pd(uint32_t pd) {
  const Driver::Pause pause(*state_->driver);
  Counted* domain = state_->domain(pd);
  if (domain == nullptr) return refuse_with(CommandStatus::kBadResource, "unknown pd");
  if (domain->users > 0) return refuse_with(CommandStatus::kBusy, "keys or queues use this pd");
  domain->exists = false;
  state_->domains.release(pd);
  return {};
}

Created Nic::attach_uar(std::byte* page) {
  const Driver::Pause pause(*state_->driver);
  if (page == nullptr) return refused(CommandStatus::kBadParameter, "UAR page without memory");
  const uint32_t id = state_->pages.take();
  if (id == 0) return refused(CommandStatus::kNoResources, "no UAR page left");
  state_->pages[id] = {true, 0};
  return {id, {}};
}

Refusal Nic::detach_uar(uint32_t page_id) {
  const Driver::Pause pause(*state_->driver);
  Counted* page = state_->page(page_id);
  if (page == nullptr) return refuse_with(CommandStatus::kBadResource, "unknown UAR page");
  if (page->users > 0) return refuse_with(CommandStatus::kBusy, "queues use this UAR page");
  page->exists = false;
  state_->pages.release(page_id);
  return {};
}

Created Nic::register_memory(const MemoryKeyConfig& config) {
  const Driver::Pause pause(*state_->driver);
  State& state = *state_;
  Counted* domain = state.domain(config.pd);
  if (domain == nullptr) return refused(CommandStatus::kBadResource, "unknown pd");
  const uint32_t remote_writes = kRemoteWrite | kRemoteAtomic;
  if ((config.access & remote_writes) != 0 && (config.access & kLocalWrite) == 0) {
    return refused(CommandStatus::kBadParameter, "remote write or atomic without local write");
  }
  if (config.bytes > 0 && config.memory == nullptr) {
    return refused(CommandStatus::kBadParameter, "registration without memory");
  }
  if (config.bytes > 0 && config.iova + (config.bytes - 1) < config.iova) {
    return refused(CommandStatus::kBadParameter, "iova range wraps");
  }
  const uint32_t index = state.keys.take();
  if (index == 0) return refused(CommandStatus::kNoResources, "no memory key left");
  if (state.variants.size() <= index) state.variants.resize(index + 1);
  const uint32_t number = index << 8 | state.variants[index]++;
  state.keys[index] = {.number = number,
                       .pd = config.pd,
                       .access = config.access,
                       .iova = config.iova,
                       .bytes = config.bytes,
                       .memory = config.memory};
  state.port.key_count = state.keys.used();
  ++domain->users;
  return {number, {}};
}

Refusal Nic::deregister_memory(uint32_t key) {
  const Driver::Pause pause(*state_->driver);
  State& state = *state_;
  if (find_key(state.port, key) == nullptr) {
    return refuse_with(CommandStatus::kBadResource, "unknown memory key");
  }
  Key& entry = state.keys[key >> 8];
  --state.domains[entry.pd].users;
  entry = {};
  state.keys.release(key >> 8);
  return {};
}

// ---- completion queues

Created Nic::create_cq(const CompletionQueueConfig& config) {
  const Driver::Pause pause(*state_->driver);
  State& state = *state_;
  if (config.buffer == nullptr || !aligned(config.buffer, sizeof(mlx5::Cqe))) {
    return refused(CommandStatus::kBadParameter, "CQ buffer missing or not aligned to 64");
  }
  if (config.cqe_bytes != 64 && config.cqe_bytes != 128) {
    return refused(CommandStatus::kBadSize, "CQE of neither 64 nor 128 bytes");
  }
  if (config.log_entries > 22) return refused(CommandStatus::kBadSize, "CQ beyond 2^22 entries");
  if (config.doorbell == nullptr && !config.ignore_overrun) {
    return refused(CommandStatus::kBadParameter, "CQ without doorbell record checks overruns");
  }
  if (config.doorbell != nullptr && !aligned(config.doorbell, 8)) {
    return refused(CommandStatus::kBadParameter, "CQ doorbell record not aligned to 8");
  }
  if (config.uar_page != 0 && state.page(config.uar_page) == nullptr) {
    return refused(CommandStatus::kBadResource, "unknown UAR page");
  }
  const uint32_t cqn = state.cqs.take();
  if (cqn == 0) return refused(CommandStatus::kNoResources, "no CQ left");
  state.cqs[cqn] = {.exists = true,
                    .collapsed = config.collapsed,
                    .ignore_overrun = config.ignore_overrun,
                    .cqn = cqn,
                    .log_entries = config.log_entries,
                    .cqe_bytes = config.cqe_bytes,
                    .buffer = config.buffer,
                    .doorbell = config.doorbell,
                    .uar_page = config.uar_page};
  if (config.uar_page != 0) ++state.pages[config.uar_page].users;
  state.port.cq_count = state.cqs.used();
  return {cqn, {}};
}

Refusal Nic::destroy_cq(uint32_t cqn) {
  const Driver::Pause pause(*state_->driver);
  State& state = *state_;
  CompletionQueue* cq = find_cq(state.port, cqn);
  if (cq == nullptr) return refuse_with(CommandStatus::kBadResource, "unknown cqn");
  if (cq->users > 0) return refuse_with(CommandStatus::kBusy, "queue pairs use this CQ");
  if (cq->uar_page != 0) --state.pages[cq->uar_page].users;
  cq->exists = false;
  state.cqs.release(cqn);
  return {};
}

uint64_t Nic::cq_produced(uint32_t cqn) const {
  const Driver::Pause pause(*state_->driver);
  const CompletionQueue* cq = find_cq(state_->port, cqn);
  return cq == nullptr ? 0 : cq->produced;
}

// ---- queue pairs

Refusal Nic::State::check(const QueuePairConfig& config) {
  if (domain(config.pd) == nullptr) return {CommandStatus::kBadResource, "unknown pd"};
  if (config.service != Service::kReliable && config.service != Service::kDcInitiator) {
    return {CommandStatus::kBadParameter, "service type is neither RC nor DCI"};
  }
  const bool sends = config.send_buffer != nullptr;
  const bool receives = config.receive_buffer != nullptr;
  if (sends && (config.log_send_blocks > 15 || !aligned(config.send_buffer, 64))) {
    return {CommandStatus::kBadParameter, "send queue beyond 2^15 blocks or not aligned to 64"};
  }
  if (receives && (config.log_receive_entries > 15 || config.log_receive_stride > 7 ||
                   !aligned(config.receive_buffer, 16))) {
    return {CommandStatus::kBadParameter, "receive queue too large or not aligned to 16"};
  }
  if ((sends || receives) && (config.doorbell == nullptr || !aligned(config.doorbell, 8))) {
    return {CommandStatus::kBadParameter, "doorbell record missing or not aligned to 8"};
  }
  if (sends && find_cq(port, config.send_cq) == nullptr) {
    return {CommandStatus::kBadResource, "unknown send cqn"};
  }
  const bool names_receive_cq = receives || config.receive_cq != 0;
  if (names_receive_cq && find_cq(port, config.receive_cq) == nullptr) {
    return {CommandStatus::kBadResource, "unknown receive cqn"};
  }
  if (config.uar_page != 0 && page(config.uar_page) == nullptr) {
    return {CommandStatus::kBadResource, "unknown UAR page"};
  }
  return {};
}

void Nic::State::count_users(const QueuePair& qp, int32_t by) {
  const auto add = [by](uint32_t& users) { users += static_cast<uint32_t>(by); };
  add(domains[qp.pd].users);
  if (qp.uar_page != 0) add(pages[qp.uar_page].users);
  if (CompletionQueue* cq = find_cq(port, qp.send_cq)) add(cq->users);
  if (CompletionQueue* cq = find_cq(port, qp.receive_cq)) add(cq->users);
}

Created Nic::create_qp(const QueuePairConfig& config) {
  const Driver::Pause pause(*state_->driver);
  State& state = *state_;
  const Refusal refusal = state.check(config);
  if (refusal.refused()) return {0, refusal};
  const uint32_t qpn = state.qps.take();
  if (qpn == 0) return refused(CommandStatus::kNoResources, "no queue pair left");
  QueuePair& qp = *new (&state.qps[qpn]) QueuePair();
  qp.exists = true;
  qp.service = config.service;
  qp.qpn = qpn;
  qp.pd = config.pd;
  qp.uar_page = config.uar_page;
  qp.user_index = config.user_index;
  qp.send_cq = config.send_cq;
  qp.receive_cq = config.receive_cq;
  qp.shared_receive_queue = config.shared_receive_queue;
  qp.send_buffer = config.send_buffer;
  qp.send_blocks = config.send_buffer == nullptr ? 0 : 1u << config.log_send_blocks;
  qp.receive_buffer = config.receive_buffer;
  qp.receive_entries = config.receive_buffer == nullptr ? 0 : 1u << config.log_receive_entries;
  qp.doorbell = config.doorbell;
  state.count_users(qp, 1);
  state.port.qp_count = state.qps.used();
  return {qpn, {}};
}

Refusal Nic::query_qp(uint32_t qpn, QueuePairAttributes* answer) const {
  const Driver::Pause pause(*state_->driver);
  const QueuePair* qp = find_qp(state_->port, qpn);
  if (qp == nullptr || qp->service == Service::kDcTarget) {
    return refuse_with(CommandStatus::kBadResource, "unknown qpn");
  }
  *answer = qp->attributes;
  answer->state = qp->state;
  answer->hardware_send_counter = static_cast<uint16_t>(qp->send.next);
  answer->software_send_counter = static_cast<uint16_t>(qp->send.posted);
  return {};
}

void Nic::State::release_qp(uint32_t qpn) {
  QueuePair& qp = qps[qpn];
  driver->forget(qpn);
  count_users(qp, -1);
  qp.exists = false;
  qps.release(qpn);
}

Refusal Nic::destroy_qp(uint32_t qpn) {
  const Driver::Pause pause(*state_->driver);
  const QueuePair* qp = find_qp(state_->port, qpn);
  if (qp == nullptr || qp->service == Service::kDcTarget) {
    return refuse_with(CommandStatus::kBadResource, "unknown qpn");
  }
  state_->release_qp(qpn);
  return {};
}

namespace {

/// Back to a fresh queue pair: all indexes and sequence numbers at their start.
void reset(QueuePair& qp) {
  qp.state = QpState::kReset;
  qp.attributes = {};
  qp.send = {};
  qp.receive = {};
}

bool legal(QpState from, QpState to) {
  switch (to) {
    case QpState::kInit:
      return from == QpState::kReset || from == QpState::kInit;
    case QpState::kReadyToReceive:
      return from == QpState::kInit;
    case QpState::kReadyToSend:
      return from == QpState::kReadyToReceive || from == QpState::kReadyToSend;
    default:
      return false;
  }
}

}  // namespace

Refusal Nic::modify_qp(uint32_t qpn, QpState from, const QueuePairAttributes& to) {
  const Driver::Pause pause(*state_->driver);
  QueuePair* qp = find_qp(state_->port, qpn);
  if (qp == nullptr || qp->service == Service::kDcTarget) {
    return refuse_with(CommandStatus::kBadResource, "unknown qpn");
  }
  if (to.state == QpState::kReset) {
    state_->driver->forget(qpn);
    reset(*qp);
    return {};
  }
  if (to.state == QpState::kError) {
    qp->state = QpState::kError;
    state_->driver->watch(qpn);
    return {};
  }
  if (qp->state != from || !legal(from, to.state)) {
    return refuse_with(CommandStatus::kBadQpState, "no such transition from the present state");
  }
  if (to.state == QpState::kReadyToReceive) {
    if (to.mtu < 1 || to.mtu > 5) return refuse_with(CommandStatus::kBadParameter, "mtu not 1..5");
    if (to.log_max_message > 30) {
      return refuse_with(CommandStatus::kBadParameter, "log_msg_max beyond 30");
    }
    qp->receive.expected_psn = to.receive_psn & kPsnMask;
  }
  if (to.state == QpState::kReadyToSend && from == QpState::kReadyToReceive) {
    qp->send.psn = to.send_psn & kPsnMask;
    qp->send.acked_psn = (to.send_psn - 1) & kPsnMask;
  }
  qp->attributes = to;
  qp->state = to.state;
  if (to.state == QpState::kReadyToSend) state_->driver->watch(qpn);
  return {};
}

// ---- DC targets

Created Nic::create_dc_target(const DcTargetConfig& config) {
  const Driver::Pause pause(*state_->driver);
  State& state = *state_;
  if (state.domain(config.pd) == nullptr) {
    return refused(CommandStatus::kBadResource, "unknown pd");
  }
  if (config.receive_cq != 0 && find_cq(state.port, config.receive_cq) == nullptr) {
    return refused(CommandStatus::kBadResource, "unknown receive cqn");
  }
  const uint32_t dctn = state.qps.take();
  if (dctn == 0) return refused(CommandStatus::kNoResources, "no DC target left");
  QueuePair& target = *new (&state.qps[dctn]) QueuePair();
  target.exists = true;
  target.service = Service::kDcTarget;
  target.state = QpState::kReadyToReceive;
  target.qpn = dctn;
  target.pd = config.pd;
  target.receive_cq = config.receive_cq;
  target.shared_receive_queue = config.shared_receive_queue;
  target.attributes.access = config.access;
  target.attributes.atomic_mode = config.atomic_mode;
  target.attributes.min_rnr_timer = config.min_rnr_timer;
  target.attributes.dc_access_key = config.dc_access_key;
  state.count_users(target, 1);
  state.port.qp_count = state.qps.used();
  return {dctn, {}};
}

Refusal Nic::destroy_dc_target(uint32_t dctn) {
  const Driver::Pause pause(*state_->driver);
  const QueuePair* target = find_qp(state_->port, dctn);
  if (target == nullptr || target->service != Service::kDcTarget) {
    return refuse_with(CommandStatus::kBadResource, "unknown DC target");
  }
  state_->release_qp(dctn);
  return {};
}

// ---- events

bool Nic::next_event(AsyncEvent* event) {
  const Driver::Pause pause(*state_->driver);
  uint64_t one = 0;
  if (state_->events.empty()) return false;
  *event = state_->events.front();
  state_->events.pop_front();
  [[maybe_unused]] const ssize_t taken = read(state_->event_fd, &one, sizeof(one));
  return true;
}

int Nic::event_fd() const { return state_->event_fd; }

Violations Nic::violations() const {
  const Driver::Pause pause(*state_->driver);
  return state_->port.violations;
}

}  // namespace peal::softnic
