// SPDX-License-Identifier: Apache-2.0
#include "host/runtime/job.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "host/base/error.h"
#include "host/job/together.h"
#include "host/nic/hca_list.h"

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

// Throws, on all PEs the same, where what must be set alike is not.
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
