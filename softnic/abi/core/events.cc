// SPDX-License-Identifier: Apache-2.0
//
// Events that clients wait for.
//
// Async events: the NIC has one queue, each context gets those of its own verbs objects and the
// port's.
//
//   NIC event -> route_events (whoever reads first) -> queue of the owning context -> its reader
//
// Objects made by DEVX have no verbs handle to name: their events go to the DEVX event channels
// that subscribed to them, and nowhere else.
//
// Completion channels: an armed CQ that gets an entry becomes one event of its channel.
//
//   ibv_req_notify_cq -> NIC's arm ... engine -> completed() -> channel's list, descriptor readable
//   ibv_get_cq_event  -> takes one     ibv_ack_cq_events -> counted; destroying a CQ waits for that
#include <mutex>

#include "softnic/abi/core/verbs_queues.h"

namespace peal::softnic::abi {
namespace {

/// What verbs and the firmware call an event; those of SRQs and ports have no DEVX object that
/// stands for them.
constexpr uint16_t kNoName = 0xffff;
constexpr Row<AsyncEvent::Kind, ibv_event_type> kVerbsNames[] = {
    {AsyncEvent::Kind::kQpFatal, IBV_EVENT_QP_FATAL},
    {AsyncEvent::Kind::kQpAccessError, IBV_EVENT_QP_ACCESS_ERR},
    {AsyncEvent::Kind::kQpRequestError, IBV_EVENT_QP_REQ_ERR},
    {AsyncEvent::Kind::kQpLastEntry, IBV_EVENT_QP_LAST_WQE_REACHED},
    {AsyncEvent::Kind::kCqError, IBV_EVENT_CQ_ERR},
    {AsyncEvent::Kind::kPortDown, IBV_EVENT_PORT_ERR},
    {AsyncEvent::Kind::kPortUp, IBV_EVENT_PORT_ACTIVE},
    {AsyncEvent::Kind::kSrqLimit, IBV_EVENT_SRQ_LIMIT_REACHED},
    {AsyncEvent::Kind::kSrqError, IBV_EVENT_SRQ_ERR},
};
constexpr Row<AsyncEvent::Kind, uint16_t> kFirmwareNames[] = {
    {AsyncEvent::Kind::kQpFatal, 0x05},        {AsyncEvent::Kind::kQpAccessError, 0x11},
    {AsyncEvent::Kind::kQpRequestError, 0x10}, {AsyncEvent::Kind::kQpLastEntry, 0x13},
    {AsyncEvent::Kind::kCqError, 0x04},
};
ibv_event_type name_of(const AsyncEvent& event) {
  return right_of(kVerbsNames, event.kind, IBV_EVENT_DEVICE_FATAL);
}

bool of_port(ibv_event_type type) {
  return type == IBV_EVENT_PORT_ERR || type == IBV_EVENT_PORT_ACTIVE;
}
bool of_srq(ibv_event_type type) {
  return type == IBV_EVENT_SRQ_LIMIT_REACHED || type == IBV_EVENT_SRQ_ERR;
}

/// The object that the event names, which is not a port.
Reporter& reporter_of(const ibv_async_event& event) {
  if (event.event_type == IBV_EVENT_CQ_ERR) return verbs_cq(event.element.cq);
  if (of_srq(event.event_type)) return *static_cast<SharedReceives*>(event.element.srq);
  return verbs_qp(event.element.qp);
}

/// Queues the event if the context has a verbs object of that number; every context has the port.
bool deliver(VerbsContext& context, const AsyncEvent& event) {
  ibv_async_event answer = {};
  answer.event_type = name_of(event);
  if (of_port(answer.event_type)) {
    answer.element.port_num = static_cast<int>(event.number);
  } else {
    const bool of_cq = answer.event_type == IBV_EVENT_CQ_ERR;
    const ObjectKind kind = of_cq                       ? ObjectKind::kCq
                            : of_srq(answer.event_type) ? ObjectKind::kSrq
                                                        : ObjectKind::kQp;
    Object* found = context.find(kind, event.number);
    const uint16_t firmware = right_of(kFirmwareNames, event.kind, kNoName);
    if (found != nullptr) tell_subscribers(*found, firmware);
    if (auto* cq = dynamic_cast<VerbsCq*>(found)) {
      answer.element.cq = cq->plain();
    } else if (auto* srq = dynamic_cast<SharedReceives*>(found)) {
      answer.element.srq = srq;
    } else if (auto* qp = dynamic_cast<VerbsQueuePair*>(found)) {
      answer.element.qp = &qp->qp_base;
    } else {
      return false;
    }
  }
  context.events.push(answer);
  return true;
}

/// Takes this context's next event, routing the NIC's first.
bool take(VerbsContext& context, ibv_async_event* event) {
  route_events(context.nic());
  return context.events.take([&](const ibv_async_event& next) {
    *event = next;
    if (of_port(next.event_type)) return;
    Reporter& object = reporter_of(next);
    object.report(object.async);
  });
}

}  // namespace

void route_events(SoftwareNic& nic) {
  AsyncEvent event;
  while (nic.next_event(&event))
    for (auto& [context, owner] : process().contexts) {
      if (&context->nic() != &nic) continue;
      if (deliver(*context, event) && !of_port(name_of(event))) break;
    }
}

int destroy_with_events(ibv_context* handle, Object& object, Reporter& events, const void* named) {
  const bool acknowledged = events.wait_acknowledged();
  return answer_error([&] {
    if (!acknowledged) refuse(EBUSY);
    VerbsContext& context = VerbsContext::of(handle);
    context.destroy(object);
    route_events(context.nic());  // nobody has this one's any more
    // In a union of pointers any names the handle.
    context.events.forget([=](const ibv_async_event& event) {
      return !of_port(event.event_type) && event.element.qp == named;
    });
  });
}

int req_notify_slot(ibv_cq* handle, int solicited_only) {
  return answer_plainly([&] {
    VerbsCq& cq = verbs_cq(handle);
    if (cq.channel == nullptr) return;  // nobody to tell
    std::unique_lock hold(cq.lock);
    const bool kept = !cq.kept.empty();
    const auto consumed = static_cast<uint32_t>(cq.consumed) & 0xffffff;
    hold.unlock();
    if (kept) return cq.completed();
    require(cq.nic().arm_cq(cq.number, consumed, solicited_only != 0, cq));
  });
}

extern "C" {

// Blocks until an event arrives unless async_fd is O_NONBLOCK, as its manual page says.
int ibv_get_async_event(ibv_context* handle, ibv_async_event* event) {
  return take_or_wait(handle->async_fd, [&] {
    int taken = 0;
    const int error = answer_error([&] { taken = take(VerbsContext::of(handle), event); });
    return error == 0 ? taken : -1;
  });
}

void ibv_ack_async_event(ibv_async_event* event) {
  if (of_port(event->event_type)) return;
  Reporter& object = reporter_of(*event);
  // Acknowledged more often than taken.
  if (!object.acknowledge(object.async, 1)) errno = EINVAL;
}

ibv_comp_channel* ibv_create_comp_channel(ibv_context* handle) {
  return answer_pointer([&]() -> ibv_comp_channel* {
    VerbsContext& context = VerbsContext::of(handle);
    auto channel = std::make_unique<CompletionChannel>(context);
    channel->number = context.next_number();
    channel->context = handle;
    channel->fd = channel->waiting.fd();
    return context.adopt(std::move(channel));
  });
}

int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  return destroy_handle<CompletionChannel>(channel);
}

// Blocks until an event arrives unless the descriptor is O_NONBLOCK, as its manual page says.
int ibv_get_cq_event(ibv_comp_channel* handle, ibv_cq** cq, void** cq_context) {
  auto& channel = *static_cast<CompletionChannel*>(handle);
  return take_or_wait(channel.fd, [&] {
    return channel.waiting.take([&](VerbsCq* taken) {
      taken->report(taken->completions);
      *cq = taken->plain();
      *cq_context = taken->cq_context;
    });
  });
}

// More than were taken: rdma-core counts on and hangs when the CQ is destroyed; here they are
// refused, and errno tells.
void ibv_ack_cq_events(ibv_cq* handle, unsigned count) {
  VerbsCq& cq = verbs_cq(handle);
  if (!cq.acknowledge(cq.completions, count)) errno = EINVAL;
}

}  // extern "C"
}  // namespace peal::softnic::abi
