// SPDX-License-Identifier: Apache-2.0
//
// Addresses of the loopback for NICs with UDP: 127.64.0.0 to 127.191.255.255 by chance, as process
// numbers are not unique across sandboxes. tests/mp/apart.sh has those above.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "softnic/wire/roce/address.h"

namespace peal::softnic::testing {

/// Four that no other test uses now, the same ones throughout a process.
inline const std::vector<roce::Address>& loopback_addresses() {
  static const std::vector<roce::Address> list = [] {
    const uint32_t first = std::random_device()() & 0x7ffffc;
    std::vector<roce::Address> four;
    for (uint32_t number = first; number < first + 4; ++number) {
      four.emplace_back(uint8_t{127}, static_cast<uint8_t>(64 + (number >> 16)),
                        static_cast<uint8_t>(number >> 8), static_cast<uint8_t>(number));
    }
    return four;
  }();
  return list;
}

}  // namespace peal::softnic::testing
