// SPDX-License-Identifier: Apache-2.0
//
// Queues that verbs calls create: completion queues, shared receive queues, queue pairs.
//
// They own their memory (receive queue, send queue, doorbell record in one block) where DEVX
// objects use the caller's umems. A client may drive them through that memory (mlx5dv_init_obj) or
// by ibv_post_send, ibv_post_recv and ibv_poll_cq (verbs_post.cc, verbs_poll.cc), not by both.
//
// Locks: the control lock (guard.h), then a CQ's, then a send or receive queue's; posting and
// polling take only their own.
#pragma once

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <atomic>
#include <deque>
#include <memory>

#include "softnic/abi/context.h"
#include "softnic/abi/memory.h"
#include "softnic/abi/send_queue.h"
#include "softnic/abi/spin_lock.h"

namespace peal::softnic::abi {

class CompletionChannel : public Object, public ibv_comp_channel {
 public:
  CompletionChannel() : Object(Kind::kChannel), ibv_comp_channel{} {}
  FileDescriptor descriptor;
};

class VerbsCq : public CompletionQueue, public ibv_cq {
 public:
  explicit VerbsCq(std::shared_ptr<Nic> device);
  ~VerbsCq() override;

  Buffer memory;
  Use channel_use;
  SpinLock lock;             // of what follows
  uint64_t consumed = 0;     // CQEs taken by ibv_poll_cq
  std::deque<ibv_wc> kept;   // taken when a queue pair was reset or destroyed; older than any CQE
  uint32_t empty_polls = 0;  // in a row
  std::byte* uar_register = nullptr;  // mlx5dv_init_obj@MLX5_1.0 hands out its address
};

class VerbsSrq : public Object, public ibv_srq {
 public:
  VerbsSrq();
  ~VerbsSrq() override;

  Buffer memory;
  Use domain;
  uint32_t entries = 0;
  uint32_t stride = 0;
  ibv_srq_attr attributes = {};
};

class VerbsQueuePair;

/// What ibv_modify_qp and the others find at an ibv_qp.
class VerbsQp : public ibv_qp {
 public:
  VerbsQp();
  virtual ~VerbsQp();
  virtual Object& object() = 0;
  /// Null for a DC target, which has no queues.
  virtual VerbsQueuePair* queue_pair() { return nullptr; }
  virtual void modify(const ibv_qp_attr& attr, int mask) = 0;
  virtual ibv_qp_attr query() = 0;
  /// Fills the mlx5dv view; a DC target has none.
  virtual void describe(mlx5dv_qp* out) = 0;

  /// The handle's state; posting reads it while another thread may change it.
  ibv_qp_state state_seen() { return std::atomic_ref(state).load(std::memory_order_relaxed); }
  void set_state(ibv_qp_state now) { std::atomic_ref(state).store(now, std::memory_order_relaxed); }

  ibv_qp_init_attr created_with = {};
  uint32_t unacknowledged_events = 0;
};

/// Reliable connection or DC initiator.
class VerbsQueuePair : public QueuePair, public VerbsQp {
 public:
  using QueuePair::QueuePair;
  Refusal retire() override;
  Object& object() override { return *this; }
  VerbsQueuePair* queue_pair() override { return this; }
  void modify(const ibv_qp_attr& attr, int mask) override;
  ibv_qp_attr query() override;
  void describe(mlx5dv_qp* out) override;

  /// 0, or the errno of posting to the send queue now.
  int require_sending();
  /// fence | completion | solicited of the control segment, from ibv_send_flags.
  uint32_t modes_of(unsigned flags) const;

  /// Forgets what was posted and not polled, its completions included.
  void forget_requests();

  Buffer memory;
  VerbsSendQueue sent;
  VerbsReceiveQueue received;
  uint64_t dc_access_key = 0;
};

/// DC target: exists at the NIC from RTR on, when qp_num becomes its DCTN.
class VerbsDcTarget : public Object, public VerbsQp {
 public:
  explicit VerbsDcTarget(std::shared_ptr<Nic> device)
      : Object(Kind::kDctQp), nic(std::move(device)) {}
  Refusal retire() override { return dctn == 0 ? Refusal{} : nic->destroy_dc_target(dctn); }
  Object& object() override { return *this; }
  void modify(const ibv_qp_attr& attr, int mask) override;
  ibv_qp_attr query() override;
  void describe(mlx5dv_qp* out) override;

  std::shared_ptr<Nic> nic;
  DcTargetConfig config;
  ibv_qp_attr attributes = {};
  uint32_t dctn = 0;
  Use domain, receive_cq, shared_receive_queue;
};

class AddressHandle : public Object, public ibv_ah {
 public:
  AddressHandle() : Object(Kind::kAh), ibv_ah{} {}
  mlx5_wqe_av vector = {};
  Use domain;
};

inline VerbsQp& verbs_qp(ibv_qp* qp) { return *static_cast<VerbsQp*>(qp); }

}  // namespace peal::softnic::abi
