// SPDX-License-Identifier: Apache-2.0
#include "host/runtime/parts.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "host/transport/warn_once.h"

namespace peal {
namespace {

std::string warning_of_writes(const Config& config, const Routes& routes, const Gpu& gpu) {
  const char* const who =
      routes.by_nic() == Route::kProxy
          ? "wait for data (get and fetching operations do not, for a CPU thread posts them)"
      : config.get_flush == GetFlush::kNothing
          ? "wait for data (get and fetching operations do not: PEAL_GET_FLUSH=none)"
          : "and get and fetching operations wait for data";
  return fmt::format(
      "{}: {}: a kernel that saw a signal may not see its data yet; call quiet between a put and "
      "its "
      "signal, as quiet and barriers {}, or use Hopper or newer",
      gpu.name(), gpu.describe_writes(), who);
}

// What programs cannot rely on where NICs reach a GPU's memory.
std::vector<std::string> warnings_of_gpu(const Config& config, const Routes& routes,
                                         const Gpu* gpu) {
  std::vector<std::string> lines;
  if (gpu == nullptr) return lines;
  if (!gpu->orders_writes()) lines.push_back(warning_of_writes(config, routes, *gpu));
  if (gpu->calls_may_lag()) {
    lines.push_back(fmt::format(
        "{}: the driver is older than CUDA 12.1: cudaMemset and cudaMemcpy may return before what "
        "they write is in the heap, and a NIC may send what was there; call cudaDeviceSynchronize "
        "between them and a call from the host that sends it, or update the driver",
        gpu->name()));
  }
  return lines;
}

// Collective. Warns of what was found when the NICs were opened, and of `more`.
void warn_of_nics(JobMembership& job, const Rails& rails, const Doorbells& doorbells,
                  const std::vector<std::string>& more) {
  std::vector<std::string> lines = rails.nics()[0].device.path_settings().ignored;
  for (const Doorbell& doorbell : doorbells) {
    if (!doorbell.warning().empty()) lines.push_back(doorbell.warning());
  }
  lines.insert(lines.end(), more.begin(), more.end());
  std::vector<std::string> names;
  for (const IbgdaNic& nic : rails.nics()) names.push_back(nic.device.name());
  warn_once(job.group, job.log, fmt::format("{}", fmt::join(lines, "\n")), std::move(names));
}

// These rails, why, and whether the job's settings make use of all.
std::string describe_rails(const Rails& rails, const Config& config) {
  std::string text = rails.why();
  if (rails.count() == 1) return text;
  text += fmt::format("; {} rails in the job", rails.count());
  if (static_cast<uint32_t>(config.queues) >= rails.count()) return text;
  return text + fmt::format(", of which PEAL_QUEUES={0} uses {0}: set it to {1} or more",
                            config.queues, rails.count());
}

}  // namespace

Runtime::Parts::Parts(std::unique_ptr<Bootstrap> bootstrap, const Config& config, Target target)
    : job(std::move(bootstrap), config, target),
      fabric(job),
      context_parts(ContextParts::make(job, fabric)),
      services(Services::start(job, fabric, *context_parts)) {
  hear_of_process_end();
  if (const NicServices* const nics = context_parts->nic_services.get()) {
    warn_of_nics(job, *fabric.ways.rails, nics->doorbells,
                 warnings_of_gpu(job.config, fabric.ways.routes, fabric.gpu.get()));
  }
  default_context = context_parts->contexts.create({}, Reach::kGpu);
}

size_t Runtime::Parts::overhead_bytes() const {
  size_t bytes = sizeof(Parts) + sizeof(ContextParts) + sizeof(Services) + sizeof(KernelTables);
  bytes += fabric.tables->bytes();
  fabric.slots.for_each([&](const ContextOwner& context) { bytes += context.bytes(); });
  return bytes;
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
    log.print(
        "runtime",
        fmt::format("{} PEs, heap {}, {} queues of {} WQEBBs per peer, {} beside the heap",
                    job.group.size(), format_size(config.heap_size), rails ? config.queues : 0,
                    config.queue_depth, format_size(overhead_bytes())));
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
