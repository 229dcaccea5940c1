// SPDX-License-Identifier: Apache-2.0
//
// What a Runtime compares with the other PEs before it begins, and what it says of itself once it
// has (PEAL_INFO, warnings).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host/base/config.h"
#include "host/base/log.h"
#include "host/bootstrap.h"
#include "host/memory/gpu.h"
#include "host/transport/p2p.h"
#include "host/transport/rails.h"
#include "host/transport/routes.h"

namespace peal {

/// Collective. Throws kConfiguration, on all PEs the same, where what must be set alike is not.
void agree_on_settings(Bootstrap& group, const Config& config, Target target);

/// Collective. Blocks of a grid that all PEs can have running at the same time: one on a
/// multiprocessor; of a GPU that PEs share a quarter is left to others. Alike on all PEs. Without
/// GPUs, which all PEs have or none (agree_on_settings), 1: CPUs have a measure of their own.
uint32_t blocks_at_once(Bootstrap& group, const Gpu* gpu);

/// Throws kConfiguration where the software NIC has a plan of faults and no peer is reached by a
/// NIC: it would do nothing, and tests of faults pass.
void check_nic_faults(const Config& config, const Reachable& reachable);

/// What Runtime::nic() answers. `rails`, `p2p` and `gpu` are null where there is none.
std::string nic_name(const Rails* rails, const P2p* p2p, const Gpu* gpu);

/// What programs cannot rely on where NICs reach a GPU's memory. `gpu` is null where there is none.
std::vector<std::string> warnings_of_gpu(const Config& config, const Routes& routes,
                                         const Gpu* gpu);

/// Collective. Warns of what was found when the NICs were opened, and of `more`.
void warn_of_nics(Bootstrap& group, const Log& log, const Rails& rails, const Doorbells& doorbells,
                  const std::vector<std::string>& more);

/// Collective. Warns where a job that chose its transports itself (PEAL_TRANSPORT=auto) goes by a
/// NIC that settings of containers make it use (`mapped`: what was found of the peers' heaps), or
/// where GPUs go by the software NIC. `rails` and `gpu` are null where there is none.
void warn_of_downgrade(Bootstrap& group, const Log& log, const Config& config,
                       const PeerMemory& mapped, const Rails* rails, const Gpu* gpu);

/// These rails, why, and whether the job's settings make use of all.
std::string describe_rails(const Rails& rails, const Config& config);

}  // namespace peal
