// SPDX-License-Identifier: Apache-2.0
#include "peal/peal.h"

#include <unistd.h>

#include <cstdio>
#include <exception>

#include "host/base/error.h"

namespace peal {
namespace {

std::unique_ptr<Bootstrap> make_bootstrap(const Config& config) {
  const auto deadline = std::chrono::duration_cast<bootstrap::Deadline>(config.bootstrap_timeout);
  BootstrapKind kind = config.bootstrap;
  if (kind == BootstrapKind::kAuto) {
    kind = !config.tcp_id.empty() ? BootstrapKind::kTcp
           : config.under_mpirun  ? BootstrapKind::kMpi
                                  : BootstrapKind::kSingle;
  }
  switch (kind) {
    case BootstrapKind::kMpi:
      return bootstrap::make_mpi(nullptr, deadline, config.mpi_plugin);
    case BootstrapKind::kTcp:
      if (config.tcp_id.empty()) {
        fail(ErrorCode::kConfiguration,
             "PEAL_BOOTSTRAP=tcp needs PEAL_TCP_ID, PEAL_TCP_RANK and PEAL_TCP_SIZE");
      }
      return bootstrap::make_tcp(bootstrap::UniqueId::from_string(config.tcp_id), config.tcp_rank,
                                 config.tcp_size, deadline);
    case BootstrapKind::kAuto:
    case BootstrapKind::kSingle:
      break;
  }
  return bootstrap::make_single();
}

}  // namespace

Runtime start(const Config& config, Target target) {
  return Runtime(make_bootstrap(config), config, target);
}

Runtime start(Target target) { return start(Config::from_environment(environ), target); }

int run_main(const std::function<int()>& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "peal: %s\n", error.what());
    return 1;
  }
}

}  // namespace peal
