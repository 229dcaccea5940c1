// SPDX-License-Identifier: Apache-2.0
//
// Queues that verbs calls create: completion queues and queue pairs.
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
#include <pthread.h>
#include <time.h>

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>

#include "softnic/abi/core/context.h"
#include "softnic/abi/core/memory.h"
#include "softnic/abi/core/send_queue.h"

namespace peal::softnic::abi {

// ---- events of an object: who took one acknowledges it, and destroying the object waits for that.
// rdma-core waits for ever. Here the wait ends after some seconds with EBUSY: a program that
// forgets to acknowledge hears of it instead of hanging.

inline constexpr time_t kAcknowledgePatience = 2;  // seconds

/// How many events of one kind were taken, and how many of these the client's structure says are
/// acknowledged.
struct EventCount {
  uint32_t& acknowledged;
  uint32_t taken = 0;
};

/// The mutex and the condition in the client's structure of an object, and its async events, which
/// are counted under that mutex.
class Reporter {
 public:
  Reporter(pthread_mutex_t& mutex, pthread_cond_t& cond, uint32_t& acknowledged)
      : async{acknowledged}, mutex_(mutex), cond_(cond) {
    pthread_mutex_init(&mutex_, nullptr);
    pthread_cond_init(&cond_, nullptr);
  }
  virtual ~Reporter() {
    pthread_cond_destroy(&cond_);
    pthread_mutex_destroy(&mutex_);
  }
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

  /// Counts an event that is being taken.
  void report(EventCount& events) {
    pthread_mutex_lock(&mutex_);
    ++events.taken;
    pthread_mutex_unlock(&mutex_);
  }

  /// Counts `count` acknowledgements. False, and counts none, when fewer events wait for one.
  bool acknowledge(EventCount& events, uint32_t count) {
    pthread_mutex_lock(&mutex_);
    const bool fits = events.taken - events.acknowledged >= count;
    if (fits) events.acknowledged += count;
    pthread_cond_broadcast(&cond_);
    pthread_mutex_unlock(&mutex_);
    return fits;
  }

  /// Waits until all events are acknowledged. False when patience ran out. Not to be called under
  /// the control lock: who acknowledges may need it.
  bool wait_acknowledged() {
    timespec until = {};
    clock_gettime(CLOCK_REALTIME, &until);  // what the condition's attributes say
    until.tv_sec += kAcknowledgePatience;
    pthread_mutex_lock(&mutex_);
    int error = 0;
    while (!all_acknowledged() && error == 0)
      error = pthread_cond_timedwait(&cond_, &mutex_, &until);
    const bool answer = all_acknowledged();
    pthread_mutex_unlock(&mutex_);
    return answer;
  }

  EventCount async;  // taken by ibv_get_async_event

 protected:
  /// Asked under the mutex.
  virtual bool all_acknowledged() const { return async.taken == async.acknowledged; }

 private:
  pthread_mutex_t& mutex_;
  pthread_cond_t& cond_;
};

// ---- completion queues

class VerbsCq;

/// See events.cc.
class CompletionChannel : public Object, public ibv_comp_channel {
 public:
  explicit CompletionChannel(VerbsContext& of)
      : Object(ObjectKind::kChannel, of), ibv_comp_channel{} {}
  WakingQueue<VerbsCq*> waiting;  // queues with an event to be taken
};

/// A completion as ibv_poll_cq reports it, and when it was.
struct PolledCompletion {
  ibv_wc wc;
  uint64_t timestamp;
};

class VerbsCq : public CqObject, public ibv_cq_ex, public CompletionListener, public Reporter {
 public:
  explicit VerbsCq(VerbsContext& of)
      : CqObject(of), ibv_cq_ex{}, Reporter(mutex, cond, async_events_completed) {}
  ~VerbsCq() override;
  void completed() override { static_cast<CompletionChannel*>(channel)->waiting.push(this); }
  ibv_cq* plain() { return reinterpret_cast<ibv_cq*>(static_cast<ibv_cq_ex*>(this)); }

  /// 1 and the next completion, 0, or -1 for one of a queue pair that DEVX made, which is gone.
  /// Under the lock.
  int take(PolledCompletion* next);
  /// Tells the NIC what has been taken. Under the lock.
  void publish() {
    store<uint32_t>(config.doorbell, Be32(static_cast<uint32_t>(consumed) & 0xffffff).raw);
  }

