// SPDX-License-Identifier: Apache-2.0
#include "host/contexts/debug.h"

#include "device/context.h"
#include "device/transport/model.h"

namespace peal {
namespace {

const DebugField kContextFields[] = {PEAL_DEBUG_FIELD(ContextFields, pe),
                                     PEAL_DEBUG_FIELD(ContextFields, n_pes),
                                     PEAL_DEBUG_FIELD(ContextFields, queues_per_peer),
                                     PEAL_DEBUG_FIELD(ContextFields, slot),
                                     PEAL_DEBUG_FIELD(ContextFields, queues),
                                     PEAL_DEBUG_FIELD(ContextFields, queue_stride),
                                     PEAL_DEBUG_FIELD(ContextFields, stop),
                                     {}};

const DebugField kQueueFields[] = {
    {"qpn_shifted", offsetof(SendQueue, nic.qpn_shifted), sizeof(SendQueue::nic.qpn_shifted)},
    PEAL_DEBUG_FIELD(SendQueue, reserved),
    PEAL_DEBUG_FIELD(SendQueue, posted),
    PEAL_DEBUG_FIELD(SendQueue, rung),
    PEAL_DEBUG_FIELD(SendQueue, completed),
    {"status", offsetof(SendQueue, error) + offsetof(QueueError, status), sizeof(uint32_t)},
    {"wqe_index", offsetof(SendQueue, error) + offsetof(QueueError, wqe_index), sizeof(uint64_t)},
    {"syndrome", offsetof(SendQueue, error) + offsetof(QueueError, syndrome), sizeof(uint8_t)},
    {}};

// What counts in `reserved` and `posted`, and how far behind a queue is that has no connection.
const DebugField kNumbers[] = {
    {"reserved_count", kReservedCount, 0},      {"posted_count", kPostedCount, 0},
    {"posted_last_shift", kPostedLastShift, 0}, {"most_blocks", kMostBlocks, 0},
    {"unconnected", kUnconnected, 0},           {}};

/// By number; the entry behind the last one is the end.
struct StatusNames {
  static constexpr uint32_t kCount = static_cast<uint32_t>(Status::kCount);
  DebugField field[kCount + 1] = {};
  StatusNames() {
    for (uint32_t i = 0; i < kCount; ++i) field[i] = {to_string(static_cast<Status>(i)), i, 0};
  }
};
const StatusNames kStatuses;

const DebugType kTypes[] = {{"Context", sizeof(ContextFields), kContextFields},
                            {"SendQueue", sizeof(SendQueue), kQueueFields},
                            {"Status", sizeof(Status), kStatuses.field},
                            {"Number", 0, kNumbers},
                            {}};

}  // namespace

// One for the process, as what it lists is the process's.
constinit DebugList peal_debug_contexts{kTypes};

}  // namespace peal
