// SPDX-License-Identifier: Apache-2.0
#include "host/base/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>
#include <vector>

#include "base/fd.h"
#include "host/base/error.h"

namespace peal {
namespace {

struct Interface {
  std::string name;
  std::string address;
  bool loopback;
};

std::string text_of(const sockaddr* name) {
  char text[INET_ADDRSTRLEN] = "";
  const auto* internet = reinterpret_cast<const sockaddr_in*>(name);
  ::inet_ntop(AF_INET, &internet->sin_addr, text, sizeof text);
  return text;
}

std::vector<Interface> interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) fail_errno(errno, "getifaddrs");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  std::vector<Interface> found;
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET) continue;
    if ((at->ifa_flags & IFF_UP) == 0) continue;
    found.push_back({at->ifa_name, text_of(at->ifa_addr), (at->ifa_flags & IFF_LOOPBACK) != 0});
  }
  return found;
}

// Where a packet to another network would leave: a datagram socket asks the routing table and sends
// nothing. The destination is one that documents use (RFC 5737).
std::string towards_others() {
  const Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(9);
  name.sin_addr.s_addr = htonl(0xc0000201);  // 192.0.2.1
  socklen_t length = sizeof name;
  if (!socket ||
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&name), &length) != 0) {
    return "";
  }
  return text_of(reinterpret_cast<const sockaddr*>(&name));
}

}  // namespace

std::string find_address(const std::string& text) {
  in_addr parsed{};
  if (::inet_pton(AF_INET, text.c_str(), &parsed) == 1) return text;
  const std::vector<Interface> all = interfaces();
  if (text.empty()) {
    if (const std::string routed = towards_others(); !routed.empty()) return routed;
    for (const Interface& one : all) {
      if (!one.loopback) return one.address;
    }
    return "127.0.0.1";
  }
  std::string names;
  for (const Interface& one : all) {
    if (one.name == text) return one.address;
    names += (names.empty() ? "" : ", ") + one.name;
  }
  fail(ErrorCode::kInvalidArgument,
       "'{}' is neither an IPv4 address nor an interface of this machine that has one: {}", text,
       names.empty() ? "there is none" : names);
}

std::string resolve_host(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  occupy_standard_descriptors();  // name services open sockets of their own
  const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &list);
  if (error != 0) {
    fail(ErrorCode::kConfiguration, "'{}' has no IPv4 address: {}", host, ::gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  return text_of(list->ai_addr);
}

}  // namespace peal
