// SPDX-License-Identifier: Apache-2.0
//
// IPv4 addresses: of this machine, where others reach it, and of another machine by its name.
#pragma once

#include <string>

namespace peal {

/// The IPv4 address of this machine that `text` means: an address, an interface ("eth0"), or empty:
/// that of the interface which leads to other networks, else of any that is up, else 127.0.0.1.
/// Throws kInvalidArgument, with the interfaces there are.
std::string find_address(const std::string& text);

/// The IPv4 address of the machine called `host`. Throws kConfiguration where it has none.
std::string resolve_host(const std::string& host);

}  // namespace peal
