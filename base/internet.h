// SPDX-License-Identifier: Apache-2.0
//
// Addresses of IPv4 and IPv6 in one form, and what sockets want of them. An address of IPv4 is
// ::ffff:a.b.c.d, as IPv6 maps it and as GIDs have it; sockets of AF_INET6 take both.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

namespace peal {

/// In network order.
using InternetAddress = std::array<uint8_t, 16>;
using MacAddress = std::array<uint8_t, 6>;  // likewise, of Ethernet

/// What addresses of IPv4 begin with.
inline constexpr InternetAddress kMappedIpv4{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
inline constexpr size_t kMappedBytes = 12;

constexpr bool is_ipv4(const InternetAddress& address) {
  return std::equal(kMappedIpv4.begin(), kMappedIpv4.begin() + kMappedBytes, address.begin());
}
/// Of IPv6: it means something on one link only, and to sockets only with that link's interface.
constexpr bool is_link_local(const InternetAddress& address) {
  return address[0] == 0xfe && (address[1] & 0xc0) == 0x80;
}
/// Of one host, on whatever link: not of many, of none, or of a link.
constexpr bool is_of_one_host(const InternetAddress& address) {
  if (is_ipv4(address)) return address[12] != 0 && address[12] < 224;
  return address != InternetAddress{} && address[0] != 0xff && !is_link_local(address);
}

/// "10.0.0.1", "fd00::1" or "[fd00::1]"; nothing else is one.
inline std::optional<InternetAddress> parse_internet(const std::string& text) {
  InternetAddress address = kMappedIpv4;
  if (::inet_pton(AF_INET, text.c_str(), address.data() + kMappedBytes) == 1) return address;
  const bool in_brackets = text.starts_with('[') && text.ends_with(']');
  const std::string inside = in_brackets ? text.substr(1, text.size() - 2) : text;
  if (::inet_pton(AF_INET6, inside.c_str(), address.data()) == 1) return address;
  return std::nullopt;
}

/// "10.0.0.1", "fd00::1".
inline std::string text_of(const InternetAddress& address) {
  char text[INET6_ADDRSTRLEN] = "";
  const bool short_one = is_ipv4(address);
  ::inet_ntop(short_one ? AF_INET : AF_INET6, address.data() + (short_one ? kMappedBytes : 0), text,
              sizeof text);
  return text;
}
/// "10.0.0.1:4711", "[fd00::1]:4711".
inline std::string text_of(const InternetAddress& address, uint16_t port) {
  const std::string text = text_of(address);
  return (is_ipv4(address) ? text : "[" + text + "]") + ":" + std::to_string(port);
}

/// Address and port as calls of sockets have them: get() and length().
class SocketAddress {
 public:
  /// For the kernel to fill in.
  SocketAddress() = default;
  /// For a socket of `family`; AF_INET takes addresses of IPv4 only.
  SocketAddress(int family, const InternetAddress& address, uint16_t port) {
    if (family == AF_INET) {
      name_.ipv4.sin_family = AF_INET;
      name_.ipv4.sin_port = htons(port);
      std::memcpy(&name_.ipv4.sin_addr, address.data() + kMappedBytes, sizeof name_.ipv4.sin_addr);
      return;
    }
    name_.ipv6.sin6_family = AF_INET6;
    name_.ipv6.sin6_port = htons(port);
    std::memcpy(&name_.ipv6.sin6_addr, address.data(), address.size());
  }
  /// For a socket of the address's own family.
  SocketAddress(const InternetAddress& address, uint16_t port)
      : SocketAddress(is_ipv4(address) ? AF_INET : AF_INET6, address, port) {}
  /// A copy of 16 bytes for AF_INET, of 28 for AF_INET6; of another family it is no address.
  explicit SocketAddress(const sockaddr* name) {
    if (name->sa_family == AF_INET) std::memcpy(&name_, name, sizeof name_.ipv4);
    if (name->sa_family == AF_INET6) std::memcpy(&name_, name, sizeof name_.ipv6);
  }

  int family() const { return name_.any.sa_family; }
  sockaddr* get() { return &name_.any; }
  const sockaddr* get() const { return &name_.any; }
  /// Of get(); before the kernel has filled it in, how much room there is.
  socklen_t length() const {
    return family() == AF_INET ? sizeof name_.ipv4 : static_cast<socklen_t>(sizeof name_);
  }
  InternetAddress internet() const {
    InternetAddress address = kMappedIpv4;
    if (family() == AF_INET) {
      std::memcpy(address.data() + kMappedBytes, &name_.ipv4.sin_addr, sizeof name_.ipv4.sin_addr);
    } else {
      std::memcpy(address.data(), &name_.ipv6.sin6_addr, address.size());
    }
    return address;
  }
  uint16_t port() const {
    return ntohs(family() == AF_INET ? name_.ipv4.sin_port : name_.ipv6.sin6_port);
  }

 private:
  union {
    sockaddr any;
    sockaddr_in ipv4;
    sockaddr_in6 ipv6;
  } name_{.ipv6 = {}};
};

/// The address to which a socket is bound; zeros where it is not.
inline SocketAddress bound_to(int socket) {
  SocketAddress name;
  socklen_t length = name.length();
  return ::getsockname(socket, name.get(), &length) == 0 ? name : SocketAddress();
}

}  // namespace peal
