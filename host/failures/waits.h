// SPDX-License-Identifier: Apache-2.0
//
// What kernels wrote down of their waits (device/shared/wait_record.h), in words.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "device/context.h"
#include "host/contexts/context_owner.h"
#include "host/contexts/usage_text.h"

namespace peal {

/// One wait that lasts, or that ended without its condition.
struct WaitNote {
  Status status = Status::kOk;  // kOk: it lasts
  WaitKind kind = WaitKind::kOther;
  int from = -1;  // the PE that it would end by, if that is one PE
  uint64_t ended_ns = 0;
  std::string text;  // a sentence without its end: "kernel ring, block 0, thread 3, waits for ..."
};

/// Those of one context, as its kernels wrote them.
std::vector<WaitNote> waits_of(const ContextOwner& context, const PlaceOf& place_of);

/// True if the end of such a wait closes a queue, which tells of it.
bool closes_queue(WaitKind kind);

}  // namespace peal
