// SPDX-License-Identifier: Apache-2.0
//
// How a firmware command fails, in words.
#pragma once

#include <cstdint>

namespace peal::nic {

/// "BAD_RES" for 0x05, ...
const char* command_status_name(uint32_t status);

/// Throws for a command that the NIC or the driver did not carry out: kUnsupported when there is no
/// such command or no permission, else kSystem "CREATE_QP refused: BAD_RES (0x05), syndrome 0x...:
/// what that means". `in` and `out` are the mailboxes as sent and as answered (at least 16 bytes),
/// `error` is errno; it speaks when the answer carries no status.
[[noreturn]] void refuse_command(const void* in, const void* out, int error);

}  // namespace peal::nic
