// SPDX-License-Identifier: Apache-2.0
//
// The contents a queue's memory must have before the NIC learns of it.
#include "host/nic/queue_layout.h"

#include <cstring>

namespace peal::nic {

mlx5::Cqe QueueMemoryLayout::no_completion() {
  mlx5::Cqe none;
  std::memset(static_cast<void*>(&none), 0xff, sizeof(none));
  return none;
}

void QueueMemoryLayout::prepare(std::byte* base) const {
  const mlx5::Cqe none = no_completion();
  std::memset(base, 0, bytes());
  std::memcpy(base + cqe(), &none, sizeof(none));
}

}  // namespace peal::nic
