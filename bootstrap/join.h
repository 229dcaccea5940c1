// SPDX-License-Identifier: Apache-2.0
//
// How every rank but 0 comes into a TCP job: it connects, says hello, proves that it knows the
// secret, sees that rank 0 does (proof.h), and waits with all others for the start.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "bootstrap/bootstraps.h"
#include "bootstrap/wire.h"

namespace peal::bootstrap {

SocketAddress address_of(const UniqueId& id);
/// "127.0.0.1:4711", "[::1]:4711".
std::string name_address(const UniqueId& id);

/// Who joins, and how long it waits.
struct Member {
  int rank;
  int size;
  Deadline deadline;                          // of each collective call
  TimePoint until = Clock::now() + deadline;  // rank 0 is looked for
  bool again = false;                         // under the id of an earlier job
  bool taken = false;                         // there rank 0 held this rank for taken, last
};

/// Throws what a rank hears at its deadline that rank 0 held for taken.
[[noreturn]] void fail_of_taken(const Member& member);

/// Joins the job of `ids`, which has rank 0 at one of these places, and others perhaps at the rest:
/// where who listens proves to be rank 0. It may start later: tries until it listens.
std::unique_ptr<Bootstrap> join(std::span<const UniqueId> ids, const Member& member);

}  // namespace peal::bootstrap
