// SPDX-License-Identifier: Apache-2.0
#include "host/contexts/first_links.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "host/base/error.h"
#include "host/transport/connection.h"

namespace peal {
namespace {

// "host n17, process 4711: software NIC mlx5_0 of /dev/shm/peal-softnic-0/default".
std::array<char, 512> describe_fabric(const Rails& rails) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  std::string text = fmt::format("host {}, process {}", host.data(), ::getpid());
  for (const IbgdaNic& nic : rails.nics()) {
    const nic::VerbsLibrary::SoftwareFabric& fabric = nic.device.fabric();
    text += fabric.number == 0
                ? fmt::format(", NIC {}", nic.device.name())
                : fmt::format(", software NIC {} of {}", nic.device.name(), fabric.folder);
  }
  std::array<char, 512> told{};
  text.copy(told.data(), told.size() - 1);
  return told;
}

}  // namespace

bool FirstLinks::between(uint32_t a, uint32_t b) const {
  const auto gone = [&](uint32_t pe) {
    return std::ranges::find(masked_, static_cast<int>(pe)) != masked_.end();
  };
  if (gone(a) || gone(b)) return false;
  const auto n = static_cast<uint32_t>(places_.size());
  if (kind_ == ConnectKind::kEager || !same_sockets(places_[a], places_[b])) return true;
  return (a + 1) % n == b || (b + 1) % n == a;
}

std::vector<uint32_t> FirstLinks::of(uint32_t pe) const {
  std::vector<uint32_t> linked;
  for (uint32_t other = 0; other < places_.size(); ++other) {
    if (between(pe, other)) linked.push_back(other);
  }
  return linked;
}

size_t FirstLinks::most() const {
  size_t most = 0;
  for (uint32_t pe = 0; pe < places_.size(); ++pe) most = std::max(most, of(pe).size());
  return most;
}

RailEnds rail_ends(const Rails& rails, const QueueShape& shape) {
  RailEnds ends{};
  for (uint32_t rail = 0; rail < shape.rails; ++rail) {
    ends[rail] = endpoint_of(rails.nics()[rails.nic_of(rail)].device, 0);
  }
  return ends;
}

void check_fabrics(Bootstrap& group, const Rails& rails, std::span<const RailEnds> ends) {
  const auto fabrics = [](const RailEnds& of_pe) {
    std::array<uint64_t, kMaxRails> numbers{};
    std::ranges::transform(of_pe, numbers.begin(), &Endpoint::fabric);
    return numbers;
  };
  const auto other = std::ranges::find_if(
      ends, [&](const RailEnds& of_pe) { return fabrics(of_pe) != fabrics(ends[0]); });
  if (other == ends.end()) return;
  const auto told = gather(group, describe_fabric(rails));
  const bool all_software = (*other)[0].fabric != 0 && ends[0][0].fabric != 0;
  const auto pe = static_cast<size_t>(other - ends.begin());
  fail(
      ErrorCode::kUnsupported, "PE 0 ({}) and PE {} ({}) do not reach each other: {}",
      told[0].data(), pe, told[pe].data(),
      all_software
          ? "their software NICs do not share a fabric. Start all PEs on one host, as one user, "
            "with "
            "the same PEAL_SOFTNIC_DIR and PEAL_SOFTNIC_FABRIC; containers must share that folder, "
            "not only its name: docker run --ipc=host for /dev/shm, a volume for any other "
            "(docs/running.md)"
          : "a software NIC reaches software NICs only. Choose NICs of one kind on all PEs "
            "(PEAL_HCA, PEAL_IBVERBS and PEAL_MLX5)");
}

void check_rail_ends(std::span<const RailEnds> ends, const QueueShape& shape, bool with_itself) {
  for (uint32_t rail = 0; rail < std::min(shape.rails, shape.queues_per_peer); ++rail) {
    std::vector<Endpoint> by_pe;
    for (const RailEnds& of_pe : ends) by_pe.push_back(of_pe[rail]);
    check_ends(by_pe, with_itself);
  }
}

}  // namespace peal
