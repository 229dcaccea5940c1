// SPDX-License-Identifier: Apache-2.0
//
// Completion channels: an armed CQ that gets an entry becomes one event of its channel.
//
//   ibv_req_notify_cq -> NIC's arm ... engine -> completed() -> channel's list, descriptor readable
//   ibv_get_cq_event  -> takes one     ibv_ack_cq_events -> counted; destroying a CQ waits for that
//
// The descriptor is readable exactly while an event waits, so poll, epoll and O_NONBLOCK do what
// they do with rdma-core's.
#include <sys/eventfd.h>
#include <unistd.h>

#include <mutex>

#include "softnic/abi/acknowledged.h"
#include "softnic/abi/verbs_queues.h"

namespace peal::softnic::abi {

void CompletionChannel::push(VerbsCq& cq) {
  const std::lock_guard hold(mutex_);
  waiting_.push_back(&cq);
  const uint64_t one = 1;
  // Cannot fail: the counter is 0 or 1.
  if (waiting_.size() == 1) [[maybe_unused]]
    const ssize_t n = write(fd, &one, sizeof one);
}

VerbsCq* CompletionChannel::take() {
  const std::lock_guard hold(mutex_);
  if (waiting_.empty()) return nullptr;
  VerbsCq* cq = waiting_.front();
  waiting_.pop_front();
  report(*cq, cq->events_reported);
  settle();
  return cq;
}

void CompletionChannel::forget(VerbsCq& cq) {
  const std::lock_guard hold(mutex_);
  if (std::erase(waiting_, &cq) > 0) settle();
}

/// Something was taken: an empty list is not readable.
void CompletionChannel::settle() {
  uint64_t count = 0;
  if (waiting_.empty()) [[maybe_unused]]
    const ssize_t n = read(fd, &count, sizeof count);
}

void VerbsCq::completed() { static_cast<CompletionChannel*>(channel)->push(*this); }

int req_notify_slot(ibv_cq* handle, int solicited_only) {
  return answer_plainly([&] {
    VerbsCq& cq = verbs_cq(handle);
    if (cq.channel == nullptr) return;  // nobody to tell
    std::unique_lock hold(cq.lock);
    const bool kept = !cq.kept.empty();
    const auto consumed = static_cast<uint32_t>(cq.consumed) & 0xffffff;
    hold.unlock();
    if (kept) return cq.completed();
    require(cq.nic->arm_cq(cq.number, consumed, solicited_only != 0, cq));
  });
}

}  // namespace peal::softnic::abi

using namespace peal::softnic;
using namespace peal::softnic::abi;

extern "C" {

ibv_comp_channel* ibv_create_comp_channel(ibv_context* handle) {
  return answer_pointer([&]() -> ibv_comp_channel* {
    Context& context = Context::of(handle);
    auto channel = std::make_unique<CompletionChannel>();
    channel->descriptor = peal::Fd(eventfd(0, EFD_CLOEXEC));
    if (channel->descriptor.get() < 0) refuse(errno);
    channel->number = context.next_number();
    channel->context = handle;
    channel->fd = channel->descriptor.get();
    return context.adopt(std::move(channel));
  });
}

int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  return answer_error(
      [&] { Context::of(channel->context).destroy(*static_cast<CompletionChannel*>(channel)); });
}

// Blocks until an event arrives unless the descriptor is O_NONBLOCK, as its manual page says.
int ibv_get_cq_event(ibv_comp_channel* handle, ibv_cq** cq, void** cq_context) {
  auto& channel = *static_cast<CompletionChannel*>(handle);
  for (;;) {
    if (VerbsCq* taken = channel.take()) {
      *cq = taken->plain();
      *cq_context = taken->cq_context;
      return 0;
    }
    if (!await(channel.fd)) return -1;
  }
}

// More than were taken: rdma-core counts on and hangs when the CQ is destroyed; here they are
// refused, and errno tells.
void ibv_ack_cq_events(ibv_cq* handle, unsigned count) {
  VerbsCq& cq = verbs_cq(handle);
  if (!acknowledge(cq, cq.comp_events_completed, cq.events_reported, count)) errno = EINVAL;
}

}  // extern "C"
