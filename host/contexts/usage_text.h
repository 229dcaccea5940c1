// SPDX-License-Identifier: Apache-2.0
//
// What is said of a call that was refused for its arguments, or that checked mode found a mistake
// in: the operation, the lane, whose PE is meant, the range that would have been right, the remedy.
#pragma once

#include <functional>
#include <string>

#include "device/context.h"
#include "host/failures/failure.h"

namespace peal {

/// "byte 8 of the 128 bytes at heap offset 0x1080", of an address of this PE. Any thread may ask.
using PlaceOf = std::function<std::string(const void*)>;

/// "kernel ring (ring.cc:17), block 0, thread 3"
std::string describe(const LaneName& lane, uint64_t place = 0);

/// What a call did with the range that is wrong: "the source of put used PE 0 (itself)". `pe` is
/// the caller's.
std::string describe_use(const UsageError& usage, int pe);

/// `fields` are those of the context.
Failure describe(const UsageError& usage, const ContextFields& fields, const PlaceOf& place_of);

/// What is wrong, of an error with a Mistake: behind the lane and a colon.
std::string describe_mistake(const UsageError& error, int pe, const PlaceOf& place_of);

}  // namespace peal
