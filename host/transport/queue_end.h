// SPDX-License-Identifier: Apache-2.0
//
// This PE's end of one connection: what the NIC, or whoever serves a queue in its place, knows of
// it. The queue itself is memory, which kernels and the end share; who reads the work requests out
// of it is the end's affair.
#pragma once

#include <cstdint>

#include "host/nic/queue_pair.h"

namespace peal {

/// One end; not connected when made. Destroying it ends the use of the queue's memory.
class QueueEnd {
 public:
  virtual ~QueueEnd() = default;
  QueueEnd() = default;
  QueueEnd(const QueueEnd&) = delete;
  QueueEnd& operator=(const QueueEnd&) = delete;

  /// The queue pair's, by which the other end knows it.
  virtual uint32_t number() const = 0;
  /// Forgets the connection and the work under way, from any state. On return nobody but the caller
  /// reads or writes the queue's memory.
  virtual void to_reset() = 0;
  /// From reset to ready to send; the queue's memory is as nothing were ever posted. `remote.psn`
  /// is that of the first packet to come, `psn` of the first to be sent. The other end may do the
  /// same earlier or later.
  virtual void connect(const nic::RemoteQueue& remote, uint32_t psn) = 0;
  /// Tells whoever serves the queue that its doorbell record has moved, as a kernel's store to the
  /// doorbell does: `word` is what it stores there. To be called while no kernel posts on this
  /// queue.
  virtual void ring(uint64_t word) const = 0;
  /// As the NIC has it.
  virtual nic::QueueState state() const = 0;
};

}  // namespace peal
