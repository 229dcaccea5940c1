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

/// "put_signal_nbi": the call by its name in device/api.h.
std::string name_of(const CallRecord::Body& call);
/// True where CallRecord::Body::value is what a wait wanted, or saw.
bool has_wanted(const CallRecord::Body& call);
const char* to_string(CallScope scope);

/// The last kLastCalls of a ring, the newest last, a line each below a heading; "" where there are
/// none and kernels could have written some. `context` is the slot's, or null once it was dropped.
inline constexpr size_t kLastCalls = 16;
std::string describe_last(const Recorded& recorded, const ContextOwner* context,
                          const PlaceOf& place_of);

}  // namespace peal
