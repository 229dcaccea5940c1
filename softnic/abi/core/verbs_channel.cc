// SPDX-License-Identifier: Apache-2.0
//
// Completion channels: an armed CQ that gets an entry becomes one event of its channel.
//
//   ibv_req_notify_cq -> NIC's arm ... engine -> completed() -> channel's list, descriptor readable
//   ibv_get_cq_event  -> takes one     ibv_ack_cq_events -> counted; destroying a CQ waits for that
#include <mutex>

#include "softnic/abi/core/verbs_queues.h"

namespace peal::softnic::abi {

void VerbsCq::completed() { static_cast<CompletionChannel*>(channel)->waiting.push(this); }

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

ibv_comp_channel* ibv_create_comp_channel(ibv_context* handle) {
  return answer_pointer([&]() -> ibv_comp_channel* {
    Context& context = Context::of(handle);
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
