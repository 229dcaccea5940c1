// SPDX-License-Identifier: Apache-2.0
#include "host/runtime/ways.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "host/runtime/start_up.h"

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
  warn_of_downgrade(job.group, job.log, job.config, mapped_heaps, rails.get(), gpu.get());
}

}  // namespace peal
