// SPDX-License-Identifier: Apache-2.0
//
// In which order a NIC places what several RDMA WRITEs of one queue pair bring. The InfiniBand
// architecture says: as they were sent. An mlx5 device with adaptive routing on the way may place
// them as they arrive; READs and atomics still execute behind all of them.
//
//   ooo_sl_mask         InfiniBand: the service levels on which that may be
//   dp_ordering_force   the queue pair may ask for order all the same
//   pci_atomic, dp_ordering_ooo_all_rc   not even atomics need be behind
//   mkc_order_write_after_write_ro_only   in order or not, they may pass one another on the bus
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace peal::nic {

/// In rising order of what a word sent as a WRITE may rely on.
enum class Placement : uint8_t {
  kAny,       // nothing says that they are placed in order
  kForcible,  // the same, but a queue pair can ask for order
  kInOrder,
};

/// What a queue pair asks of the way and of the other end, for its WRITEs.
enum class QueueOrder : uint8_t {
  kDefault,  // nothing: as the fabric's and the NIC's administrators have it
  kForced,   // placed as they were sent
  kAny,      // placed as they arrive, where both ends can: adaptive routing
};

/// What keeps an atomic behind what is ahead of it on its queue pair.
enum class AtomicOrder : uint8_t {
  kResponder,   // the NIC that executes it
  kOutOfOrder,  // nothing for sure: the NIC is of those that can place everything out of order
  kBus,         // nothing: AtomicOps of PCI Express, which pass the NIC's own writes
};

/// What is known of a NIC.
struct PlacementFacts {
  bool mlx5 = true;           // else verbs' own rules hold
  bool relaxed_only = false;  // writes may pass one another on the bus at the other end
  bool forces_order = false;  // dp_ordering_force
  AtomicOrder atomics = AtomicOrder::kResponder;
  uint8_t service_level = 0;
  std::optional<uint16_t> ooo_sl_mask = std::nullopt;  // InfiniBand, where the firmware tells
};

Placement placement_of(const PlacementFacts& facts);

/// For people: "may place WRITEs out of order (service level 0 is in ooo_sl_mask 0xffff)".
std::string describe_placement(const PlacementFacts& facts);
/// "its atomics are PCI Express AtomicOps, which pass writes"; empty where nothing passes.
std::string describe_atomics(const PlacementFacts& facts);

}  // namespace peal::nic
