// SPDX-License-Identifier: Apache-2.0
//
// What is said of a call that was refused for its arguments: the operation, the lane, whose PE is
// meant, the range that would have been right, the remedy.
#pragma once

#include <string>

#include "device/context.h"
#include "host/failures/failure.h"

namespace peal {

/// "kernel ring, block 0, thread 3"
std::string describe(const LaneName& lane);

/// `fields` are those of the context.
Failure describe(const UsageError& usage, const ContextFields& fields);

}  // namespace peal
