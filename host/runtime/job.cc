// SPDX-License-Identifier: Apache-2.0
#include "host/runtime/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "host/base/error.h"
#include "host/job/same_build.h"
#include "host/job/together.h"
#include "host/nic/hca_list.h"

namespace peal {
namespace {

// Settings that must be alike beside those that are told with their values; in the order of
// Settings::others.
constexpr std::array kAlike = {
    "PEAL_TRANSPORT", "PEAL_RELAXED_ORDERING", "PEAL_SIGNAL_OPS", "PEAL_SELF_TEST",  "PEAL_CHECK",
    "PEAL_CONNECT",   "PEAL_ALGORITHM",        "PEAL_HEAP_LIMIT", "PEAL_TEAM_MEMORY"};

// What all PEs must have alike; compared at start-up.
struct Settings {
  uint64_t heap_bytes;
  int queues;
  int depth;
  Target target;
  std::array<uint64_t, kAlike.size()> others;
  bool operator==(const Settings&) const = default;
};

struct Told {
  Settings settings;
  uint64_t epoch;
  uint64_t keeps_heap;
};

// The two ends of a queue may be carried differently: what matters is whether a NIC is wanted.
TransportKind agreed_kind(TransportKind kind) {
  return kind == TransportKind::kProxy ? TransportKind::kIbgda : kind;
}

const char* target_name(Target target) { return target == Target::kGpu ? "a GPU" : "a CPU"; }

Settings settings_of(const Config& config, Target target) {
  nic::HcaList::from(config, true);  // a wrong PEAL_HCA is refused also where no NIC is needed
  const auto word = [](auto value) { return static_cast<uint64_t>(value); };
  return {
      config.heap_size,
      config.queues,
      config.queue_depth,
      target,
      {word(agreed_kind(config.transport)), word(config.relaxed_ordering), word(config.signal_ops),
       word(config.self_test), word(config.check), word(config.connect),
       word(config.algorithm.word()), config.heap_limit, config.team_memory}};
}

// Throws, on all PEs the same, where what must be set alike is not.
void require_alike(const std::vector<Settings>& all, const Config& config) {
  for (size_t pe = 0; pe < all.size(); ++pe) {
    if (all[pe] == all[0]) continue;
    if (all[pe].target != all[0].target) {
      fail(ErrorCode::kConfiguration, "PE {} has its kernels on {}, PE 0 on {}: run one program",
           pe, target_name(all[pe].target), target_name(all[0].target));
    }
    const auto& others = all[pe].others;
    const auto other = std::ranges::mismatch(others, all[0].others).in1 - others.begin();
    const auto number = static_cast<size_t>(other);
    fail(
        ErrorCode::kConfiguration,
        "PE {} has PEAL_HEAP_SIZE={} PEAL_QUEUES={} PEAL_QUEUE_DEPTH={}, PE 0 has {}, {} and {}{}: "
        "set them alike on all PEs{}",
        pe, all[pe].heap_bytes, all[pe].queues, all[pe].depth, all[0].heap_bytes, all[0].queues,
        all[0].depth,
        number == kAlike.size() ? "" : fmt::format(", and another {}", kAlike[number]),
        config.launcher.contains("OMPI_COMM_WORLD_SIZE") && config.tcp_id.empty()
            ? " (mpirun -x NAME)"
            : "");
  }
}

// The first PE that has kept its heap. Throws, on all PEs the same, where another one that has
// lived before has not.
std::optional<int> keeper_among(const std::vector<Told>& all) {
  const auto keeps = [](const Told& one) { return one.keeps_heap != 0; };
  const auto first = std::ranges::find_if(all, keeps);
  if (first == all.end()) return std::nullopt;
  const auto other =
      std::ranges::find_if(all, [&](const Told& one) { return one.epoch != 0 && !keeps(one); });
  if (other != all.end()) {
    fail(ErrorCode::kConfiguration,
         "rejoin: PE {} keeps its heap, PE {} does not: all PEs that live have to, or none",
         first - all.begin(), other - all.begin());
  }
  return static_cast<int>(first - all.begin());
}

}  // namespace

JobMembership::Agreed JobMembership::agree(std::unique_ptr<Bootstrap> bootstrap,
                                           const Beginning& beginning) {
  if (bootstrap == nullptr) fail(ErrorCode::kInvalidArgument, "Runtime: the bootstrap is null");
  bootstrap->name_calls("start");
  std::vector<std::string> hosts = require_same_build(*bootstrap);
  // On one host its name says nothing.
  if (std::ranges::count(hosts, hosts[0]) != std::ssize(hosts)) {
    bootstrap->name_hosts(std::move(hosts));
  }
  const std::vector<Told> all = gather_together(*bootstrap, [&] {
    return Told{settings_of(beginning.config, beginning.target), beginning.epoch,
                beginning.heap != nullptr};
  });
  std::vector<Settings> settings;
  uint64_t epoch = 0;
  for (const Told& one : all) {
    settings.push_back(one.settings);
    epoch = std::max(epoch, one.epoch);
  }
  require_alike(settings, beginning.config);
  return {std::move(bootstrap), epoch, keeper_among(all)};
}

JobMembership::JobMembership(std::unique_ptr<Bootstrap> bootstrap, const Beginning& beginning)
    : JobMembership(agree(std::move(bootstrap), beginning), beginning) {}

JobMembership::JobMembership(Agreed agreed, const Beginning& beginning)
    : config(beginning.config),
      target(beginning.target),
      epoch(agreed.epoch),
      keeper(agreed.keeper),
      heap(beginning.heap),
      group(std::move(agreed.group),
            std::chrono::duration_cast<std::chrono::milliseconds>(config.bootstrap_timeout),
            config.interface),
      log(config.log, group.rank()) {}

}  // namespace peal
