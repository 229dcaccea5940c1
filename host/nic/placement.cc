// SPDX-License-Identifier: Apache-2.0
#include "host/nic/placement.h"

#include <fmt/format.h>

namespace peal::nic {

Placement placement_of(const PlacementFacts& facts) {
  if (facts.relaxed_only) return Placement::kAny;
  if (!facts.mlx5) return Placement::kInOrder;
  const bool outside = facts.ooo_sl_mask && (*facts.ooo_sl_mask >> facts.service_level & 1) == 0;
  if (outside) return Placement::kInOrder;
  return facts.forces_order ? Placement::kForcible : Placement::kAny;
}

std::string describe_placement(const PlacementFacts& facts) {
  if (facts.relaxed_only) {
    return "takes memory keys with relaxed ordering only, by which WRITEs may pass one another on "
           "the bus (mkc_order_write_after_write_ro_only)";
  }
  if (!facts.mlx5) return "places WRITEs in order (it is no mlx5 device)";
  const Placement placement = placement_of(facts);
  const std::string level =
      facts.ooo_sl_mask
          ? fmt::format("service level {} is {} ooo_sl_mask {:#x}", facts.service_level,
                        placement == Placement::kInOrder ? "outside" : "in", *facts.ooo_sl_mask)
          : "no ooo_sl_mask says otherwise";
  if (placement == Placement::kInOrder) return fmt::format("places WRITEs in order ({})", level);
  return fmt::format(
      "may place WRITEs out of order ({}; {})", level,
      facts.forces_order ? "dp_ordering_force can forbid it" : "no dp_ordering_force");
}

std::string describe_atomics(const PlacementFacts& facts) {
  switch (facts.atomics) {
    case AtomicOrder::kBus:
      return "atomics are PCI Express AtomicOps, which may pass writes ahead of them (pci_atomic)";
    case AtomicOrder::kOutOfOrder:
      return "atomics may be placed out of order (dp_ordering_ooo_all_rc)";
    case AtomicOrder::kResponder:
      break;
  }
  return "";
}

}  // namespace peal::nic
