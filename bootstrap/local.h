// SPDX-License-Identifier: Apache-2.0
//
// Socket pairs between rank 0 and every other rank of this machine, made before threads start or
// processes fork.
#pragma once

#include <vector>

#include "base/fd.h"

namespace peal::bootstrap {

/// links[r] is what rank r hands to make_stream_wire. Throws kInvalidArgument when count is
/// below 1.
std::vector<std::vector<Fd>> connect_locally(int count);

}  // namespace peal::bootstrap
