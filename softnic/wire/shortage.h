// SPDX-License-Identifier: Apache-2.0
//
// What a fabric takes of the machine: memory for the files of links, descriptors. Where it is short
// the error names the place, what is left, what so many NICs need, and how to get it.
#pragma once

#include <cstdint>
#include <string>

namespace peal::softnic {

/// A link is a page and two rings (wire.h): as large as they are good for, and as small as works.
inline constexpr uint64_t kLinkHeaderBytes = 4096;
inline constexpr uint64_t kLargestRing = 256 << 10;
inline constexpr uint64_t kSmallestRing = 8 << 10;
constexpr uint64_t link_bytes(uint64_t ring) { return kLinkHeaderBytes + 2 * ring; }

/// What is left where a fabric's files lie, and who shares it.
struct Room {
  uint64_t total_bytes = ~uint64_t{0};  // of the file system
  uint64_t free_bytes = ~uint64_t{0};
  uint64_t free_files = ~uint64_t{0};
  uint64_t nics = 1;

  static Room in(const std::string& directory);

  /// Links there can be: one of each NIC to each other.
  uint64_t links() const { return nics < 2 ? 1 : nics * (nics - 1); }
  /// The rings of the next link: so large that as many links as there can be still fit, if they do
  /// at all.
  uint64_t ring_bytes() const;
};

/// True for an errno that says that the machine has no more to give.
bool is_shortage(int error);

/// For people, behind what could not be done: place, size, need and remedy of such an errno. "" for
/// any other.
std::string shortage(int error, const std::string& directory);

}  // namespace peal::softnic
