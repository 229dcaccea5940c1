// SPDX-License-Identifier: Apache-2.0
//
// A queue pair that a CPU posts to, by plain verbs: any NIC has it, none of mlx5's own interface is
// used. One thread posts and polls; the transitions are for a time when it does not.
//
//   post: SendRequest... -> ibv_send_wr chain -> ibv_post_send        poll: ibv_wc ->
//   SendCompletion
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "host/nic/device.h"
#include "host/nic/queue_end.h"

namespace peal::nic {

/// One thing to do, in host byte order.
struct SendRequest {
  enum class Kind : uint8_t { kWrite, kRead, kCompareSwap, kFetchAdd };

  uint64_t id;      // comes back in its completion
  Kind kind;        //
  bool signalled;   // tells of its success too, and by that of all before it
  bool fence;       // begins when all READs and atomics before it are complete
  bool in_place;    // the bytes at `local` are taken during the call; else by the NIC, with lkey
  uint32_t rkey;    //
  uint64_t remote;  //
  uint64_t local;   // where bytes come from or go to
  uint32_t lkey;    //
  uint32_t bytes;   // 0: no memory is touched, here or there
  uint64_t swap_or_add;  // of atomics, which are on 8 bytes
  uint64_t compare;      //
};

/// The end of one request. `syndrome` is 0, or what a NIC would say that kernels drive.
struct SendCompletion {
  uint64_t id;
  uint8_t syndrome;
  uint8_t vendor_syndrome;
};

/// SendCompletion::syndrome of what verbs says.
uint8_t syndrome_of(ibv_wc_status status);

/// A reliable connection with a send queue, its completion queue, and no receive queue to speak of.
class VerbsQueue {
 public:
  static constexpr uint32_t kInlineBytes = 32;  // of one request
  static constexpr size_t kBatch = 32;          // requests of one post(), completions of one poll()

  /// Makes a queue in reset state, for up to `depth` requests at a time or as many as the NIC can.
  /// Throws kSystem.
  VerbsQueue(const Device& device, const ProtectionDomain& domain, uint32_t depth);

  uint32_t number() const { return qp_->qp_num; }
  /// Requests that may be posted and not yet known to be complete.
  uint32_t capacity() const { return capacity_; }

  /// Reset to ready to send. `psn` is that of the first packet sent.
  void connect(const RemoteQueue& remote, uint32_t psn);
  /// What is posted is flushed. Throws nothing: a queue that cannot even be stopped is broken.
  void to_error();
  /// Works from any state. Completions that were not polled are dropped.
  void to_reset();
  QueueState state() const;

  /// Posts up to kBatch requests in order and answers how many were taken. If not all were, `error`
  /// is the errno of the first that was not; ENOMEM says only that there is no room now.
  size_t post(std::span<const SendRequest> requests, int* error);

  /// Takes up to kBatch completions, oldest first. Throws nothing; a CQ that cannot be polled
  /// answers as an empty one.
  size_t poll(std::span<SendCompletion> completions);

 private:
  void modify(ibv_qp_attr& attributes, int mask, const char* to) const;

  const Device& device_;
  QueuePairSettings settings_;
  uint32_t capacity_;
  OwnedObject<ibv_cq, int> cq_;
  OwnedObject<ibv_qp, int> qp_;
};

}  // namespace peal::nic
