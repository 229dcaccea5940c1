// SPDX-License-Identifier: Apache-2.0
//
// A port of an open NIC, as verbs tells it, and its table of GIDs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "host/nic/gid.h"
#include "host/nic/hca_list.h"
#include "host/nic/path.h"
#include "host/nic/verbs.h"

namespace peal::nic {

struct PortAttributes {
  uint8_t number = 1;
  bool active = false;
  int state = 0;  // enum ibv_port_state
  LinkLayer link_layer = LinkLayer::kInfiniBand;
  uint16_t lid = 0;          // InfiniBand; 0 = the subnet manager has not given one
  uint8_t mtu = 1;           // active, code
  uint32_t gbits = 0;        // Gb/s of its link; 0 = unknown
  bool global_only = false;  // InfiniBand: the subnet wants a GRH in every packet
  uint32_t gids = 0;         // entries of its table, used or not
  uint16_t keys = 0;         // likewise, of partitions
};

/// Throws kSystem when the NIC does not answer.
PortAttributes query_port(const VerbsLibrary& library, ibv_context* context, const std::string& nic,
                          uint8_t number);

/// The port of `nic`, which has `count`, that peal drives: of those that `list` allows the first
/// one that is active, else the first one. Throws kUnsupported if it allows none.
PortAttributes choose_port(const VerbsLibrary& library, ibv_context* context,
                           const std::string& nic, uint8_t count, const HcaList& list);

/// The entries of a port's table that are in use. Types come from the library, or from `root`/sys
/// where it is too old to tell; an entry whose type nobody tells is left out.
std::vector<GidEntry> read_gids(const VerbsLibrary& library, ibv_context* context,
                                const std::string& nic, const PortAttributes& port,
                                const std::filesystem::path& root = "/");

/// On Ethernet, where nobody set a traffic class: the one that the administrator gave the port,
/// which Linux puts into the packets of queue pairs of its own. Read from `root`/sys; 0 where it is
/// not there. One that is none is told in `settings.ignored`.
void follow_traffic_class(const std::string& nic, const PortAttributes& port,
                          PathSettings& settings, const std::filesystem::path& root);

/// Checks the service level against the port: on Ethernet it is a priority, 0 to 7. Throws
/// kConfiguration if peal's own variable set it, else tells `settings.ignored` and makes it 0.
void check_service_level(const std::string& nic, const PortAttributes& port,
                         PathSettings& settings);

/// The entry that connections from this port use: the one that was set, else the best one
/// (host/nic/gid.h). Throws kConfiguration with the table when the one that was set by peal's own
/// variable is not there or not RoCE v2, kUnsupported when there is none to choose. One that
/// another library's variable set and that does not fit is told in `settings.ignored`.
GidEntry choose_gid(const std::string& nic, const PortAttributes& port,
                    const std::vector<GidEntry>& table, PathSettings& settings);

}  // namespace peal::nic
