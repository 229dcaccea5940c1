// SPDX-License-Identifier: Apache-2.0
#include "host/runtime/job.h"

#include <chrono>
#include <utility>

#include "host/base/error.h"
#include "host/runtime/start_up.h"

namespace peal {
namespace {

std::unique_ptr<Bootstrap> agreed(std::unique_ptr<Bootstrap> bootstrap, const Config& config,
                                  Target target) {
  if (bootstrap == nullptr) fail(ErrorCode::kInvalidArgument, "Runtime: the bootstrap is null");
  bootstrap->name_calls("start");
  agree_on_settings(*bootstrap, config, target);
  return bootstrap;
}

}  // namespace

JobMembership::JobMembership(std::unique_ptr<Bootstrap> bootstrap, const Config& c, Target t)
    : config(c),
      target(t),
      group(agreed(std::move(bootstrap), c, t),
            std::chrono::duration_cast<std::chrono::milliseconds>(c.bootstrap_timeout)),
      log(c.log, group.rank()) {}

}  // namespace peal
