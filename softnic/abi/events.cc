// SPDX-License-Identifier: Apache-2.0
//
// Async events: the NIC has one queue, each context gets those of its own verbs objects and the
// port's.
//
//   NIC event -> route_events (whoever reads first) -> queue of the owning context -> its reader
//
// Objects made by DEVX have no verbs handle to name: their events go to the DEVX event channels
// that subscribed to them, and nowhere else.
#include <algorithm>

#include "softnic/abi/acknowledged.h"
#include "softnic/abi/devx_events.h"
#include "softnic/abi/verbs_queues.h"

namespace peal::softnic::abi {
namespace {

/// What verbs and the firmware call an event; 0: of SRQs and ports, which no DEVX object stands
/// for.
struct EventNames {
  AsyncEvent::Kind kind;
  ibv_event_type verbs;
  uint16_t firmware;
};
constexpr EventNames kEvents[] = {
    {AsyncEvent::Kind::kQpFatal, IBV_EVENT_QP_FATAL, 0x05},
    {AsyncEvent::Kind::kQpAccessError, IBV_EVENT_QP_ACCESS_ERR, 0x11},
    {AsyncEvent::Kind::kQpRequestError, IBV_EVENT_QP_REQ_ERR, 0x10},
    {AsyncEvent::Kind::kQpLastEntry, IBV_EVENT_QP_LAST_WQE_REACHED, 0x13},
    {AsyncEvent::Kind::kCqError, IBV_EVENT_CQ_ERR, 0x04},
    {AsyncEvent::Kind::kPortDown, IBV_EVENT_PORT_ERR, 0},
    {AsyncEvent::Kind::kPortUp, IBV_EVENT_PORT_ACTIVE, 0},
    {AsyncEvent::Kind::kSrqLimit, IBV_EVENT_SRQ_LIMIT_REACHED, 0},
    {AsyncEvent::Kind::kSrqError, IBV_EVENT_SRQ_ERR, 0},
};
const EventNames& names_of(const AsyncEvent& event) {
  static constexpr EventNames kUnknown = {{}, IBV_EVENT_DEVICE_FATAL, 0};
  const auto* const found = std::ranges::find(kEvents, event.kind, &EventNames::kind);
  return found != std::end(kEvents) ? *found : kUnknown;
}

bool of_port(ibv_event_type type) {
  return type == IBV_EVENT_PORT_ERR || type == IBV_EVENT_PORT_ACTIVE;
}
bool of_srq(ibv_event_type type) {
  return type == IBV_EVENT_SRQ_LIMIT_REACHED || type == IBV_EVENT_SRQ_ERR;
}

/// The handle that the event names; null for one of a port. In a union of pointers any names it.
const void* handle_of(const ibv_async_event& event) {
  return of_port(event.event_type) ? nullptr : event.element.qp;
}

/// How events of an object are counted, under its mutex.
struct Tally {
  pthread_mutex_t& mutex;
  pthread_cond_t& cond;
  uint32_t& reported;
  uint32_t& acknowledged;
};
/// Of the object that the event names, which is not a port.
Tally tally_of(const ibv_async_event& event) {
  if (event.event_type == IBV_EVENT_CQ_ERR) {
    VerbsCq& cq = verbs_cq(event.element.cq);
    return {cq.mutex, cq.cond, cq.async_reported, cq.async_events_completed};
  }
  if (of_srq(event.event_type)) {
    auto& srq = *static_cast<VerbsSrq*>(event.element.srq);
    return {srq.mutex, srq.cond, srq.async_reported, srq.events_completed};
  }
  VerbsQp& qp = verbs_qp(event.element.qp);
  return {qp.qp_base.mutex, qp.qp_base.cond, qp.async_reported, qp.qp_base.events_completed};
}

/// Queues the event if the context has a verbs object of that number; every context has the port.
bool deliver(Context& context, const AsyncEvent& event) {
  const EventNames& names = names_of(event);
  ibv_async_event answer = {};
  answer.event_type = names.verbs;
  if (of_port(names.verbs)) {
    answer.element.port_num = static_cast<int>(event.number);
  } else {
    const bool of_cq = names.verbs == IBV_EVENT_CQ_ERR;
    const Kind kind = of_cq ? Kind::kCq : of_srq(names.verbs) ? Kind::kSrq : Kind::kQp;
    Object* found = context.find(kind, event.number);
    if (found != nullptr) tell_subscribers(*found, names.firmware);
    if (auto* cq = dynamic_cast<VerbsCq*>(found)) {
      answer.element.cq = cq->plain();
    } else if (auto* srq = dynamic_cast<VerbsSrq*>(found)) {
      answer.element.srq = srq;
    } else if (auto* qp = dynamic_cast<VerbsQueuePair*>(found)) {
      answer.element.qp = &qp->qp_base;
    } else {
      return false;
    }
  }
  context.events->push(answer);
  return true;
}

/// Takes this context's next event, routing the NIC's first.
bool take(Context& context, ibv_async_event* event) {
  route_events(context.nic());
  return context.events->take([&](const ibv_async_event& next) {
    *event = next;
    if (of_port(next.event_type)) return;
    Tally tally = tally_of(next);
    report(tally, tally.reported);
  });
}

}  // namespace

void route_events(Nic& nic) {
  AsyncEvent event;
  while (nic.next_event(&event))
    for (auto& [context, owner] : process().contexts) {
      if (&context->nic() != &nic) continue;
      if (deliver(*context, event) && !of_port(names_of(event).verbs)) break;
    }
}

void destroy_with_events(Context& context, Object& object, const void* handle) {
  context.destroy(object);
  route_events(context.nic());  // nobody has this one's any more
  context.events->forget([=](const ibv_async_event& event) { return handle_of(event) == handle; });
}

}  // namespace peal::softnic::abi

using namespace peal::softnic::abi;

extern "C" {

// Blocks until an event arrives unless async_fd is O_NONBLOCK, as its manual page says.
int ibv_get_async_event(ibv_context* handle, ibv_async_event* event) {
  return take_or_wait(handle->async_fd, [&] {
    int taken = 0;
    const int error = answer_error([&] { taken = take(Context::of(handle), event); });
    return error == 0 ? taken : -1;
  });
}

void ibv_ack_async_event(ibv_async_event* event) {
  if (of_port(event->event_type)) return;
  Tally tally = tally_of(*event);
  // Acknowledged more often than taken.
  if (!acknowledge(tally, tally.acknowledged, tally.reported, 1)) errno = EINVAL;
}

}  // extern "C"
