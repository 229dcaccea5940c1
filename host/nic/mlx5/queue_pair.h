// SPDX-License-Identifier: Apache-2.0
//
// Queues that a GPU drives, created by firmware commands in memory of the caller's. The order of
// calls: DrivenCompletionQueue, DrivenQueuePair (reset), exchange ends with the peer, to_init,
// to_rtr, to_rts. From then on only the device code touches the memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "host/nic/device.h"
#include "host/nic/mlx5/calls.h"
#include "host/nic/mlx5/prm.h"
#include "host/nic/path.h"
#include "host/nic/placement.h"
#include "host/nic/queue_end.h"
#include "host/nic/queue_layout.h"
#include "host/nic/register_page.h"
#include "host/nic/registration.h"

namespace peal::nic {

/// A firmware object; destroying it sends its DESTROY command.
class FirmwareObject {
 public:
  /// Runs a CREATE command. Throws kSystem "CREATE_QP refused: BAD_RES (0x05), syndrome 0x...:
  /// ...".
  template <size_t kInBytes>
  FirmwareObject(const Device& device, const prm::Mailbox<kInBytes>& in)
      : FirmwareObject(device, in.data(), kInBytes) {}

  uint32_t number() const { return number_; }

  /// Runs a command on this object and checks its answer; throws like the constructor.
  void modify(const void* in, size_t in_bytes) const;
  void query(const void* in, size_t in_bytes, void* out, size_t out_bytes) const;

 private:
  FirmwareObject(const Device& device, const void* in, size_t in_bytes);

  std::shared_ptr<const VerbsLibrary> library_;
  OwnedObject<mlx5dv_devx_obj, int> object_;
  uint32_t number_ = 0;
};

/// Where in which umem a queue lies, byte offsets from the umem's start.
struct QueuePlace {
  uint32_t umem = 0;
  uint64_t send_queue = 0;   // multiple of 64
  uint64_t cqe = 0;          // multiple of 64
  uint64_t doorbell = 0;     // of the send queue; multiple of 8
  uint64_t cq_doorbell = 0;  // never written by anyone, the NIC wants it; multiple of 8

  /// The parts of `layout`, whose memory begins `offset` bytes into `umem`.
  static QueuePlace of(const QueueMemoryLayout& layout, const QueueRegion& umem, uint64_t offset);
};

/// A collapsed completion queue: one 64-byte entry, always overwritten by the newest completion;
/// overruns are ignored, no events.
class DrivenCompletionQueue {
 public:
  DrivenCompletionQueue(const Device& device, const RegisterPage& uar, const QueuePlace& place);
  uint32_t number() const { return object_.number(); }

 private:
  FirmwareObject object_;
};

/// What one queue pair is to be.
struct DrivenQueuePairConfig {
  uint32_t depth = 0;  // work queue blocks: a power of two
  QueuePairSettings settings = {};
};

/// A reliable connection with a send queue and no receive queue. Remote write, read and atomics are
/// allowed.
class DrivenQueuePair {
 public:
  /// Makes a queue pair in reset state. `place` has room for `config.depth` blocks. Throws
  /// kInvalidArgument for a depth that the NIC cannot do, kSystem if it refuses.
  DrivenQueuePair(const Device& device, const ProtectionDomain& domain, const RegisterPage& uar,
                  const DrivenCompletionQueue& cq, const QueuePlace& place,
                  const DrivenQueuePairConfig& config);

  uint32_t number() const { return object_.number(); }

  /// The transitions, in this order. Peers need no barrier between them: the NIC retries until the
  /// other end is ready to receive.
  /// to_rtr() finds the next hop of a path over Ethernet and throws what next_hop() throws.
  void to_init();
  void to_rtr(const RemoteQueue& remote);
  /// `path` is to_rtr()'s; `psn` is that of the first packet sent, as the other end was told.
  void to_rts(const Path& path, uint32_t psn = 0);
  /// Back to reset from any state; the doorbell record and indices start at 0 again.
  void to_reset();

  /// Asks the NIC, in any state.
  QueueState query_state() const;

 private:
  FirmwareObject object_;
  std::shared_ptr<const VerbsLibrary> library_;
  ibv_pd* domain_;
  std::string nic_;
  uint8_t port_;
  uint16_t partition_;
  uint8_t counter_set_;
  bool lag_port_in_rts_;
  QueuePairSettings settings_;
};

}  // namespace peal::nic
