// SPDX-License-Identifier: Apache-2.0
//
// The address of a path as verbs has it, and where packets over Ethernet go first: the MAC of the
// peer, or of a router to it. Only the kernel knows that, by its routes and neighbours; verbs asks
// it when an address handle is made.
#pragma once

#include <array>
#include <cerrno>
#include <cstdint>
#include <string>

#include "host/nic/path.h"
#include "host/nic/verbs.h"

namespace peal::nic {

using Mac = std::array<uint8_t, 6>;

/// The next hop of a path over Ethernet, and its UDP source port, are the library's to find.
ibv_ah_attr address_of(const Path& path);

/// Asks `call`, which answers an errno, again once if that is ETIMEDOUT: a neighbour whose link
/// just came up misses the kernel's first question, and answers when it is repeated.
template <class Call>
int asked_twice(Call call) {
  const int error = call();
  return error == ETIMEDOUT ? call() : error;
}

/// Throws kSystem, naming both addresses, when there is no way to the remote GID.
Mac next_hop(const VerbsLibrary& library, ibv_pd* domain, const std::string& nic, const Path& path);

}  // namespace peal::nic
