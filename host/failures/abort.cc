// SPDX-License-Identifier: Apache-2.0
//
// Ending waits from outside. An abort names the newest context there was and the recoveries there
// had been: one that arrives late does not end what began after it.
#include <algorithm>
#include <string>

#include "base/clock.h"
#include "host/base/error.h"
#include "host/failures/failure_log.h"

namespace peal {
namespace {

constexpr uint64_t kAllContexts = kMaxContexts;
constexpr size_t kMaxReason = 1000;

Failure aborted(int pe, std::string_view reason) {
  Failure why;
  why.status = Status::kAborted;
  why.pe = pe;
  why.time_ns = monotonic_ns();
  why.text = fmt::format("PE {} aborted: {}", pe, reason);
  return why;
}

}  // namespace

void FailureLog::stop(const Failure& why, uint64_t slot, uint64_t serial) const {
  contexts_.for_each([&](ContextOwner& context) {
    if (context.serial() > serial) return;
    const bool named = slot == context.slot() && serial == context.serial();
    if (slot == kAllContexts || named) context.stop(why);
  });
}

void FailureLog::peer_lost(int pe, int pid) {
  if (!group_.lost(pe) || closing_) return;  // at the end, leaving is no failure
  uint64_t never = 0;
  if (!lost_ns_.compare_exchange_strong(never, monotonic_ns())) return;  // the first one tells
  log_.error("runtime",
             "PE {} (process {}) has ended before the job did; all waits end with \"{}\"", pe, pid,
             to_string(Status::kPeerLost));
  contexts_.stop_all(Status::kPeerLost);
  look_now();
}

void FailureLog::abort(const ContextFields* context, std::string_view reason) {
  uint64_t slot = kAllContexts;
  uint64_t serial = 0;
  contexts_.for_each([&](const ContextOwner& one) {
    if (context == nullptr) {
      serial = std::max(serial, one.serial());
    } else if (one.fields().state == context->state) {
      slot = one.slot();
      serial = one.serial();
    }
  });
  if (context != nullptr && slot == kAllContexts) {
    fail(ErrorCode::kInvalidArgument, "abort: the context is none of this runtime, or was dropped");
  }
  reason = reason.substr(0, kMaxReason);
  stop(aborted(group_.rank(), reason), slot, serial);
  look_now();
  for (const int pe : group_.live_pes()) {
    if (pe == group_.rank()) continue;
    const auto sent =
        group_.channel().send(pe, Message::Kind::kAbort, {contexts_.generation(), slot, serial, 0},
                              std::as_bytes(std::span(reason)));
    if (sent != Channel::Sent::kDone) {
      log_.warn("runtime", "abort: PE {} could not be told; its waits end at their deadline", pe);
    }
  }
}

void FailureLog::deliver(const Message& message) {
  const auto [recoveries, slot, serial, unused] = message.word;
  if (recoveries < contexts_.generation() || closing_) return;
  const std::string_view reason(reinterpret_cast<const char*>(message.payload.data()),
                                std::min(message.payload.size(), kMaxReason));
  stop(aborted(message.from, reason), slot, serial);
  look_now();
}

}  // namespace peal
