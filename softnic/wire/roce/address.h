// SPDX-License-Identifier: Apache-2.0
//
// Addresses of NICs beyond the fabric: of IPv6, or of IPv4 as ::ffff:a.b.c.d, as GIDs have them.
#pragma once

#include <compare>
#include <cstdint>

#include "base/internet.h"

namespace peal::softnic::roce {

struct Address {
  InternetAddress byte = {};

  constexpr Address() = default;
  constexpr explicit Address(const InternetAddress& gid) : byte(gid) {}
  /// Of IPv4.
  constexpr Address(uint8_t a, uint8_t b, uint8_t c, uint8_t d)
      : byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d} {}

  constexpr bool ipv4() const { return is_ipv4(byte); }
  /// A NIC can have it.
  constexpr bool of_one_host() const { return is_of_one_host(byte); }

  auto operator<=>(const Address&) const = default;
};

}  // namespace peal::softnic::roce
