// SPDX-License-Identifier: Apache-2.0
//
// One queue whose work requests a CPU carries to the NIC, and whose completions it writes: for NICs
// that kernels cannot drive.
#pragma once

#include <memory>

#include "host/nic/flush_reads.h"
#include "host/nic/model.h"
#include "host/nic/verbs_queue.h"

namespace peal::nic {

/// The memory of such a queue, all of it the host's.
struct CarriedMemory {
  std::byte* begin;
  QueueMemoryLayout layout;
  uint64_t landing_address;  // of cell 0, as its registration knows it
  NicKey landing_key;
};

/// Belongs to one thread at a time.
class CarriedQueue {
 public:
  virtual ~CarriedQueue() = default;
  CarriedQueue() = default;
  CarriedQueue(const CarriedQueue&) = delete;
  CarriedQueue& operator=(const CarriedQueue&) = delete;

  /// To be called when nothing is posted and the NIC's queue is ready to send.
  virtual void start() = 0;
  /// Forgets everything; advance() does nothing any more.
  virtual void stop() = 0;
  /// Does what can be done now, at most some tens of requests. True if that was anything.
  virtual bool advance() = 0;
  /// True if there is something to do, or to wait for.
  virtual bool busy() const = 0;
};

/// `flushes`: what a DUMP of kernels becomes, if not null; else it is done when what is before it
/// is.
std::unique_ptr<CarriedQueue> carry(VerbsQueue& nic, const CarriedMemory& memory,
                                    FlushReads* flushes);

}  // namespace peal::nic
