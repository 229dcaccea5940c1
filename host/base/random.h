// SPDX-License-Identifier: Apache-2.0
//
// Bytes that nobody can guess.
#pragma once

#include <array>
#include <cstddef>

namespace peal {

/// From the kernel's generator. Throws kSystem where it fails.
std::array<std::byte, 16> random_bytes();

}  // namespace peal
