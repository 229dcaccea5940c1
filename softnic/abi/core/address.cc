// SPDX-License-Identifier: Apache-2.0
//
// Address attributes of verbs, ibv_ah_attr, and the NIC's paths.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "device/base/endian.h"
#include "softnic/abi/core/verbs_queues.h"

namespace peal::softnic::abi {

AddressPath path_of(const SoftwareNic& nic, const ibv_ah_attr& attr) {
  const PresentedDevice& device = nic.device();
  AddressPath path;
  path.port = attr.port_num;
  path.lid = attr.dlid;
  path.global = attr.is_global != 0;
  path.service_level = attr.sl;
  if (path.global) {
    path.source_gid = attr.grh.sgid_index;
    path.hop_limit = attr.grh.hop_limit;
    path.traffic_class = attr.grh.traffic_class;
    path.flow_label = attr.grh.flow_label & 0xfffff;
    std::memcpy(path.gid, attr.grh.dgid.raw, sizeof path.gid);
  }
  if (device.ethernet) {
    if (!path.global) refuse(EINVAL);
    // What stands for the flow, laid into the range of the device.
    const uint32_t folded = ibv_flow_label_to_udp_sport(path.flow_label) & 0x3fff;
    const uint32_t range = uint32_t{device.max_udp_port} - device.min_udp_port + 1;
    path.udp_port = static_cast<uint16_t>(device.min_udp_port + folded % range);
  }
  if (nic.router().fault_of(path) != nullptr) refuse(EINVAL);
  if (!device.ethernet) {
    nic.router().refuse_stranger(path);
    return path;
  }
  const auto mac = nic.router().resolve(path.gid, nic.gids()[path.source_gid].network);
  if (!mac) refuse(ETIMEDOUT);
  std::copy(mac->begin(), mac->end(), path.mac);
  return path;
}

ibv_ah_attr address_of(const AddressPath& path, bool ethernet) {
  ibv_ah_attr attr = {};
  attr.port_num = path.port;
  attr.dlid = path.lid;
  attr.sl = path.service_level;
  attr.is_global = path.global || ethernet ? 1 : 0;
  attr.grh.sgid_index = path.source_gid;
  attr.grh.hop_limit = path.hop_limit;
  attr.grh.traffic_class = path.traffic_class;
  attr.grh.flow_label = path.flow_label;
  std::memcpy(attr.grh.dgid.raw, path.gid, sizeof path.gid);
  return attr;
}

mlx5_wqe_av address_vector(const AddressPath& path, bool ethernet, const ibv_ah_attr& attr) {
  constexpr uint32_t kGrhPresent = 1u << 30;
  mlx5_wqe_av vector = {};
  vector.stat_rate_sl = static_cast<uint8_t>(attr.static_rate << 4 | path.service_level);
  vector.fl_mlid = attr.src_path_bits & 0x7f;
  vector.rlid = Be16(ethernet ? path.udp_port : path.lid).raw;
  if (!path.global) return vector;
  vector.tclass = path.traffic_class;
  vector.hop_limit = path.hop_limit;
  vector.grh_gid_fl = Be32(kGrhPresent | uint32_t{path.source_gid} << 20 | path.flow_label).raw;
  std::memcpy(vector.rgid, path.gid, sizeof vector.rgid);
  if (ethernet) std::memcpy(vector.rmac, path.mac, sizeof vector.rmac);
  return vector;
}

}  // namespace peal::softnic::abi
