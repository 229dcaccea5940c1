// SPDX-License-Identifier: Apache-2.0
//
// Addresses of this machine, where others reach it, and of another machine by its name. IPv4 comes
// first where there is both. Link-local addresses of IPv6 are refused: on another machine they mean
// another link, or nothing.
#pragma once

#include <string>

#include "base/internet.h"

namespace peal {

/// The address of this machine that `text` means, as text: an address, an interface ("eth0"), or
/// empty: that of the interface which leads to other networks, else of any that is up, else the
/// loopback's. Throws kInvalidArgument, with the interfaces there are.
std::string find_address(const std::string& text);

/// The address of the machine called `host`, a name or an address. Throws kConfiguration where it
/// has none.
InternetAddress resolve_host(const std::string& host);

}  // namespace peal
