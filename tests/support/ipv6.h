// SPDX-License-Identifier: Apache-2.0
//
// Whether this machine has IPv6: a kernel may know it and have no address, as in many containers.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include "base/fd.h"

namespace peal {

inline bool has_ipv6() {
  const Fd socket(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 loopback{};
  loopback.sin6_family = AF_INET6;
  loopback.sin6_addr = in6addr_loopback;
  return socket &&
         ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&loopback), sizeof loopback) == 0;
}

}  // namespace peal
