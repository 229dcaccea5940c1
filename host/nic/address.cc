// SPDX-License-Identifier: Apache-2.0
#include "host/nic/address.h"

#include <cstring>

namespace peal::nic {

ibv_ah_attr address_of(const Path& path) {
  ibv_ah_attr address{};
  address.port_num = path.port;
  address.dlid = path.dlid;
  address.sl = path.service_level;
  address.is_global = path.global ? 1 : 0;
  if (!path.global) return address;
  static_assert(sizeof address.grh.dgid.raw == sizeof path.remote_gid.bytes);
  std::memcpy(address.grh.dgid.raw, path.remote_gid.bytes.data(), sizeof address.grh.dgid.raw);
  address.grh.sgid_index = path.source_gid;
  address.grh.hop_limit = path.hop_limit;
  address.grh.traffic_class = path.traffic_class;
  return address;
}

}  // namespace peal::nic
