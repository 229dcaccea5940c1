// SPDX-License-Identifier: Apache-2.0
//
// What each PE would make of a window's registration, and what they agree on.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "host/bootstrap.h"
#include "host/memory/registration_cache.h"
#include "host/window_options.h"

namespace peal {

/// One PE's.
struct WindowRequest {
  uint64_t bytes;
  uint64_t iova;                     // offset of its first byte in a page
  uint64_t room;                     // windows that this PE could add
  uint64_t any_size;                 // WindowOptions
  uint64_t cached;                   // the same
  RegistrationCache::Numbers known;  // windows that its cache has for this memory
};

/// Collective. What all PEs ask for, of which `mine` answers this one's. Throws on all PEs what
/// `mine` throws on one, and kInvalidArgument where they differ in what must be alike or one has no
/// room.
std::vector<WindowRequest> agree_on_window(Bootstrap& group,
                                           const std::function<WindowRequest()>& mine);

/// The newest window that all PEs know for the memory that they ask for, or 0.
uint64_t known_to_all(const std::vector<WindowRequest>& requests);

}  // namespace peal
