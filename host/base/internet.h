// SPDX-License-Identifier: Apache-2.0
//
// Addresses of IPv4 and IPv6 in one form, and what sockets want of them. An address of IPv4 is
// ::ffff:a.b.c.d, as IPv6 maps it and as GIDs have it; sockets of AF_INET6 take both.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace peal {

/// In network order.
using InternetAddress = std::array<uint8_t, 16>;

/// "10.0.0.1", "fd00::1" or "[fd00::1]"; nothing else is one.
std::optional<InternetAddress> parse_internet(const std::string& text);
bool is_ipv4(const InternetAddress& address);
/// Of IPv6: it means something on one link only, and to sockets only with that link's interface.
bool is_link_local(const InternetAddress& address);
/// "10.0.0.1", "fd00::1".
std::string text_of(const InternetAddress& address);
/// "10.0.0.1:4711", "[fd00::1]:4711".
std::string text_of(const InternetAddress& address, uint16_t port);

/// Address and port as calls of sockets have them: get() and length().
class SocketAddress {
 public:
  /// For the kernel to fill in.
  SocketAddress() = default;
  /// For a socket of `family`; AF_INET takes addresses of IPv4 only.
  SocketAddress(int family, const InternetAddress& address, uint16_t port);
  /// For a socket of the address's own family.
  SocketAddress(const InternetAddress& address, uint16_t port)
      : SocketAddress(is_ipv4(address) ? AF_INET : AF_INET6, address, port) {}
  /// A copy of one of `length` bytes; of another family than these two it is no address.
  explicit SocketAddress(const sockaddr* name);

  int family() const { return name_.any.sa_family; }
  sockaddr* get() { return &name_.any; }
  const sockaddr* get() const { return &name_.any; }
  /// Of get(); before the kernel has filled it in, how much room there is.
  socklen_t length() const {
    return family() == AF_INET ? sizeof name_.ipv4 : static_cast<socklen_t>(sizeof name_);
  }
  InternetAddress internet() const;
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
SocketAddress bound_to(int socket);

}  // namespace peal
