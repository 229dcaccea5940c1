// SPDX-License-Identifier: Apache-2.0
//
// This PE's end of one connection: what the NIC, or whoever serves a queue in its place, knows of
// it. The queue itself is memory, which kernels and the end share; who reads the work requests out
// of it is the end's affair.
#pragma once

#include <cstdint>
#include <memory>

#include "host/nic/device.h"
#include "host/nic/path.h"
#include "host/nic/placement.h"
#include "host/nic/queue_layout.h"
#include "host/nic/register_page.h"
#include "host/nic/registration.h"

namespace peal {
class Gpu;
}

namespace peal::nic {

/// The state of a queue pair, by the numbers of QPC.state.
enum class QueueState : uint8_t {
  kReset = 0,
  kInit = 1,
  kReadyToReceive = 2,
  kReadyToSend = 3,
  kSendError = 4,
  kSendDrained = 5,
  kError = 6,
};

/// The other end.
struct RemoteQueue {
  uint32_t qpn = 0;
  uint32_t psn = 0;  // of the first packet it will send, 24 bits
  Path path;         // to it
};

/// Everything about a queue pair that is a choice, but for its path. The defaults are those of the
/// other runtimes that drive a ConnectX from a GPU.
struct QueuePairSettings {
  uint8_t atomic_mode = 3;       // 4 and 8 bytes, masked forms too
  uint8_t log_max_message = 30;  // 1 GiB; the NIC may allow less
  uint8_t min_rnr_timer = 12;    // 0.64 ms
  uint8_t rnr_retry = 7;         // for ever
  uint8_t log_ack_period = 8;    // packets that may wait for an ACK; 0: each has its own
  QueueOrder order = QueueOrder::kDefault;
};

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
  virtual void connect(const RemoteQueue& remote, uint32_t psn) = 0;
  /// Tells whoever serves the queue that something was posted, as a kernel's store to the doorbell
  /// does: `word` is what it stores there. To be called while no kernel posts on this queue.
  virtual void ring(uint64_t word) const = 0;
  /// The state as the NIC has it.
  virtual QueueState state() const = 0;
};

/// Where the NIC finds the memory of a queue: `offset` bytes into the region.
struct QueuePosition {
  const QueueRegion& region;
  uint64_t offset;
  QueueMemoryLayout layout;
};

/// How it is rung. `page_of`: the GPU that may hold the page, if the NIC is software; else null.
struct QueueBell {
  const RegisterPage& page;
  std::shared_ptr<Gpu> page_of;
};

/// The end of a queue that the NIC reads itself. Throws kInvalidArgument for a depth the NIC cannot
/// do, kSystem when it refuses.
std::unique_ptr<QueueEnd> make_driven_end(const Device& device, const ProtectionDomain& domain,
                                          const QueueBell& bell, const QueuePosition& position,
                                          QueueOrder order);

}  // namespace peal::nic
