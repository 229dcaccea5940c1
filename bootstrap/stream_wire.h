// SPDX-License-Identifier: Apache-2.0
//
// The wire over connected stream sockets: TCP connections or socket pairs. A message is its length
// (8 bytes, little endian) and its bytes. A closed connection is a lost peer.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/fd.h"
#include "bootstrap/wire.h"

namespace peal::bootstrap {

/// A wire for `rank` of peers.size(); peers[r] is the connection to rank r, empty where there is
/// none (between two ranks other than 0, to itself, or because r never came).
std::unique_ptr<Wire> make_stream_wire(int rank, std::vector<Fd> peers);

/// Socket pairs between rank 0 and every other rank, to be made before threads start or processes
/// fork: links[r] is what rank r hands to make_stream_wire. Throws kInvalidArgument when count is
/// below 1.
std::vector<std::vector<Fd>> connect_locally(int count);

/// `message` as it travels, for a sender that has no wire.
std::vector<std::byte> make_frame(std::span<const std::byte> message);

}  // namespace peal::bootstrap
