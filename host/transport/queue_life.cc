// SPDX-License-Identifier: Apache-2.0
//
// The life of a queue: its queue pair made, connected, proven, opened; reset and connected again.
// What a kernel sees of it is `completed`, which moves up at the very end.
#include <fmt/format.h>

#include <utility>

#include "host/nic/model.h"
#include "host/transport/ibgda.h"
#include "host/transport/queues.h"

namespace peal {
namespace {

// The first packet sequence number that queue pair `qpn` sends on its `generation`-th connection:
// for every generation somewhere else in the 24 bits.
uint32_t first_psn(uint32_t qpn, uint32_t generation) {
  if (generation == 0) return 0;
  const uint64_t mixed = (uint64_t{generation} << 24 | qpn) * 0x9e3779b97f4a7c15u;
  return static_cast<uint32_t>(mixed >> 40);
}

}  // namespace

std::unique_ptr<nic::QueueEnd> Queues::make_end(uint32_t index) const {
  const size_t by = nic_index(index);
  if (carrier_.doorbells == nullptr) {
    return std::make_unique<ProxyEnd>(nic_of(index), (*carrier_.proxies)[by],
                                      carried_memory(index));
  }
  const IbgdaNic& nic = nic_of(index);
  return nic::make_driven_end(
      nic.device, nic.domain,
      {(*carrier_.doorbells)[by].page(), nic.device.software() ? nic.gpu : nullptr},
      {*registered_[by].queue_region, index * stride(), layout_}, nic.order);
}

Endpoint Queues::make(uint32_t index) {
  auto& end = ends_[index];
  if (end == nullptr) {
    auto made = make_end(index);
    nic::set_number(memory_, &state(index)->nic, made->number());
    end = std::move(made);
  }
  Endpoint mine = endpoint_of(nic_of(index).device, end->number());
  mine.owner = rails_.owner();
  return mine;
}

void Queues::connect(uint32_t index, const Endpoint& remote, uint32_t generation) {
  const nic::Device& device = nic_of(index).device;
  const Endpoint mine = endpoint_of(device, ends_[index]->number());
  remotes_[index] = {.qpn = remote.qpn, .path = path_to(device, mine, remote)};
  owners_[index] = remote.owner;
  remotes_[index].path.lag_port = lag_port(device, index % n_pes_, index / n_pes_ / shape_.rails);
  reconnect(index, generation);
}

void Queues::reconnect(uint32_t index, uint32_t generation) {
  nic::QueueEnd& end = *ends_[index];
  nic::RemoteQueue remote = remotes_[index];
  remote.psn = first_psn(remote.qpn, generation);
  end.connect(remote, first_psn(end.number(), generation));
}

std::string Queues::describe_path(uint32_t index) const {
  const nic::Path& path = remotes_[index].path;
  std::string text = fmt::format("MTU {}", nic::mtu_bytes(path.mtu));
  if (path.link_layer == nic::LinkLayer::kInfiniBand) text += fmt::format(", LID {}", path.dlid);
  return path.global ? text + ", GID " + path.remote_gid.text() : text;
}

QueueUnderTest Queues::under_test(uint32_t index) {
  QueueUnderTest q{};
  q.index = index;
  q.memory = &shared();
  memory_.copy_out(&q.fields, state(index), offsetof(SendQueue, reserved));
  q.end = ends_[index].get();
  q.owner = owners_[index];
  q.self = rails_.owner();
  return q;
}

void Queues::open(uint32_t index) { memory_.store_word(&state(index)->completed, start_); }

bool Queues::broken(uint32_t index) const {
  uint64_t moving[4];  // reserved, posted, rung, completed
  memory_.load_words(moving, &state(index)->reserved, 4);
  return memory_.load_word(&state(index)->error.status) != 0 ||
         is_unconnected(moving[1], moving[3]) ||
         (moving[0] & kReservedCount) != posted_end(moving[1]) ||
         (moving[1] & kPostedFlags) != 0 ||  // a kernel was cut off while it rang
         ends_[index]->state() != nic::QueueState::kReadyToSend;
}

void Queues::reset(uint32_t index) {
  if (ends_[index]) ends_[index]->to_reset();  // first: now the NIC writes none of what follows
  const auto none = nic::QueueMemoryLayout::no_completion();
  shared().copy_in(shared_base(index) + layout_.cqe(), none.data(), none.size());
  shared().zero(index * stride() + layout_.doorbell(), nic::QueueMemoryLayout::kLine);
  memory_.zero(index * stride() + layout_.ready(), layout_.ready_bytes());
  renew_landing(index);
  change(index, [this](SendQueue& queue) { start_afresh(queue); });
}

void Queues::renew_landing(uint32_t index) {
  shared().zero(index * stride() + layout_.landing(), (kLandingCells + 1) * sizeof(LandingCell));
  change(index, [](SendQueue& queue) { queue.landing_ticket = 0; });
}

void Queues::close(uint32_t index, Status status) {
  QueueError& error = state(index)->error;
  memory_.store_word(&error.claimed, 1);  // no kernel writes a record of its own
  memory_.store_word(&error.status, static_cast<uint32_t>(status));
}

}  // namespace peal
