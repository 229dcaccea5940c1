// SPDX-License-Identifier: Apache-2.0
//
// How an operation ended. The data path answers with a Status; it neither traps nor throws.
#pragma once

#include <cstdint>

#include "device/base/target.h"

namespace peal {

/// What every operation answers; the compiler warns where it is dropped.
enum class [[nodiscard]] Status : uint32_t;

enum class Status : uint32_t {
  kOk = 0,
  kTimeout,  // the context's deadline passed. A wait may be repeated; an operation that could not
             // be posted in time has closed its queue
  kQueueError,  // the NIC completed a work request with an error; the error record has the syndrome
  kPeerLost,    // the process of a peer is gone
  kAborted,     // the host ended all waits of this runtime
  kBadPe,       // pe is not in [0, n_pes)
  kNotSymmetric,   // the remote address lies in no window that all PEs registered
  kNotRegistered,  // local memory that no NIC knows: over 1 KiB, or over a block's end
  kMisaligned,     // an atomic or signal address is not a multiple of its size
  kPeerMasked,     // the host gave the peer up (Runtime::mask); nothing was sent
  kBadTeam,        // this PE is no member, or the team was not made for so many contexts
  kMismatch,       // members differ in a collective call; what a long one moves was not
  kMistake,        // checked mode found a mistake of the kernel; the call did nothing
  kTeamBusy,       // another call of the team was under way on this context; recover() goes on
  kBadAlgorithm,   // PEAL_ALGORITHM forces an algorithm on a collective call that it does not fit
  kCount,
};

/// A short name, "queue error". For host and tests; kernels compare.
PEAL_HD const char* to_string(Status status) {
  switch (status) {
    case Status::kOk:
      return "ok";
    case Status::kTimeout:
      return "timeout";
    case Status::kQueueError:
      return "queue error";
    case Status::kPeerLost:
      return "peer lost";
    case Status::kAborted:
      return "aborted";
    case Status::kBadPe:
      return "no such pe";
    case Status::kNotSymmetric:
      return "address not symmetric";
    case Status::kNotRegistered:
      return "address not registered";
    case Status::kMisaligned:
      return "address misaligned";
    case Status::kPeerMasked:
      return "peer masked";
    case Status::kBadTeam:
      return "not a member of the team, or more contexts than it was made for";
    case Status::kMismatch:
      return "collective call with other arguments than other members'";
    case Status::kMistake:
      return "mistake";
    case Status::kTeamBusy:
      return "another call of the team is under way on this context";
    case Status::kBadAlgorithm:
      return "forced algorithm does not fit the call";
    case Status::kCount:
      break;
  }
  return "unknown status";
}

}  // namespace peal
