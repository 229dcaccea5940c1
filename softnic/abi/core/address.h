// SPDX-License-Identifier: Apache-2.0
//
// Address attributes of verbs and the NIC's paths.
#pragma once

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include "softnic/nic.h"

namespace peal::softnic::abi {

/// The path that the attributes describe. On Ethernet the peer's hardware address is looked up, as
/// the kernel does it: ETIMEDOUT when nobody has the GID. Throws EINVAL for what no NIC takes.
AddressPath path_of(const Nic& nic, const ibv_ah_attr& attr);

/// The attributes that describe the path.
ibv_ah_attr address_of(const AddressPath& path, bool ethernet);

/// As the NIC reads it in a WQE.
mlx5_wqe_av address_vector(const AddressPath& path, bool ethernet, const ibv_ah_attr& attr);

}  // namespace peal::softnic::abi
