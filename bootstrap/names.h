// SPDX-License-Identifier: Apache-2.0
//
// How errors of this folder spell ranks and times: "ranks 2, 5 of 8", "30 s".
#pragma once

#include <chrono>
#include <span>
#include <string>

namespace peal::bootstrap {

/// "rank 2 of 8", "ranks 1-3, 5 of 8"; ascending.
std::string name_ranks(std::span<const int> ranks, int size);

/// "30 s", "250 ms".
std::string name_time(std::chrono::milliseconds time);

}  // namespace peal::bootstrap
