// SPDX-License-Identifier: Apache-2.0
//
// A range at a PE as a call names it, and the first usage error of a context: the call that could
// not be carried out.
#pragma once

#include <cstdint>

#include "device/base/order.h"
#include "device/base/spin.h"
#include "device/context.h"
#include "device/shared/waits.h"

namespace peal::detail {

/// What goes there: payload, which nobody may look at before a signal or a barrier, a word that
/// somebody may be waiting for, an atomic on one, or an atomic that vouches for what is ahead of
/// it.
enum class Use { kPayload, kWord, kAtomic, kReleasing };

/// A range at a PE, as a call names it.
struct Asked {
  const void* address;
  uint64_t bytes;
  int pe;
  Use use = Use::kPayload;
  bool aligned = false;  // true: must be a multiple of `bytes`
  Call call = Call::kNone;
  CallSide side = CallSide::kThere;
  bool counts = true;   // an operation, for a plan of faults (meet_fault.h); false: part of one
  uint8_t by_warp = 0;  // ContextFields::by_warp of the caller's context (queue_choice.h)
};

PEAL_HD bool misaligned(const Asked& asked) {
  return asked.aligned && reinterpret_cast<uint64_t>(asked.address) % asked.bytes != 0;
}

/// Latches the first usage error of a context and returns `status`. Takes no context: one whose
/// address is passed out of line is copied to the stack by every kernel, whether it errs or not.
PEAL_DEVICE_COLD inline Status refuse(ContextState* state, Status status, Asked asked) {
  UsageError& usage = state->usage;
  if (compare_exchange<Reach::kGpu>(&usage.claimed, 0u, static_cast<uint32_t>(status))) {
    usage.pe = asked.pe;
    usage.call = asked.call;
    usage.side = asked.side;
    usage.lane = this_lane();
    usage.place = this_place();
    usage.address = reinterpret_cast<uint64_t>(asked.address);
    usage.bytes = asked.bytes;
    usage.time_ns = now_ns();
    store_release<Reach::kSystem>(&usage.status, static_cast<uint32_t>(status));
    if (state->alarm != nullptr) store_release<Reach::kSystem>(state->alarm, 1u);
  }
  return status;
}

/// The status of the first refused call, also while that call still writes down what the host will
/// read.
PEAL_HD Status usage_status(const ContextFields& ctx) {
  return static_cast<Status>(load_relaxed<Reach::kGpu>(&ctx.state->usage.claimed));
}

/// Why the waits of the context have been ended (a PE is lost, somebody called abort()), or kOk.
/// For calls whose peer is mapped: those of a NIC hear of it from the queue, or as they wait.
PEAL_HD Status ended_status(const ContextFields& ctx) {
  return static_cast<Status>(load_relaxed<Reach::kGpu>(&ctx.state->ended));
}

}  // namespace peal::detail
