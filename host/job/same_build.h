// SPDX-License-Identifier: Apache-2.0
//
// Which peal a process has. What PEs exchange are plain bytes of one build's types, so that PEs of
// two builds would misread each other; they are refused before anything else is exchanged:
//
//   PE 0: "peal 0.1.0, protocol 1, x86_64, ..."  |  one allgather of text  |  all PEs go on, or all
//   PE 1: "peal 0.2.0, protocol 1, x86_64, ..."  |                         |  throw with both named
#pragma once

#include <array>
#include <string>
#include <vector>

#include "host/bootstrap.h"

namespace peal {

/// Goes up by one with each change of what PEs exchange: in bytes, meaning or order, by bootstrap,
/// channel, NIC or mapped memory. It tells builds of one version apart.
inline constexpr int kProtocol = 3;

/// What one process tells of its build: text that any build and architecture reads.
struct Build {
  std::array<char, 80> identity{};  // version, protocol, architecture, pointers, byte order
  std::array<char, 48> host{};      // whose process it is

  /// The calling process.
  static Build here();
};
static_assert(sizeof(Build) == 128, "all builds exchange as much, for ever");

/// Collective. Answers by PE whose process it is, where the identities of all PEs are the same;
/// else throws kConfiguration on all of them.
std::vector<std::string> require_same_build(Bootstrap& group, const Build& mine = Build::here());

}  // namespace peal
