// SPDX-License-Identifier: Apache-2.0
//
// Event channels of DEVX: who made an object by DEVX hears of its events by a word of its own.
//
//   subscribe: object -> {channel's queue, event, cookie}
//   NIC event -> route_events -> tell_subscribers -> queue, descriptor readable -> get_event:
//   cookie
#pragma once

#include <infiniband/mlx5dv.h>

#include <cstdint>
#include <memory>

#include "base/fd.h"
#include "softnic/abi/core/memory.h"
#include "softnic/abi/core/waking_queue.h"
#include "softnic/nic.h"

namespace peal::softnic::abi {

/// Cookies that wait to be taken. Outlives its channel while an object is subscribed to it.
struct CookieQueue : WakingQueue<uint64_t> {
  CookieQueue() : WakingQueue(EFD_NONBLOCK) {}
};

class EventChannel : public Object, public mlx5dv_devx_event_channel {
 public:
  explicit EventChannel(Context& of);

  std::shared_ptr<CookieQueue> cookies;
  Fd descriptor;  // epoll: of `cookies`, and of the NIC's events that nobody routed yet
};

/// Queues the cookie of everyone who subscribed to that event of the object, by the firmware's
/// number.
void tell_subscribers(Object& object, uint16_t event);

}  // namespace peal::softnic::abi
