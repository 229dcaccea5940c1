// SPDX-License-Identifier: Apache-2.0
#include "host/base/internet.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace peal {
namespace {

constexpr InternetAddress kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr size_t kMappedBytes = 12;

}  // namespace

std::optional<InternetAddress> parse_internet(const std::string& text) {
  InternetAddress address = kMapped;
  if (::inet_pton(AF_INET, text.c_str(), address.data() + kMappedBytes) == 1) return address;
  const bool in_brackets = text.starts_with('[') && text.ends_with(']');
  const std::string inside = in_brackets ? text.substr(1, text.size() - 2) : text;
  if (::inet_pton(AF_INET6, inside.c_str(), address.data()) == 1) return address;
  return std::nullopt;
}

bool is_ipv4(const InternetAddress& address) {
  return std::equal(kMapped.begin(), kMapped.begin() + kMappedBytes, address.begin());
}

bool is_link_local(const InternetAddress& address) {
  return address[0] == 0xfe && (address[1] & 0xc0) == 0x80;
}

std::string text_of(const InternetAddress& address) {
  char text[INET6_ADDRSTRLEN] = "";
  const bool short_one = is_ipv4(address);
  ::inet_ntop(short_one ? AF_INET : AF_INET6, address.data() + (short_one ? kMappedBytes : 0), text,
              sizeof text);
  return text;
}

std::string text_of(const InternetAddress& address, uint16_t port) {
  const std::string text = text_of(address);
  return is_ipv4(address) ? fmt::format("{}:{}", text, port) : fmt::format("[{}]:{}", text, port);
}

SocketAddress::SocketAddress(int family, const InternetAddress& address, uint16_t port) {
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

SocketAddress::SocketAddress(const sockaddr* name) {
  if (name->sa_family == AF_INET) std::memcpy(&name_, name, sizeof name_.ipv4);
  if (name->sa_family == AF_INET6) std::memcpy(&name_, name, sizeof name_.ipv6);
}

InternetAddress SocketAddress::internet() const {
  InternetAddress address = kMapped;
  if (family() == AF_INET) {
    std::memcpy(address.data() + kMappedBytes, &name_.ipv4.sin_addr, sizeof name_.ipv4.sin_addr);
  } else {
    std::memcpy(address.data(), &name_.ipv6.sin6_addr, address.size());
  }
  return address;
}

SocketAddress bound_to(int socket) {
  SocketAddress name;
  socklen_t length = name.length();
  return ::getsockname(socket, name.get(), &length) == 0 ? name : SocketAddress();
}

}  // namespace peal
