// SPDX-License-Identifier: Apache-2.0
//
// Event channels of DEVX: who made an object by DEVX hears of its events by a word of its own.
//
//   subscribe: object -> {channel's queue, event, cookie}
//   NIC event -> route_events -> tell_subscribers -> queue, descriptor readable -> get_event:
//   cookie
//   completion of an armed CQ -> engine's thread -> completed() -> queue
//
// Events come without the firmware's event queue entry (OMIT_EV_DATA), and of objects only.
#include "softnic/abi/core/devx.h"
#include "softnic/abi/core/verbs_queues.h"

namespace peal::softnic::abi {
namespace {

class EventChannel : public Object, public mlx5dv_devx_event_channel {
 public:
  explicit EventChannel(VerbsContext& of)
      : Object(ObjectKind::kEventChannel, of),
        mlx5dv_devx_event_channel{},
        cookies(std::make_shared<WakingQueue<uint64_t>>(EFD_NONBLOCK)),
        descriptor(cookies->fd(), nic().event_fd()) {
    fd = descriptor.fd();
  }

  const std::shared_ptr<WakingQueue<uint64_t>> cookies;
  const AnyReadable descriptor;  // of `cookies`, and of the NIC's events that nobody routed yet
};

constexpr uint16_t kCompletion = 0;  // MLX5_EVENT_TYPE_COMP (include/linux/mlx5/device.h)

/// Events that the kernel knows for queue pairs and for completion queues.
bool is_known(ObjectKind kind, uint16_t event) {
  constexpr uint32_t kOfQueuePairs = 1u << 0x01 | 1u << 0x02 | 1u << 0x03 | 1u << 0x05 |
                                     1u << 0x07 | 1u << 0x10 | 1u << 0x11 | 1u << 0x13;
  constexpr uint32_t kOfCompletionQueues = 1u << kCompletion | 1u << 0x04;
  if (event >= 32) return false;
  if (kind == ObjectKind::kQp) return (kOfQueuePairs >> event & 1) != 0;
  return kind == ObjectKind::kCq && (kOfCompletionQueues >> event & 1) != 0;
}

void subscribe(mlx5dv_devx_obj& object, const EventChannel& channel, uint16_t event,
               uint64_t cookie) {
  auto* const cq = dynamic_cast<devx::DevxCq*>(&object);
  if (event == kCompletion && cq != nullptr) {
    cq->tell_completions(channel.cookies, cookie);
  } else {
    object.subscriptions.push_back({channel.cookies, event, cookie});
  }
}

}  // namespace

void devx::DevxCq::completed() {
  const std::lock_guard hold(mutex_);
  for (const Subscription& one : completions_) {
    if (const auto queue = one.queue.lock()) queue->push(one.cookie);
  }
}

void devx::DevxCq::tell_completions(std::weak_ptr<WakingQueue<uint64_t>> queue, uint64_t cookie) {
  {
    const std::lock_guard hold(mutex_);
    completions_.push_back({std::move(queue), kCompletion, cookie});
  }
  try {
    require(nic().listen_cq(number, *this));
  } catch (...) {
    const std::lock_guard hold(mutex_);
    completions_.pop_back();
    throw;
  }
}

void tell_subscribers(Object& object, uint16_t event) {
  auto* const made = dynamic_cast<mlx5dv_devx_obj*>(&object);
  if (made == nullptr) return;
  for (const mlx5dv_devx_obj::Subscription& one : made->subscriptions) {
    const auto queue = one.queue.lock();
    if (queue != nullptr && one.event == event) queue->push(one.cookie);
  }
}

extern "C" {

mlx5dv_devx_event_channel* mlx5dv_devx_create_event_channel(
    ibv_context* handle, mlx5dv_devx_create_event_channel_flags flags) {
  return answer_pointer([&]() -> mlx5dv_devx_event_channel* {
    VerbsContext& context = VerbsContext::of(handle);
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
    if (&object->object().owner != &channel.owner || bytes == 0 || bytes % sizeof *events != 0) {
      refuse(EINVAL);
    }
    const uint16_t* const end = events + bytes / sizeof *events;
    for (const uint16_t* event = events; event != end; ++event) {
      if (!is_known(object->object().kind, *event)) refuse(EINVAL);
    }
    for (const uint16_t* event = events; event != end; ++event) {
      subscribe(*object, channel, *event, cookie);
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
  const auto take = [&] {
    int taken = 0;
    const int error = answer_error([&] {
      route_events(channel.nic());
      taken = channel.cookies->take([&](uint64_t cookie) { event->cookie = cookie; });
    });
    return error == 0 ? taken : -1;
  };
  return take_or_wait(channel.fd, take) == 0 ? static_cast<ssize_t>(sizeof *event) : -1;
}

}  // extern "C"
}  // namespace peal::softnic::abi
