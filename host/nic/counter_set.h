// SPDX-License-Identifier: Apache-2.0
//
// Which of the NIC's counter sets counts what goes wrong at a port: out of sequence, retries, time
// outs (/sys/class/infiniband/D/ports/P/hw_counters). Linux names its set to queue pairs that it
// makes; one made by firmware commands is counted nowhere unless it is named to that as well.
#pragma once

#include <cstdint>

#include "host/nic/verbs.h"

namespace peal::nic {

/// The set of `port`, read from a queue pair that Linux makes for the purpose; 0, where nobody
/// looks, if that is not possible.
uint8_t counter_set_of(const VerbsLibrary& library, ibv_context* context, uint8_t port);

}  // namespace peal::nic
