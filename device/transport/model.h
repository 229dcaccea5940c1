// SPDX-License-Identifier: Apache-2.0
//
// Which NICs the kernels of this library drive: the one place that chooses a model.
#pragma once

#include <cstddef>
#include <type_traits>

#include "device/mlx5/nic.h"
#include "device/shared/send_queue.h"

namespace peal {

namespace nic {
using Model = mlx5::NicModel;
}

/// A queue of this library's contexts.
struct SendQueue : BasicSendQueue<nic::Model> {};
static_assert(std::is_trivially_copyable_v<SendQueue> && std::is_standard_layout_v<SendQueue>);
static_assert(sizeof(SendQueue) == 384 && PEAL_LIES_AT(SendQueue, reserved, 128) &&
              PEAL_LIES_AT(SendQueue, error, 256));

}  // namespace peal
