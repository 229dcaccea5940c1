// SPDX-License-Identifier: Apache-2.0
//
// Queues that verbs calls create: completion queues, shared receive queues, queue pairs.
//
// They own their memory (receive queue, send queue, doorbell record in one block) where DEVX
// objects use the caller's umems. A client may drive them through that memory (mlx5dv_init_obj) or
// by ibv_post_send, ibv_post_recv and ibv_poll_cq (verbs_post.cc, verbs_poll.cc), not by both.
//
// Locks: the control lock (guard.h), then a CQ's, then a send, receive or shared queue's; posting
// and polling take only their own.
#pragma once

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "softnic/abi/context.h"
#include "softnic/abi/memory.h"
#include "softnic/abi/send_queue.h"
#include "softnic/abi/shared_queue.h"
#include "softnic/abi/spin_lock.h"
#include "softnic/abi/waking_queue.h"

namespace peal::softnic::abi {

class VerbsCq;

/// See verbs_channel.cc.
class CompletionChannel : public Object, public ibv_comp_channel {
 public:
  CompletionChannel() : Object(Kind::kChannel), ibv_comp_channel{} {}
  WakingQueue<VerbsCq*> waiting;  // queues with an event to be taken
};

/// A completion as ibv_poll_cq reports it, and when it was.
struct Completion {
  ibv_wc wc;
  uint64_t timestamp;
};

class VerbsCq final : public CompletionQueue, public ibv_cq_ex, public CompletionListener {
 public:
  explicit VerbsCq(std::shared_ptr<Nic> device);
  ~VerbsCq() override;
  void completed() override;
  ibv_cq* plain() { return reinterpret_cast<ibv_cq*>(static_cast<ibv_cq_ex*>(this)); }

  /// 1 and the next completion, 0, or -1 for one of a queue pair that DEVX made, which is gone.
  /// Under the lock.
  int take(Completion* next);
  /// Tells the NIC what has been taken. Under the lock.
  void publish();
  /// Offers ibv_start_poll and what follows it; ibv_create_cq_wc_flags.
  void offer_iterators(uint64_t fields);

  Buffer memory;
  Use channel_use, domain;
  SpinLock lock;          // of what follows
  uint64_t consumed = 0;  // CQEs taken by ibv_poll_cq
  std::deque<Completion>
      kept;                  // taken when a queue pair was reset or destroyed; older than any CQE
  bool nameless = false;     // one was met after others, to be told by the next call
  uint32_t empty_polls = 0;  // in a row
  uint32_t events_reported = 0;       // taken from the channel
  uint32_t async_reported = 0;        // taken by ibv_get_async_event
  Completion current = {};            // between ibv_start_poll and ibv_end_poll
  std::byte* uar_register = nullptr;  // mlx5dv_init_obj@MLX5_1.0 hands out its address
};

/// What a completion queue is created with.
struct CqRequest {
  uint32_t entries;
  void* cq_context;
  ibv_comp_channel* channel;  // or null
  uint32_t vector;
  bool ignore_overrun = false;
  uint32_t cqe_bytes = 0;  // 64 or 128; 0: by MLX5_CQE_SIZE, else 64
  Pd* domain = nullptr;    // a parent domain, whose allocator is asked first
};
VerbsCq* create_completion_queue(ibv_context* handle, const CqRequest& request);

class VerbsSrq : public NicObject, public ibv_srq {
 public:
  explicit VerbsSrq(std::shared_ptr<Nic> device);
  ~VerbsSrq() override;
  Refusal retire() override { return nic->destroy_srq(number); }
  uint32_t max_wr() const { return (1u << config.log_entries) - 1; }

  SharedReceiveConfig config;
  Buffer memory;
  Use domain;
  VerbsSharedQueue queue;
  uint32_t async_reported = 0;  // taken by ibv_get_async_event
};

class VerbsQueuePair;

/// What ibv_modify_qp and the others find at an ibv_qp.
class VerbsQp : public ibv_qp_ex {
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
  ibv_qp_state state_seen() {
    return std::atomic_ref(qp_base.state).load(std::memory_order_relaxed);
  }
  void set_state(ibv_qp_state now) {
    std::atomic_ref(qp_base.state).store(now, std::memory_order_relaxed);
  }

  ibv_qp_init_attr created_with = {};
  VerbsSrq* shared = nullptr;   // that its receives come from
  uint32_t async_reported = 0;  // taken by ibv_get_async_event
};

/// Takes the completions of a queue pair that leaves, or starts anew, out of the CQ; the entries of
/// a shared receive queue that they speak of are free.
void drop_completions(VerbsCq& cq, VerbsQp& leaving);

/// What ibv_wr_* put together since ibv_wr_start.
struct BuiltRequest {
  bool started = false;
  int error = EINVAL;  // of the first mistake; to build without ibv_wr_start is one
  VerbsSendQueue::Mark mark = {};
  std::optional<WqeWriter> wqe;  // that is not whole yet
  bool lacks_data = false;
  bool lacks_address = false;  // of a datagram
  SendHead head = {};
  uint64_t wr_id = 0;
};

/// Reliable connection, datagrams, or DC initiator.
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
  /// Makes this a queue pair for ibv_wr_*; ibv_qp_create_send_ops_flags.
  void offer_builders(uint64_t operations);

  VerbsSendQueue sent;
  BuiltRequest building;  // under the lock of `sent`
  uint64_t send_operations = 0;
  VerbsReceiveQueue received;
  uint64_t dc_access_key = 0;
};

/// DC target: exists at the NIC from RTR on, when qp_num becomes its DCTN.
class VerbsDcTarget : public NicObject, public VerbsQp {
 public:
  explicit VerbsDcTarget(std::shared_ptr<Nic> device)
      : NicObject(Kind::kDctQp, std::move(device)) {}
  Refusal retire() override;
  Object& object() override { return *this; }
  void modify(const ibv_qp_attr& attr, int mask) override;
  ibv_qp_attr query() override;
  void describe(mlx5dv_qp* out) override;

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

/// An ibv_qp is the first member of its ibv_qp_ex.
inline VerbsQp& verbs_qp(ibv_qp* qp) {
  return *static_cast<VerbsQp*>(reinterpret_cast<ibv_qp_ex*>(qp));
}
/// An ibv_cq_ex begins like an ibv_cq: libibverbs casts between them.
inline VerbsCq& verbs_cq(ibv_cq* cq) {
  return *static_cast<VerbsCq*>(reinterpret_cast<ibv_cq_ex*>(cq));
}

}  // namespace peal::softnic::abi
