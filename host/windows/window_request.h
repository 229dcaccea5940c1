// SPDX-License-Identifier: Apache-2.0
//
// A window's registration: as each PE asks for it, what all PEs agree on, and one PE's part as its
// NICs know it, with the keys that the PEs tell each other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "device/context.h"
#include "host/bootstrap.h"
#include "host/memory/gpu.h"
#include "host/memory/registration_cache.h"
#include "host/nic/registration.h"
#include "host/transport/rails.h"
#include "host/windows/published_windows.h"

namespace peal {

/// What one PE asks for.
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

/// Answers the sizes by PE, or none where they are alike.
std::vector<uint64_t> different_sizes(const std::vector<WindowRequest>& requests);

/// Answers by PE the parts as kernels are told of them, or none where they are alike.
std::vector<WindowPart> different_parts(const std::vector<WindowRequest>& requests);

/// A NIC's key of one memory, by rail.
using RailKeys = std::array<NicKey, kMaxRails>;

/// The keys by which other PEs reach a part.
struct RemoteKeys {
  RailKeys payload;
  RailKeys words;
};

/// The registrations end with it.
struct RegisteredPart {
  std::vector<nic::MemoryRegion> regions;
  RailKeys lkeys{};
  RemoteKeys remote{};
};

/// Registers [address, address + bytes) with each of these NICs, twice where `words` are asked for
/// and ordered otherwise than payload. Null `rails`, or no bytes: no registrations.
RegisteredPart register_part(const Rails* rails, const std::shared_ptr<Gpu>& gpu,
                             std::byte* address, size_t bytes, bool words);

/// The keys of all PEs as kernels read them, by rail and PE.
PublishedWindows::Keys keys_of_all(const std::vector<RemoteKeys>& parts, const Rails* rails);

}  // namespace peal