  Buffer memory;
  std::mutex lock;        // of what follows
  uint64_t consumed = 0;  // CQEs taken by ibv_poll_cq
  std::deque<PolledCompletion>
      kept;                  // taken when a queue pair was reset or destroyed; older than any CQE
  bool nameless = false;     // one was met after others, to be told by the next call
  uint32_t empty_polls = 0;  // in a row
  EventCount completions{comp_events_completed};  // taken from the channel
  std::byte* uar_register = nullptr;              // mlx5dv_init_obj@MLX5_1.0 hands out its address

 protected:
  bool all_acknowledged() const override {
    return Reporter::all_acknowledged() && completions.taken == completions.acknowledged;
  }
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
/// Makes `cq`, which is fresh, that queue.
VerbsCq* create_completion_queue(ibv_context* handle, std::unique_ptr<VerbsCq> cq,
                                 const CqRequest& request);

/// A shared receive queue as the queue pairs see it that take their receives from it.
class SharedReceives : public NicObject<ObjectKind::kSrq, &SoftwareNic::destroy_srq>,
                       public ibv_srq,
                       public Reporter {
 public:
  explicit SharedReceives(VerbsContext& of)
      : NicObject(of), ibv_srq{}, Reporter(mutex, cond, events_completed) {}

  /// The name of entry `counter`, which is free from now on; 0 if it was not posted.
  virtual uint64_t complete(uint16_t counter) = 0;
  /// True once something was posted.
  virtual bool used() = 0;
};

// ---- queue pairs

class VerbsQueuePair;

/// What ibv_modify_qp and the others find at an ibv_qp.
class VerbsQp : public ibv_qp_ex, public Reporter {
 public:
  VerbsQp() : ibv_qp_ex{}, Reporter(qp_base.mutex, qp_base.cond, qp_base.events_completed) {}
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
  SharedReceives* shared = nullptr;  // that its receives come from
};

/// Takes the completions of a queue pair that leaves, or starts anew, out of the CQ; the entries of
/// a shared receive queue that they speak of are free.
void drop_completions(VerbsCq& cq, VerbsQp& leaving);

/// Reliable connection, datagrams, or DC initiator.
class VerbsQueuePair : public QpObject, public VerbsQp {
 public:
  using QpObject::QpObject;
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
};

/// Makes `fresh` a queue pair as the caller asks for it, whose capacity is told in `init`.
VerbsQueuePair* create_queue_pair(std::unique_ptr<VerbsQueuePair> fresh, ibv_pd* pd,
                                  ibv_qp_init_attr* init, Service service);
/// RC or UD. Throws EOPNOTSUPP for others.
Service service_of(ibv_qp_type type);

// Steps in the making of any kind.

/// Throws EINVAL unless the queue is one of the domain's context.
VerbsCq& required_cq(ibv_pd* pd, ibv_cq* cq);
/// The SRQ may be of any protection domain: the keys in its entries are judged by its own.
SharedReceives& required_srq(ibv_pd* pd, ibv_srq* srq);
/// Fills in the caller's view.
void introduce(VerbsQp& qp, ibv_pd* pd, const ibv_qp_init_attr& init);

// Steps of ibv_modify_qp of any kind. They throw EINVAL.

inline constexpr int kInitRequired = IBV_QP_PKEY_INDEX | IBV_QP_PORT;
void check_identity(const PresentedDevice& device, const ibv_qp_attr& attr, int mask);
/// What a path says of this end, for who has the other in each request.
uint8_t source_gid_of(const SoftwareNic& nic, const ibv_ah_attr& address);
uint8_t limited(uint8_t value, uint8_t limit);

/// The path that the attributes describe. On Ethernet the peer's hardware address is looked up, as
/// the kernel does it: ETIMEDOUT when nobody has the GID. Throws EINVAL for what no NIC takes.
AddressPath path_of(const SoftwareNic& nic, const ibv_ah_attr& attr);
/// The attributes that describe the path.
ibv_ah_attr address_of(const AddressPath& path, bool ethernet);
/// As the NIC reads it in a WQE.
mlx5_wqe_av address_vector(const AddressPath& path, bool ethernet, const ibv_ah_attr& attr);

class AddressHandle : public Object, public ibv_ah {
 public:
  explicit AddressHandle(VerbsContext& of) : Object(ObjectKind::kAh, of), ibv_ah{} {}
  mlx5_wqe_av vector = {};
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
