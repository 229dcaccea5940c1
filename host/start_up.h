// SPDX-License-Identifier: Apache-2.0
//
// What a Runtime compares with the other PEs before it begins, and what it says of itself once it
// has (PEAL_INFO, warnings).
#pragma once

#include <string>

#include "host/base/config.h"
#include "host/base/log.h"
#include "host/bootstrap.h"
#include "host/memory/gpu.h"
#include "host/routes.h"
#include "host/transport/p2p.h"
#include "host/transport/rails.h"

namespace peal {

/// Collective. Throws kConfiguration, on all PEs the same, where what must be set alike is not.
void agree_on_settings(Bootstrap& group, const Config& config, Target target);

/// What Runtime::nic() answers. `rails`, `p2p` and `gpu` are null where there is none.
std::string nic_name(const Rails* rails, const P2p* p2p, const Gpu* gpu);

/// Collective. Warns of what was found when the NICs were opened.
void warn_of_nics(Bootstrap& group, const Log& log, const Rails& rails, const Doorbells& doorbells,
                  const Routes& routes, const Gpu* gpu);

/// These rails, why, and whether the job's settings make use of all.
std::string describe_rails(const Rails& rails, const Config& config);

}  // namespace peal
