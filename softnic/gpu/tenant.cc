// SPDX-License-Identifier: Apache-2.0
//
// One PE's calls: addresses of the PE become addresses here, then Control decides.
#include <cstdio>
#include <new>
#include <system_error>

#include "softnic/gpu/server.h"
#include "softnic/gpu/wire_direct.h"

namespace peal::softnic::gpu {

std::byte* Region::find(const void* address, uint64_t bytes) const {
  const uint64_t offset = reinterpret_cast<uint64_t>(address) - extent_.base;
  if (offset > extent_.bytes || bytes > extent_.bytes - offset) return nullptr;
  return memory_ + offset;
}

Tenant::Tenant(Channel calls, Channel events, std::shared_ptr<Chip> chip, const Hello& hello)
    : calls_(std::move(calls)),
      events_(std::move(events)),
      chip_(std::move(chip)),
      tables_(hello.lid, hello.epoch, hello.timing),
      control_(tables_, stopped_) {}

bool Tenant::needs_service() const {
  for (uint32_t qpn = Tables::kFirstQpn; qpn < tables_.port.qp_count; ++qpn) {
    if (gpu::needs_service(tables_.port.qps[qpn])) return true;
  }
  return false;
}

void Tenant::report_events() {
  control_.collect();
  send_events();
}

// A PE that never reads its events must not hold up the NICs of the others. What its socket has no
// room for stays in Control's queue, which has no bound, as the kernel's behind
// ibv_get_async_event() has none.
void Tenant::send_events() {
  AsyncEvent event;
  while ((events_.writable() || !events_.open()) && control_.next_event(&event)) {
    events_.send(event);
  }
}

void Tenant::fail() {
  for (uint32_t qpn = Tables::kFirstQpn; qpn < tables_.port.qp_count; ++qpn) {
    QueuePair& qp = tables_.qps[qpn];
    if (!qp.exists || qp.state == QpState::kReset) continue;
    qp.state = QpState::kError;
    tables_.port.events.raise(AsyncEvent::Kind::kQpFatal, qpn);
    control_.collect();  // one by one, for the log is short
  }
  send_events();
}

void Tenant::map(const Extent& extent, const Fd& descriptor) {
  std::erase_if(known_, [](const auto& region) { return region.expired(); });
  for (const auto& known : known_) {
    const std::shared_ptr<Region> region = known.lock();
    const Extent& same = region->extent();
    if (same.id == extent.id && same.base == extent.base && same.bytes == extent.bytes) {
      offered_.push_back(region);
      return;
    }
  }
  offered_.push_back(std::make_shared<Region>(chip_, extent, descriptor));
  known_.push_back(offered_.back());
}

template <class T>
bool Tenant::translate(T** address, uint64_t bytes) {
  if (*address == nullptr) return true;
  for (const auto& region : offered_) {
    if (std::byte* here = region->find(*address, bytes)) {
      *address = reinterpret_cast<T*>(here);
      return true;
    }
  }
  return false;
}

/// False when the call names memory that was not offered with it.
bool Tenant::translate(Call& call) {
  switch (call.kind) {
    case CallKind::kRegister:
      return translate(&call.key.memory, call.key.bytes);
    case CallKind::kCreateCq:
      return call.cq.log_entries < 32 &&
             translate(&call.cq.buffer, uint64_t{call.cq.cqe_bytes} << call.cq.log_entries) &&
             translate(&call.cq.doorbell, 8);
    case CallKind::kCreateQp:
      return call.qp.log_send_blocks < 32 && call.qp.log_receive_entries < 16 &&
             call.qp.log_receive_stride < 16 &&
             translate(&call.qp.send_buffer, 64ull << call.qp.log_send_blocks) &&
             translate(&call.qp.receive_buffer,
                       16ull << (call.qp.log_receive_stride + call.qp.log_receive_entries)) &&
             translate(&call.qp.doorbell, sizeof(mlx5::DoorbellRecord));
    default:
      return true;
  }
}

void Tenant::hold(CallKind creator, const Created& created, Reply& reply, Refusal& refusal) {
  reply.number = created.number;
  refusal = created.refusal;
  if (!refusal.refused()) held_[{creator, created.number}] = std::move(offered_);
}

Refusal Tenant::release(CallKind creator, uint32_t number, const Refusal& refusal) {
  if (!refusal.refused()) held_.erase({creator, number});
  return refusal;
}

Refusal Tenant::command(const Call& call, Reply& reply) {
  Refusal refusal;
  switch (call.kind) {
    case CallKind::kRegister:
      hold(call.kind, control_.register_memory(call.key), reply, refusal);
      return refusal;
    case CallKind::kDeregister:
      return release(CallKind::kRegister, call.number, control_.deregister_memory(call.number));
    case CallKind::kCreateCq:
      hold(call.kind, control_.create_cq(call.cq), reply, refusal);
      return refusal;
    case CallKind::kDestroyCq:
      return release(CallKind::kCreateCq, call.number, control_.destroy_cq(call.number));
    case CallKind::kCreateQp:
      hold(call.kind, control_.create_qp(call.qp), reply, refusal);
      return refusal;
    case CallKind::kDestroyQp:
      return release(CallKind::kCreateQp, call.number, control_.destroy_qp(call.number));
    case CallKind::kCreateSrq:
      if (call.srq.buffer != nullptr) {
        return {CommandStatus::kBadParameter, "this engine takes nothing from an SRQ"};
      }
      hold(call.kind, control_.create_srq(call.srq), reply, refusal);
      return refusal;
    case CallKind::kDestroySrq:
      return release(CallKind::kCreateSrq, call.number, control_.destroy_srq(call.number));
    case CallKind::kAllocatePd:
      hold(call.kind, control_.allocate_pd(), reply, refusal);
      return refusal;
    case CallKind::kFreePd:
      return release(CallKind::kAllocatePd, call.number, control_.free_pd(call.number));
    case CallKind::kAttachUar: {
      // Stores to a UAR page only wake, and a kernel does not sleep: the page stays where it is.
      static std::byte page;
      hold(call.kind, control_.attach_uar(&page), reply, refusal);
      return refusal;
    }
    case CallKind::kDetachUar:
      return release(CallKind::kAttachUar, call.number, control_.detach_uar(call.number));
    case CallKind::kCreateDct:
      hold(call.kind, control_.create_dc_target(call.target), reply, refusal);
      return refusal;
    case CallKind::kDestroyDct:
      return release(CallKind::kCreateDct, call.number, control_.destroy_dc_target(call.number));
    case CallKind::kModifyQp:
      return control_.modify_qp(call.number, call.from, call.attributes);
    case CallKind::kQueryQp:
      return control_.query_qp(call.number, &reply.attributes);
    case CallKind::kCqProduced:
      reply.produced = control_.cq_produced(call.number);
      return {};
    case CallKind::kViolations:
      reply.violations = control_.violations();
      return {};
    default:
      return {CommandStatus::kBadOperation, "the GPU engine knows no such call"};
  }
}

Reply Tenant::answer(const Call& call, const Fd& descriptor) {
  Reply reply;
  Refusal refusal;
  try {
    if (call.kind == CallKind::kMap) {
      map(call.extent, descriptor);
      return reply;
    }
    Call here = call;
    refusal = translate(here) ? command(here, reply)
                              : Refusal{CommandStatus::kBadParameter,
                                        "memory that the GPU engine was not shown"};
  } catch (const std::exception& error) {
    reply.status = CommandStatus::kInternalError;
    std::snprintf(reply.reason, sizeof(reply.reason), "%s", error.what());
    return reply;
  }
  offered_.clear();
  reply.status = refusal.status;
  std::snprintf(reply.reason, sizeof(reply.reason), "%s", refusal.reason);
  return reply;
}

}  // namespace peal::softnic::gpu
