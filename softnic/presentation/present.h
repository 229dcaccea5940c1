// SPDX-License-Identifier: Apache-2.0
//
// As which hardware the software NIC presents itself. docs/presentation.md has the grammar.
//
//   devices=2 link=roce mtu=1024 gids=v1:link,v2:link,v2:10.0.0.1    two alike
//   refuse=peermem                                                   and one more, InfiniBand
//
// A line is a device, or some that are alike; each is a NIC of its own on the fabric. What a client
// is told and what the NIC then accepts follow from the same values.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/internet.h"
#include "softnic/engine/attributes.h"

namespace peal::softnic {

/// One entry of a GID table, as a plan names it.
struct GidRule {
  /// What the 16 bytes are made from.
  enum class Source : uint8_t {
    kNone,     // an empty entry
    kLink,     // link-local; InfiniBand: subnet prefix and GUID
    kIpv4,     // the NIC's own address, else 10.112.x.y
    kIpv6,     // the NIC's own address if it is of IPv6, else fd70:...
    kLiteral,  // `gid`, the same in every process that reads the plan
  };
  Network network = Network::kInfiniBand;
  Source source = Source::kLink;
  InternetAddress gid = {};
  bool operator==(const GidRule&) const = default;
};

/// ibv_port_state, same numbers.
enum class PortState : uint8_t { kDown = 1, kInit = 2, kArmed = 3, kActive = 4 };

/// The clock of time stamps in completions: qp_ts_format and sq_ts_format in QUERY_HCA_CAP, same
/// numbers.
enum class TimestampSupport : uint8_t {
  kFree = 0,      // ticks of the NIC; a queue pair cannot ask for anything else
  kRealTime = 1,  // time of day; a queue pair cannot ask for ticks
  kBoth = 2,
};

/// Which registrations of dma-bufs the kernel knows.
enum class DmaBufSupport : uint8_t {
  kNone,     // before Linux 5.12
  kRegions,  // ibv_reg_dmabuf_mr; umems not before 6.1
  kAll,
};

/// What a NIC does not let its clients do.
enum Refused : uint32_t {
  kRefuseDevx = 1u << 0,             // no DEVX context, no DEVX command
  kRefusePeermem = 1u << 1,          // a GPU's addresses cannot be pinned
  kRefuseUar = 1u << 2,              // no GPU can map a doorbell page
  kRefuseAtomics = 1u << 3,          //
  kRefuseRelaxedOrdering = 1u << 4,  // the access flag has no effect
  kRefuseUmemPeermem = 1u << 5,      // a GPU's addresses cannot be pinned as umems
};

struct PresentedDevice {
  static constexpr uint32_t kMaxGids = 16;
  static constexpr uint32_t kMaxPorts = 4;
  static constexpr uint32_t kMaxPkeys = 16;

  std::string name = "mlx5_0";
  bool ethernet = false;
  uint8_t ports = 1;
  uint8_t port = 1;  // the one with a cable; the others are down
  PortState state = PortState::kActive;
  uint8_t speed = 128;  // of a lane, of which there are four: ibv_port_attr::active_speed
  uint8_t mtu = 5;      // active, as a code: 256 << (mtu - 1) bytes
  uint64_t subnet = 0xfe80'0000'0000'0000;
  std::vector<GidRule> gids = {GidRule{}};
  std::vector<uint16_t> pkeys = {kDefaultPkey};
  uint16_t min_udp_port = 0xc000;  // of RoCE v2, at the source
  uint16_t max_udp_port = 0xffff;
  uint32_t refuses = 0;
  DmaBufSupport dma_buf = DmaBufSupport::kNone;
  uint8_t log_responder_depth = 4;  // READs and atomics at once of a queue pair
  uint8_t log_initiator_depth = 4;
  uint8_t bonded = 1;  // ports that carry the link together
  TimestampSupport clock = TimestampSupport::kBoth;
  uint32_t max_qp = 1u << 17;
  uint8_t log_max_qp_wr = 15;
  bool forces_order = false;  // dp_ordering_force: a queue pair may ask for placement in order
  bool relaxed_only = false;  // keys without relaxed ordering are refused
  bool any_order = false;     // dp_ordering_ooo_rw_rc: a queue pair may ask for adaptive routing
  bool pci_atomics = false;   // executed by the bus, and ahead of what is still on its way there
  /// Service levels on which packets may arrive out of order (ooo_sl_mask); nothing: it cannot be
  /// asked.
  std::optional<uint16_t> unordered_levels = std::nullopt;

  bool active() const { return state == PortState::kActive; }
  /// Ports that could be bonded: those of a card with two, at least.
  uint8_t lag_ports() const { return bonded > 2 ? bonded : 2; }
  /// The P_Key at `index`; 0 if there is none.
  uint16_t pkey(size_t index) const { return index < pkeys.size() ? pkeys[index] : 0; }
  bool refuses_any(uint32_t what) const { return (refuses & what) != 0; }
  /// True if WRITEs of a queue pair with that service level are placed as they were sent without
  /// its asking.
  bool orders(uint8_t service_level) const {
    return unordered_levels && (*unordered_levels >> service_level & 1) == 0;
  }
  bool operator==(const PresentedDevice&) const = default;
};

using Presentation = std::vector<PresentedDevice>;
inline constexpr uint32_t kMaxDevices = 16;

/// Reads a presentation; nothing but blanks and comments is one device as it is by default. Lines
/// are separated by line ends or ';', '#' starts a comment. Throws std::invalid_argument naming
/// line, word, and what is allowed there; takes any bytes.
Presentation parse_presentation(std::string_view text);

/// An entry of a NIC's GID table; empty when `used` is false.
struct GidTableEntry {
  bool used = false;
  Network network = Network::kInfiniBand;
  InternetAddress raw = {};
};

/// Ethernet address of the NIC at `lid` of its fabric, locally administered; and back, 0 for an
/// address of no such NIC.
MacAddress mac_of(uint16_t lid);
uint16_t lid_of(const MacAddress& mac);

/// The table that `device` has as the NIC at `lid` with that GUID. `address` is its own one, of
/// IPv6 or of IPv4 as ::ffff:a.b.c.d, if it has one; else it makes one up.
std::vector<GidTableEntry> gid_table(const PresentedDevice& device, uint16_t lid, uint64_t guid,
                                     const std::optional<InternetAddress>& address = std::nullopt);

}  // namespace peal::softnic
