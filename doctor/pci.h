// SPDX-License-Identifier: Apache-2.0
//
// One question to PCI configuration space: does a bridge send peer-to-peer traffic up to the root?
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace peal::doctor {

/// The control word of the Access Control Services capability in `config`, the bytes of a device's
/// configuration space; 0 when it has none. Nothing when `config` ends before extended
/// capabilities: the kernel shows those to administrators only.
std::optional<unsigned> acs_control(std::string_view config);

/// Requests or completions between devices below the bridge are redirected upwards.
constexpr bool redirects(unsigned acs_control) { return (acs_control & 0xc) != 0; }

}  // namespace peal::doctor
