// SPDX-License-Identifier: Apache-2.0
//
// Where packets over Ethernet go first: the MAC of the peer, or of a router to it, which the
// firmware wants in a queue pair's address path. Only the kernel knows that, by its routes and
// neighbours; verbs asks it when an address handle is made.
#pragma once

#include <string>

#include "base/internet.h"
#include "host/nic/path.h"
#include "host/nic/verbs.h"

namespace peal::nic {

/// Throws kSystem, naming both addresses, when there is no way to the remote GID.
MacAddress next_hop(const VerbsLibrary& library, ibv_pd* domain, const std::string& nic,
                    const Path& path);

}  // namespace peal::nic
