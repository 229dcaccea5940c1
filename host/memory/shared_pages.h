// SPDX-License-Identifier: Apache-2.0
//
// Memory of this process that other processes can map: a file is behind it.
//
//   [address, bytes)  ->  mappings, of /proc/self/maps  ->  one file, from an offset on
//
// The file may have no name: a memfd, shared anonymous memory, one that was deleted.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/fd.h"

namespace peal {

/// What others map to share such memory.
struct SharedPages {
  Fd file;              // a descriptor of its own, whatever becomes of the caller's
  uint64_t offset = 0;  // in the file, of the first byte
};

/// The file behind [address, address + bytes), which is not empty. Throws kUnsupported, with the
/// cause and the remedy, unless all of it is mapped MAP_SHARED, to be read and written, of one
/// file, at offsets that follow one another, and the file can be opened again. That it stays so is
/// the caller's business: a file that is truncated later ends its users by SIGBUS.
SharedPages find_shared_pages(const std::byte* address, size_t bytes);

/// What a mapping of `file` must be a multiple of, in place and length: its pages are larger in
/// hugetlbfs.
size_t page_bytes(const Fd& file);

}  // namespace peal
