// SPDX-License-Identifier: Apache-2.0
//
// One PE's part of a window as its NICs know it, and the keys that the PEs tell each other.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "device/context.h"
#include "host/memory/gpu.h"
#include "host/nic/registration.h"
#include "host/transport/rails.h"
#include "host/windows/published_windows.h"

namespace peal {

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
