// SPDX-License-Identifier: Apache-2.0
//
// What a completion's syndrome means to a person, and what to do about it.
#pragma once

#include <cstdint>

namespace peal {

/// "peer does not answer: ..."; mlx5::Syndrome as it came.
const char* syndrome_text(uint8_t syndrome);

/// What is probably wrong with a queue that never worked, and where to look.
const char* syndrome_remedy(uint8_t syndrome);

}  // namespace peal
