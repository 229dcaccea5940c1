// SPDX-License-Identifier: Apache-2.0
//
// PEs whose process stands still: by SIGSTOP, or a debugger.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "host/base/place.h"

namespace peal {

/// "PE 1 (process 4711) is stopped: kill -CONT 4711 lets it go on", for every one of `pes` of
/// which that is so now; "" for none. `places` by PE; those that PE `here` does not see are not
/// looked at.
std::string stopped_pes(std::span<const Place> places, int here, const std::vector<int>& pes);

}  // namespace peal
