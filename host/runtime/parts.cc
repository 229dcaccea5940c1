// SPDX-License-Identifier: Apache-2.0
#include "host/runtime/parts.h"

#include <fmt/format.h>

#include <utility>

#include "host/runtime/start_up.h"

namespace peal {

Runtime::Parts::Parts(std::unique_ptr<Bootstrap> bootstrap, const Config& config, Target target)
    : job(std::move(bootstrap), config, target),
      fabric(job),
      context_parts(ContextParts::make(job, fabric)),
      services(Services::start(job, fabric, *context_parts)) {
  hear_of_process_end();
  if (const NicServices* const nics = context_parts->nic_services.get()) {
    warn_of_nics(job.group, job.log, *fabric.ways.rails, nics->doorbells,
                 warnings_of_gpu(job.config, fabric.ways.routes, fabric.gpu.get()));
  }
  default_context = context_parts->contexts.create({}, Reach::kGpu);
}

void Runtime::Parts::report() const {
  const Log& log = job.log;
  const Config& config = job.config;
  const Rails* const rails = fabric.ways.rails.get();
  if (job.group.rank() == 0) {
    log.print("config", config.describe());
    for (size_t i = 0; rails != nullptr && i < rails->nics().size(); ++i) {
      log.print("nic", rails->nics()[i].device.description());
    }
    const size_t overhead =
        fabric.tables->windows.bytes() + fabric.tables->contexts.bytes() + default_context->bytes();
    log.print("runtime",
              fmt::format("{} PEs, heap {}, {} queues of {} WQEBBs per peer, {} beside the heap",
                          job.group.size(), format_size(config.heap_size),
                          rails ? config.queues : 0, config.queue_depth, format_size(overhead)));
  }
  if (rails != nullptr) report_nics();
  if (const Gpu* const gpu = fabric.gpu.get()) {
    log.print("gpu", fmt::format("GPU {}, {}; {}; {}", gpu->index(), gpu->name(),
                                 gpu->describe_writes(), gpu->describe_words()));
  }
  log.print("transport", fabric.ways.routes.describe());
  log.print("window", fabric.windows.describe({}));
}

void Runtime::Parts::report_nics() const {
  const Log& log = job.log;
  const Rails& rails = *fabric.ways.rails;
  const NicServices& nics = *context_parts->nic_services;
  log.print("nic", describe_rails(rails, job.config));
  if (job.group.rank() == 0) log.print("signals", rails.signal_ops().why);
  for (const IbgdaNic& nic : rails.nics()) log.print("path", nic.device.path_description());
  log.print("nic", fmt::format("heap: {}; {}", fabric.windows.describe_registration(),
                               default_context->links()->queues().describe_registration()));
  for (const Doorbell& doorbell : nics.doorbells) log.print("nic", doorbell.describe());
  if (nics.proxies.empty()) return;
  log.print("nic",
            fmt::format("CPU threads post for kernels: {} (docs/proxy.md)", nics.proxies.size()));
}

}  // namespace peal
