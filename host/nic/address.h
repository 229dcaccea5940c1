// SPDX-License-Identifier: Apache-2.0
//
// The address of a path as verbs has it.
#pragma once

#include <cerrno>

#include "host/nic/path.h"
#include "host/nic/verbs.h"

namespace peal::nic {

/// The next hop of a path over Ethernet, and its UDP source port, are the library's to find.
ibv_ah_attr address_of(const Path& path);

/// Asks `call`, which answers an errno, again once if that is ETIMEDOUT: a neighbour whose link
/// just came up misses the kernel's first question, and answers when it is repeated.
template <class Call>
int asked_twice(Call call) {
  const int error = call();
  return error == ETIMEDOUT ? call() : error;
}

}  // namespace peal::nic
