// SPDX-License-Identifier: Apache-2.0
//
// Async events: the NIC has one queue, each context gets those of its own verbs objects and the
// port's.
//
//   NIC event -> route_events (whoever reads first) -> queue of the owning context -> its reader
//
// Objects made by DEVX have no verbs handle to name: their events go to the DEVX event channels
// that subscribed to them, and nowhere else.
#include <unistd.h>

#include "softnic/abi/acknowledged.h"
#include "softnic/abi/devx_events.h"
#include "softnic/abi/verbs_queues.h"

namespace peal::softnic::abi {
namespace {

ibv_event_type verbs_type(AsyncEvent::Kind kind) {
  switch (kind) {
    case AsyncEvent::Kind::kQpFatal:
      return IBV_EVENT_QP_FATAL;
    case AsyncEvent::Kind::kQpAccessError:
      return IBV_EVENT_QP_ACCESS_ERR;
    case AsyncEvent::Kind::kQpRequestError:
      return IBV_EVENT_QP_REQ_ERR;
    case AsyncEvent::Kind::kQpLastEntry:
      return IBV_EVENT_QP_LAST_WQE_REACHED;
    case AsyncEvent::Kind::kCqError:
      return IBV_EVENT_CQ_ERR;
    case AsyncEvent::Kind::kPortDown:
      return IBV_EVENT_PORT_ERR;
    case AsyncEvent::Kind::kPortUp:
      return IBV_EVENT_PORT_ACTIVE;
    case AsyncEvent::Kind::kSrqLimit:
      return IBV_EVENT_SRQ_LIMIT_REACHED;
    case AsyncEvent::Kind::kSrqError:
      return IBV_EVENT_SRQ_ERR;
  }
  return IBV_EVENT_DEVICE_FATAL;
}

bool of_port(ibv_event_type type) {
  return type == IBV_EVENT_PORT_ERR || type == IBV_EVENT_PORT_ACTIVE;
}
bool of_srq(ibv_event_type type) {
  return type == IBV_EVENT_SRQ_LIMIT_REACHED || type == IBV_EVENT_SRQ_ERR;
}

/// The handle that the event names; null for one of a port.
const void* subject(const ibv_async_event& event) {
  if (of_port(event.event_type)) return nullptr;
  if (event.event_type == IBV_EVENT_CQ_ERR) return event.element.cq;
  if (of_srq(event.event_type)) return event.element.srq;
  return event.element.qp;
}

/// Queues the event if the context has a verbs object of that number; every context has the port.
bool deliver(Context& context, const AsyncEvent& event) {
  ibv_async_event answer = {};
  answer.event_type = verbs_type(event.kind);
  if (of_port(answer.event_type)) {
    answer.element.port_num = static_cast<int>(event.number);
  } else if (event.kind == AsyncEvent::Kind::kCqError) {
    Object* found = context.find(Kind::kCq, event.number);
    if (found != nullptr) tell_subscribers(*found, event.kind);
    auto* cq = dynamic_cast<VerbsCq*>(found);
    if (cq == nullptr) return false;
    answer.element.cq = cq->plain();
  } else if (of_srq(answer.event_type)) {
    auto* srq = dynamic_cast<VerbsSrq*>(context.find(Kind::kSrq, event.number));
    if (srq == nullptr) return false;
    answer.element.srq = srq;
  } else {
    Object* found = context.find(Kind::kQp, event.number);
    if (found != nullptr) tell_subscribers(*found, event.kind);
    auto* qp = dynamic_cast<VerbsQueuePair*>(found);
    if (qp == nullptr) return false;
    answer.element.qp = &qp->qp_base;
  }
  context.events.push_back(answer);
  uint64_t one = 1;
  return write(context.event_wake.get(), &one, sizeof one) == sizeof one;
}

/// Takes this context's next event, routing the NIC's first.
bool take(Context& context, ibv_async_event* event) {
  route_events(context.nic());
  if (context.events.empty()) return false;
  *event = context.events.front();
  context.events.pop_front();
  uint64_t count = 0;
  bool drained = context.events.empty();
  if (drained && read(context.event_wake.get(), &count, sizeof count) < 0 && errno != EAGAIN)
    refuse(errno);
  if (event->event_type == IBV_EVENT_CQ_ERR) {
    VerbsCq& cq = verbs_cq(event->element.cq);
    report(cq, cq.async_reported);
  } else if (of_srq(event->event_type)) {
    auto& srq = *static_cast<VerbsSrq*>(event->element.srq);
    report(srq, srq.async_reported);
  } else if (!of_port(event->event_type)) {
    VerbsQp& qp = verbs_qp(event->element.qp);
    report(qp.qp_base, qp.async_reported);
  }
  return true;
}

}  // namespace

void route_events(Nic& nic) {
  AsyncEvent event;
  while (nic.next_event(&event))
    for (auto& [context, owner] : process().contexts) {
      if (&context->nic() != &nic) continue;
      if (deliver(*context, event) && !of_port(verbs_type(event.kind))) break;
    }
}

void destroy_with_events(Context& context, Object& object, const void* handle) {
  context.destroy(object);
  route_events(context.nic());  // nobody has this one's any more
  std::erase_if(context.events,
                [=](const ibv_async_event& event) { return subject(event) == handle; });
}

}  // namespace peal::softnic::abi

using namespace peal::softnic::abi;

extern "C" {

// Blocks until an event arrives unless async_fd is O_NONBLOCK, as its manual page says.
int ibv_get_async_event(ibv_context* handle, ibv_async_event* event) {
  for (;;) {
    bool taken = false;
    if (answer_error([&] { taken = take(Context::of(handle), event); }) != 0) return -1;
    if (taken) return 0;
    if (!await(handle->async_fd)) return -1;
  }
}

void ibv_ack_async_event(ibv_async_event* event) {
  bool known = true;
  if (event->event_type == IBV_EVENT_CQ_ERR) {
    VerbsCq& cq = verbs_cq(event->element.cq);
    known = acknowledge(cq, cq.async_events_completed, cq.async_reported, 1);
  } else if (of_srq(event->event_type)) {
    auto& srq = *static_cast<VerbsSrq*>(event->element.srq);
    known = acknowledge(srq, srq.events_completed, srq.async_reported, 1);
  } else if (!of_port(event->event_type)) {
    VerbsQp& qp = verbs_qp(event->element.qp);
    known = acknowledge(qp.qp_base, qp.qp_base.events_completed, qp.async_reported, 1);
  }
  if (!known) errno = EINVAL;  // acknowledged more often than taken
}

}  // extern "C"
