// SPDX-License-Identifier: Apache-2.0
//
// What kernels did last, as the flight recorder has it (host/contexts/recorder.h), in words.
#pragma once

#include <string>

#include "device/context.h"
#include "host/contexts/context_owner.h"
#include "host/contexts/recorder.h"
#include "host/failures/waits.h"

namespace peal {

/// "put_signal": the call by its name in device/api.h, as far as its record tells.
const char* name_of(const CallRecord::Body& call);
const char* to_string(CallKind kind);
const char* to_string(CallScope scope);

/// The last kLastCalls of a ring, the newest last, a line each below a heading; "" where there are
/// none and kernels could have written some. `context` is the slot's, or null once it was dropped.
inline constexpr size_t kLastCalls = 16;
std::string describe_last(const Recorded& recorded, const ContextOwner* context,
                          const PlaceOf& place_of);

}  // namespace peal
