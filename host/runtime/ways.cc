// SPDX-License-Identifier: Apache-2.0
#include "host/runtime/ways.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "host/transport/warn_once.h"

namespace peal {
namespace {

RouteOptions options_of(const JobMembership& job, const Gpu* gpu) {
  return {.asked = job.config.transport,
          .target = job.target,
          .orders_writes = gpu == nullptr || gpu->orders_writes()};
}

RouteOptions with_reason(RouteOptions options, const Rails* rails) {
  if (rails != nullptr) options.why_proxy = rails->why_proxy();
  return options;
}

std::unique_ptr<P2p> open_p2p(JobMembership& job, const std::shared_ptr<Gpu>& gpu) {
  std::string no_nvml;
  return std::make_unique<P2p>(
      job.group, job.group.places(), gpu, gpu ? Nvml::open(&no_nvml) : nullptr,
      std::chrono::duration_cast<std::chrono::milliseconds>(job.config.bootstrap_timeout));
}

std::unique_ptr<const Rails> open_rails(JobMembership& job, const std::shared_ptr<Gpu>& gpu) {
  const bool one_host = std::ranges::all_of(
      job.group.places(), [&](const Place& p) { return same_host(p, job.group.places()[0]); });
  return std::make_unique<const Rails>(job.config, gpu, job.group, job.log, one_host);
}

// Collective. Warns where a job that chose its transports itself (PEAL_TRANSPORT=auto) goes by a
// NIC that settings of containers make it use, or where GPUs go by the software NIC.
void warn_of_downgrade(JobMembership& job, const PeerMemory& mapped, const Rails* rails,
                       const Gpu* gpu) {
  std::vector<std::string> lines;
  if (job.config.transport == TransportKind::kAuto) {
    const auto first = std::ranges::find(mapped.avoidable, true);
    if (first != mapped.avoidable.end()) {
      const auto pe = static_cast<size_t>(first - mapped.avoidable.begin());
      lines.push_back(fmt::format(
          "PE {}{} is reached by a NIC and need not be: {}", pe,
          std::ranges::count(mapped.avoidable, true) > 1 ? " (and others)" : "", mapped.how[pe]));
    }
    if (gpu != nullptr && rails != nullptr && rails->model().starts_with("softnic")) {
      lines.push_back(
          "GPUs exchange data by the software NIC, which is for tests: no NIC of mlx5 was found "
          "(tools/doctor says why); PEAL_TRANSPORT=ibgda starts so without this warning");
    }
  }
  warn_once(job.group, job.log, fmt::format("{}", fmt::join(lines, "\n")), {});
}

}  // namespace

Ways::Ways(JobMembership& job, const std::shared_ptr<Gpu>& gpu, const SymmetricHeap& heap)
    : Ways(job, gpu, heap, options_of(job, gpu.get())) {}

Ways::Ways(JobMembership& job, const std::shared_ptr<Gpu>& gpu, const SymmetricHeap& heap,
           const RouteOptions& options)
    : p2p(options.try_p2p() ? open_p2p(job, gpu) : nullptr),
      mapped_heaps(p2p ? p2p->map(heap.base(), heap.bytes(), heap.backing().fd()) : PeerMemory{}),
      reachable(job.group, options, mapped_heaps.direct, mapped_heaps.how),
      rails(reachable.needs_nic() ? open_rails(job, gpu) : nullptr),
      routes(reachable, with_reason(options, rails.get())) {
  warn_of_downgrade(job, mapped_heaps, rails.get(), gpu.get());
}

}  // namespace peal
