// SPDX-License-Identifier: Apache-2.0
//
// What many PEs have to say in the same words, said by one of them.
#pragma once

#include <string>
#include <vector>

#include "host/base/log.h"
#include "host/bootstrap.h"

namespace peal {

/// Collective. Warns of `text` (empty: nothing to say) on the first of the PEs that say the same,
/// and names the others. The same is what differs in addresses and in `names` only, which are the
/// NICs that it speaks of: each PE has others.
void warn_once(Bootstrap& bootstrap, const Log& log, const std::string& text,
               std::vector<std::string> names);

}  // namespace peal
