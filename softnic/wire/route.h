// SPDX-License-Identifier: Apache-2.0
//
// From an address path to the NIC it leads to. What firmware refuses in a path is one thing; where
// a path that it takes leads is another: switches and the peer's port drop what does not fit, and
// nobody tells.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "softnic/engine/address_vector.h"
#include "softnic/presentation/present.h"
#include "softnic/wire/fabric.h"
#include "softnic/wire/roce/remote_nics.h"

namespace peal::softnic {

/// One end of the paths: a device and its place on a fabric.
class Router {
 public:
  /// All of them must outlive the router. With `remotes` IPv4 addresses that are no NIC's of the
  /// fabric are those of other hosts.
  Router(const Fabric& fabric, const PresentedDevice& device,
         const std::vector<GidTableEntry>& gids, roce::RemoteNics* remotes = nullptr)
      : fabric_(fabric), device_(device), gids_(gids), remotes_(remotes) {}

  /// Why firmware refuses the path, or null.
  const char* fault_of(const AddressPath& path) const;
  /// Throws std::runtime_error for a path to a NIC of another version; see
  /// Fabric::refuse_stranger(). For control calls: way() takes such a NIC for nobody.
  void refuse_stranger(const AddressPath& path) const;

  /// Where a path that is not refused leads, and as what. With a GID, and on Ethernet, the peer's
  /// port is looked up now; a bare LID may name a NIC that is still to come.
  PacketPath route(const AddressPath& path) const;

  /// The same of the address that a request carries from `port`. What a path would be refused for
  /// leads to nobody.
  PacketPath way(const AddressVector& vector, uint8_t port) const;

  /// As what packets leave by that entry of the GID table; on Ethernet by an unused one as RoCE v2.
  Network network_of(uint8_t source_gid) const;

  /// The Ethernet address behind a GID of the fabric, as address resolution finds it.
  /// Throws as refuse_stranger().
  std::optional<MacAddress> resolve(const uint8_t (&gid)[16], Network network) const;

 private:
  PacketPath infiniband(const AddressPath& path) const;
  PacketPath ethernet(const AddressPath& path) const;
  PacketPath beyond(const AddressPath& path) const;

  const Fabric& fabric_;
  const PresentedDevice& device_;
  const std::vector<GidTableEntry>& gids_;
  roce::RemoteNics* remotes_;
};

}  // namespace peal::softnic
