// SPDX-License-Identifier: Apache-2.0
//
// The contents a queue's memory must have before the NIC learns of it.
#include "host/nic/queue_layout.h"

#include <cstring>

namespace peal::nic {

void QueueMemoryLayout::prepare(std::byte* base) const {
  std::memset(base, 0, bytes());
  std::memset(base + cqe(), 0xff, sizeof(mlx5::Cqe));
}

}  // namespace peal::nic
