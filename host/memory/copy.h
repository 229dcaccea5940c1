// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace peal {

/// Bytes to be copied, between host and GPU memory in any direction.
struct Copy {
  void* to;
  const void* from;
  size_t bytes;
};

}  // namespace peal
