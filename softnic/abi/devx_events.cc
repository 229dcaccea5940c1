// SPDX-License-Identifier: Apache-2.0
//
// mlx5dv_devx_create_event_channel and what goes with it. Events come without the firmware's event
// queue entry (OMIT_EV_DATA), and of objects only.
#include "softnic/abi/devx_events.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "softnic/abi/devx.h"
#include "softnic/abi/verbs_queues.h"

namespace peal::softnic::abi {
namespace {

/// The firmware's number of an event; 0 is a completion, which this NIC does not tell of.
uint16_t event_number(AsyncEvent::Kind kind) {
  switch (kind) {
    case AsyncEvent::Kind::kCqError:
      return 0x04;
    case AsyncEvent::Kind::kQpFatal:
      return 0x05;
    case AsyncEvent::Kind::kQpRequestError:
      return 0x10;
    case AsyncEvent::Kind::kQpAccessError:
      return 0x11;
    case AsyncEvent::Kind::kQpLastEntry:
      return 0x13;
    default:
      return 0;  // of SRQs and ports, which no DEVX object stands for
  }
}

/// Events that the kernel knows for queue pairs and for completion queues.
bool is_known(Kind kind, uint16_t event) {
  constexpr uint32_t kOfQueuePairs = 1u << 0x01 | 1u << 0x02 | 1u << 0x03 | 1u << 0x05 |
                                     1u << 0x07 | 1u << 0x10 | 1u << 0x11 | 1u << 0x13;
  constexpr uint32_t kOfCompletionQueues = 1u << 0x04;
  if (event >= 32) return false;
  if (kind == Kind::kQp) return (kOfQueuePairs >> event & 1) != 0;
  return kind == Kind::kCq && (kOfCompletionQueues >> event & 1) != 0;
}

/// The next cookie, the NIC's events routed first; false when there is none.
bool take(EventChannel& channel, uint64_t* cookie) {
  route_events(channel.owner.nic());
  CookieQueue& queue = *channel.cookies;
  if (queue.waiting.empty()) return false;
  *cookie = queue.waiting.front();
  queue.waiting.pop_front();
  uint64_t count = 0;
  if (queue.waiting.empty() && read(queue.wake.get(), &count, sizeof count) < 0) refuse(errno);
  return true;
}

}  // namespace

EventChannel::EventChannel(Context& context)
    : Object(Kind::kEventChannel),
      mlx5dv_devx_event_channel{},
      owner(context),
      cookies(std::make_shared<CookieQueue>()) {
  cookies->wake = Fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (cookies->wake.get() < 0) refuse(errno);
  descriptor = watch_both(cookies->wake.get(), context.nic().event_fd());
  fd = descriptor.get();
}

void tell_subscribers(Object& object, AsyncEvent::Kind kind) {
  auto* const made = dynamic_cast<mlx5dv_devx_obj*>(&object);
  if (made == nullptr) return;
  for (const mlx5dv_devx_obj::Subscription& one : made->subscriptions) {
    const std::shared_ptr<CookieQueue> queue = one.queue.lock();
    if (queue == nullptr || one.event != event_number(kind)) continue;
    queue->waiting.push_back(one.cookie);
    const uint64_t word = 1;
    if (write(queue->wake.get(), &word, sizeof word) < 0) refuse(errno);
  }
}

}  // namespace peal::softnic::abi

using namespace peal::softnic;
using namespace peal::softnic::abi;

extern "C" {

mlx5dv_devx_event_channel* mlx5dv_devx_create_event_channel(
    ibv_context* handle, mlx5dv_devx_create_event_channel_flags flags) {
  return answer_pointer([&]() -> mlx5dv_devx_event_channel* {
    Context& context = Context::of(handle);
    require_devx(context);
    if (flags != MLX5DV_DEVX_CREATE_EVENT_CHANNEL_FLAGS_OMIT_EV_DATA) refuse(EOPNOTSUPP);
    auto channel = std::make_unique<EventChannel>(context);
    channel->number = context.next_number();
    return context.adopt(std::move(channel));
  });
}

void mlx5dv_devx_destroy_event_channel(mlx5dv_devx_event_channel* handle) {
  auto& channel = *static_cast<EventChannel*>(handle);
  answer_error([&] { channel.owner.destroy(channel); });
}

int mlx5dv_devx_subscribe_devx_event(mlx5dv_devx_event_channel* handle, mlx5dv_devx_obj* object,
                                     uint16_t bytes, uint16_t events[], uint64_t cookie) {
  return answer_error([&] {
    auto& channel = *static_cast<EventChannel*>(handle);
    if (object == nullptr) refuse(EOPNOTSUPP);
    if (object->owner != &channel.owner || bytes == 0 || bytes % sizeof *events != 0) {
      refuse(EINVAL);
    }
    const uint16_t* const end = events + bytes / sizeof *events;
    for (const uint16_t* event = events; event != end; ++event) {
      if (!is_known(object->object->kind, *event)) refuse(EINVAL);
    }
    for (const uint16_t* event = events; event != end; ++event) {
      object->subscriptions.push_back({channel.cookies, *event, cookie});
    }
  });
}

// Blocks until an event comes unless the descriptor is O_NONBLOCK, as the kernel's read does.
ssize_t mlx5dv_devx_get_event(mlx5dv_devx_event_channel* handle, mlx5dv_devx_async_event_hdr* event,
                              size_t bytes) {
  auto& channel = *static_cast<EventChannel*>(handle);
  if (bytes < sizeof *event) {
    errno = EINVAL;
    return -1;
  }
  for (;;) {
    bool taken = false;
    uint64_t cookie = 0;
    if (answer_error([&] { taken = take(channel, &cookie); }) != 0) return -1;
    if (taken) {
      event->cookie = cookie;
      return sizeof *event;
    }
    if (!await(channel.fd)) return -1;
  }
}

}  // extern "C"
