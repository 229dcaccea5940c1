// SPDX-License-Identifier: Apache-2.0
//
// PEs whose process stands still: by SIGSTOP, or a debugger.
#pragma once

#include <string>

#include "host/job/live_group.h"

namespace peal {

/// "PE 1 (process 4711) is stopped: kill -CONT 4711 lets it go on", for every PE of this host of
/// which that is so now; "" for none. PEs elsewhere are not looked at.
std::string stopped_pes(const LiveGroup& group);

}  // namespace peal
