// SPDX-License-Identifier: Apache-2.0
#include "peal/peal.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>

#include "bootstrap/borrowed.h"
#include "bootstrap/simulated.h"
#include "host/base/error.h"
#include "host/runtime/main_frame.h"
#include "simt/simulation/simulation.h"

namespace peal {

Runtime start(const Config& config, Target target) {
  const bool simulated = simt::in_simulation();
  return Runtime(simulated ? bootstrap::make_simulated() : bootstrap::make_launched(config), config,
                 target);
}

Runtime start(Target target) { return start(Config::from_environment(environ), target); }

void rejoin(Runtime& runtime, const RejoinOptions& options) {
  if (bootstrap::choose_launch(runtime.config()).kind != BootstrapKind::kTcp) {
    fail(ErrorCode::kUnsupported,
         "rejoin: this job was not started by peal-run or PEAL_TCP_ID, and its launcher does not "
         "replace processes: start it by peal-run --restart N, or pass Runtime::rejoin() a group");
  }
  const auto meet = [](const Config& config) {
    Config again = config;
    again.tcp_restart = std::max(1, again.tcp_restart);
    return bootstrap::make_launched(again);
  };
  runtime.rejoin(meet, options);
}

Runtime join(Bootstrap& group, Target target) {
  return join(group, Config::from_environment(environ), target);
}

Runtime join(Bootstrap& group, const Config& config, Target target) {
  return Runtime(std::make_unique<bootstrap::BorrowedBootstrap>(group), config, target);
}

int run_main(const std::function<int()>& body) {
  MainFrame frame;
  try {
    const int code = body();
    return code == 0 && frame.failed() ? 1 : code;
  } catch (const std::exception& error) {
    frame.leave({Departure::How::kException, 0, error.what()});
    std::fprintf(stderr, "peal: %s\n", error.what());
    return 1;
  }
}

}  // namespace peal
