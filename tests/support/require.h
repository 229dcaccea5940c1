// SPDX-License-Identifier: Apache-2.0
//
// Conditions of tests with PEs in processes of their own, where only an exception fails the job;
// and conditions that another thread brings about.
#pragma once

#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>

namespace peal {

/// Throws, with `what`, unless the condition holds.
inline void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error("expected otherwise: " + what);
}

/// Asks until `holds()`; false when it never does.
template <class Holds>
bool eventually(Holds&& holds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace peal
