// SPDX-License-Identifier: Apache-2.0
//
// Where a process lives: pids and file descriptors mean the same to two processes only if host and
// pid namespace agree. Plain bytes, so that PEs can exchange it.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace peal {

/// One process, as others see it.
struct Place {
  std::array<char, 40> boot_id;  // of the running kernel: one per host and boot
  uint64_t pid_namespace;        // 0 = not known
  int64_t pid;
  uint64_t network;  // namespace; 0 = not known

  /// The calling process.
  static Place here();
};

bool same_host(const Place& a, const Place& b);

/// A socket of one is known to the other by its abstract name.
bool same_sockets(const Place& a, const Place& b);

/// On another host, or in another network namespace, as far as Linux tells of both.
bool is_elsewhere(const Place& a, const Place& b);

/// Both see the same processes under the same numbers.
bool same_pids(const Place& a, const Place& b);

bool same_process(const Place& a, const Place& b);

/// How many of the places before `index` are on its host: 0 for the first PE of a host.
int rank_on_host(std::span<const Place> places, size_t index);

}  // namespace peal
