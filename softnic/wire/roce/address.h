// SPDX-License-Identifier: Apache-2.0
//
// Addresses of NICs beyond the fabric: of IPv6, or of IPv4 as ::ffff:a.b.c.d, as GIDs have them.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>

namespace peal::softnic::roce {

struct Address {
  std::array<uint8_t, 16> byte = {};  // in network order

  constexpr Address() = default;
  constexpr explicit Address(const std::array<uint8_t, 16>& gid) : byte(gid) {}
  /// Of IPv4.
  constexpr Address(uint8_t a, uint8_t b, uint8_t c, uint8_t d)
      : byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d} {}

  constexpr bool ipv4() const {
    return std::all_of(byte.begin(), byte.begin() + 10, [](uint8_t one) { return one == 0; }) &&
           byte[10] == 0xff && byte[11] == 0xff;
  }
  /// Of one host, on whatever link: a NIC can have it.
  constexpr bool of_one_host() const {
    if (ipv4()) return byte[12] != 0 && byte[12] < 224;
    const bool link_local = byte[0] == 0xfe && (byte[1] & 0xc0) == 0x80;
    return *this != Address() && byte[0] != 0xff && !link_local;
  }

  auto operator<=>(const Address&) const = default;
};

}  // namespace peal::softnic::roce
