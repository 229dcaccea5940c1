// SPDX-License-Identifier: Apache-2.0
#include "host/runtime/start_up.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "host/base/error.h"
#include "host/job/together.h"
#include "host/nic/hca_list.h"
#include "host/transport/warn_once.h"

namespace peal {
namespace {

// The settings that all PEs must have alike; they are compared at start-up.
struct Agreement {
  uint64_t heap_bytes;
  uint64_t heap_limit;
  uint64_t team_memory;
  uint32_t queues;
  uint32_t depth;
  TransportKind transport;
  RelaxedOrdering relaxed;
  SignalOpsSetting signal_ops;
  bool self_test;
  bool check;
  ConnectKind connect;
  collective::ForcedAlgorithm algorithm;
  Target target;
  bool operator==(const Agreement&) const = default;
};

// The two ends of a queue may be carried differently: what matters is whether a NIC is wanted.
TransportKind agreed_kind(TransportKind kind) {
  return kind == TransportKind::kProxy ? TransportKind::kIbgda : kind;
}

const char* target_name(Target target) { return target == Target::kGpu ? "a GPU" : "a CPU"; }

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

}  // namespace

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

void agree_on_settings(Bootstrap& group, const Config& config, Target target) {
  const std::vector<Agreement> all = gather_together(group, [&] {
    nic::HcaList::from(config, true);  // a wrong PEAL_HCA is refused also where no NIC is needed
    return Agreement{config.heap_size,
                     config.heap_limit,
                     config.team_memory,
                     static_cast<uint32_t>(config.queues),
                     static_cast<uint32_t>(config.queue_depth),
                     agreed_kind(config.transport),
                     config.relaxed_ordering,
                     config.signal_ops,
                     config.self_test,
                     config.check,
                     config.connect,
                     config.algorithm,
                     target};
  });
  for (size_t pe = 0; pe < all.size(); ++pe) {
    if (all[pe] == all[0]) continue;
    if (all[pe].target != all[0].target) {
      fail(ErrorCode::kConfiguration, "PE {} has its kernels on {}, PE 0 on {}: run one program",
           pe, target_name(all[pe].target), target_name(all[0].target));
    }
    fail(
        ErrorCode::kConfiguration,
        "PE {} has PEAL_HEAP_SIZE={} PEAL_QUEUES={} PEAL_QUEUE_DEPTH={}, PE 0 has {}, {} and {}{}: "
        "set them alike on all PEs{}",
        pe, all[pe].heap_bytes, all[pe].queues, all[pe].depth, all[0].heap_bytes, all[0].queues,
        all[0].depth,
        all[pe].transport != all[0].transport       ? ", and another PEAL_TRANSPORT"
        : all[pe].relaxed != all[0].relaxed         ? ", and another PEAL_RELAXED_ORDERING"
        : all[pe].signal_ops != all[0].signal_ops   ? ", and another PEAL_SIGNAL_OPS"
        : all[pe].self_test != all[0].self_test     ? ", and another PEAL_SELF_TEST"
        : all[pe].check != all[0].check             ? ", and another PEAL_CHECK"
        : all[pe].connect != all[0].connect         ? ", and another PEAL_CONNECT"
        : all[pe].algorithm != all[0].algorithm     ? ", and another PEAL_ALGORITHM"
        : all[pe].heap_limit != all[0].heap_limit   ? ", and another PEAL_HEAP_LIMIT"
        : all[pe].team_memory != all[0].team_memory ? ", and another PEAL_TEAM_MEMORY"
                                                    : "",
        config.launcher.contains("OMPI_COMM_WORLD_SIZE") && config.tcp_id.empty()
            ? " (mpirun -x NAME)"
            : "");
  }
}

uint32_t blocks_at_once(Bootstrap& group, const Gpu* gpu) {
  if (gpu == nullptr) return 1;
  struct OnePe {
    cuda::Uuid uuid;
    int multiprocessors;
  };
  const std::vector<OnePe> all = gather(group, OnePe{gpu->uuid(), gpu->multiprocessors()});
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const OnePe& one : all) {
    const int64_t sharers =
        std::ranges::count_if(all, [&](const OnePe& other) { return other.uuid == one.uuid; });
    const int64_t own = one.multiprocessors;
    least = std::min(least, sharers == 1 ? own : own * 3 / 4 / sharers);
  }
  return static_cast<uint32_t>(std::max<int64_t>(least, 1));
}

void check_nic_faults(const Config& config, const Reachable& reachable) {
  if (reachable.needs_nic() || !config.softnic.contains("PEAL_SOFTNIC_FAULTS")) return;
  fail(ErrorCode::kConfiguration,
       "PEAL_SOFTNIC_FAULTS is a plan for the software NIC, and this job uses none: set "
       "PEAL_TRANSPORT=ibgda, or PEAL_P2P_FAULTS for faults towards mapped peers");
}

void warn_of_nics(Bootstrap& group, const Log& log, const Rails& rails, const Doorbells& doorbells,
                  const std::vector<std::string>& more) {
  std::vector<std::string> lines = rails.nics()[0].device.path_settings().ignored;
  for (const Doorbell& doorbell : doorbells) {
    if (!doorbell.warning().empty()) lines.push_back(doorbell.warning());
  }
  lines.insert(lines.end(), more.begin(), more.end());
  std::vector<std::string> names;
  for (const IbgdaNic& nic : rails.nics()) names.push_back(nic.device.name());
  warn_once(group, log, fmt::format("{}", fmt::join(lines, "\n")), std::move(names));
}

void warn_of_downgrade(Bootstrap& group, const Log& log, const Config& config,
                       const PeerMemory& mapped, const Rails* rails, const Gpu* gpu) {
  std::vector<std::string> lines;
  if (config.transport == TransportKind::kAuto) {
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
  warn_once(group, log, fmt::format("{}", fmt::join(lines, "\n")), {});
}

std::string describe_rails(const Rails& rails, const Config& config) {
  std::string text = rails.why();
  if (rails.count() == 1) return text;
  text += fmt::format("; {} rails in the job", rails.count());
  if (static_cast<uint32_t>(config.queues) >= rails.count()) return text;
  return text + fmt::format(", of which PEAL_QUEUES={0} uses {0}: set it to {1} or more",
                            config.queues, rails.count());
}

std::string nic_name(const Rails* rails, const P2p* p2p, const Gpu* gpu) {
  if (rails != nullptr) return rails->model();
  if (gpu == nullptr) return "shared-memory";
  constexpr const char* kLinks[] = {"none", "nvlink", "pcie"};
  return kLinks[static_cast<size_t>(p2p->link())];
}

}  // namespace peal
