// SPDX-License-Identifier: Apache-2.0
#include "host/base/address.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <vector>

#include "base/fd.h"
#include "host/base/error.h"

namespace peal {
namespace {

struct Interface {
  std::string name;
  InternetAddress address;
  bool loopback;
};

constexpr const char* kRemedy =
    "a link-local address, which other machines cannot use: give the interface an address of IPv4, "
    "or a global or unique local one of IPv6 (fd00::/8)";

// Those of IPv4 first.
std::vector<Interface> interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) fail_errno(errno, "getifaddrs");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  std::vector<Interface> found;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
      if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != family) continue;
      if ((at->ifa_flags & IFF_UP) == 0) continue;
      found.push_back({at->ifa_name, SocketAddress(at->ifa_addr).internet(),
                       (at->ifa_flags & IFF_LOOPBACK) != 0});
    }
  }
  return found;
}

// Where a packet to that network would leave: a datagram socket asks the routing table and sends
// nothing.
std::optional<InternetAddress> towards(const char* other) {
  const SocketAddress to(*parse_internet(other), 9);
  const Fd socket(::socket(to.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket || ::connect(socket.get(), to.get(), to.length()) != 0) return std::nullopt;
  const InternetAddress from = bound_to(socket.get()).internet();
  return is_link_local(from) ? std::nullopt : std::optional(from);
}

std::string default_address(const std::vector<Interface>& all) {
  // Destinations that documents use (RFC 5737, RFC 3849).
  for (const char* const other : {"192.0.2.1", "2001:db8::1"}) {
    if (const auto routed = towards(other)) return text_of(*routed);
  }
  for (const bool loopback : {false, true}) {
    for (const Interface& one : all) {
      if (one.loopback == loopback && !is_link_local(one.address)) return text_of(one.address);
    }
  }
  return "127.0.0.1";
}

}  // namespace

std::string find_address(const std::string& text) {
  if (const auto address = parse_internet(text.substr(0, text.find('%')))) {
    if (!is_link_local(*address) && text.find('%') == std::string::npos) return text_of(*address);
    fail(ErrorCode::kInvalidArgument, "'{}' is {}", text, kRemedy);
  }
  const std::vector<Interface> all = interfaces();
  if (text.empty()) return default_address(all);
  std::string names;
  bool known = false;
  for (const Interface& one : all) {
    const bool usable = !is_link_local(one.address);
    if (one.name == text && usable) return text_of(one.address);
    known |= one.name == text;
    if (usable) names += (names.empty() ? "" : ", ") + one.name;
  }
  if (known) fail(ErrorCode::kInvalidArgument, "interface '{}' has only {}", text, kRemedy);
  fail(ErrorCode::kInvalidArgument,
       "'{}' is neither an address of IPv4 or IPv6 nor an interface of this machine that has one: "
       "{}",
       text, names.empty() ? "there is none" : names);
}

InternetAddress resolve_host(const std::string& host) {
  if (const auto address = parse_internet(host)) {
    if (is_link_local(*address)) fail(ErrorCode::kConfiguration, "'{}' is {}", host, kRemedy);
    return *address;
  }
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG;  // no address of IPv4 on a machine that has none itself
  addrinfo* list = nullptr;
  occupy_standard_descriptors();  // name services open sockets of their own
  int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &list);
  if (error != 0) {  // "localhost" of a machine that has IPv6, in a file that has not
    hints.ai_flags = 0;
    error = ::getaddrinfo(host.c_str(), nullptr, &hints, &list);
  }
  if (error != 0) {
    fail(ErrorCode::kConfiguration, "'{}' has no address of IPv4 or IPv6: {}", host,
         ::gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  for (const int family : {AF_INET, AF_INET6}) {
    for (const addrinfo* one = list; one != nullptr; one = one->ai_next) {
      if (one->ai_family != family) continue;
      const InternetAddress address = SocketAddress(one->ai_addr).internet();
      if (!is_link_local(address)) return address;
    }
  }
  fail(ErrorCode::kConfiguration, "'{}' has only {}", host, kRemedy);
}

}  // namespace peal
