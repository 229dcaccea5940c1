// SPDX-License-Identifier: Apache-2.0
//
// Shared receive queues: made, changed, posted to and destroyed.
//
//   one block of memory:  entries (link | scatter list) | doorbell record
#include <infiniband/mlx5dv.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <mutex>
#include <vector>

#include "softnic/abi/core/compose.h"
#include "softnic/abi/extras/extras.h"
#include "softnic/engine/shared_receive.h"
#include "softnic/engine/word.h"

namespace peal::softnic::abi {

static_assert(sizeof(LinkSegment) == sizeof(mlx5_wqe_srq_next_seg));
static_assert(offsetof(LinkSegment, next) == offsetof(mlx5_wqe_srq_next_seg, next_wqe_index));
static_assert(offsetof(LinkSegment, signature) == offsetof(mlx5_wqe_srq_next_seg, signature));

namespace {

/// The memory of a shared receive queue as those who post see it: a list of all entries.
///
///   [NIC's next ... head) posted     [head ... tail] free, by their links     elsewhere: taken
///
/// finish() takes entries at the head; complete(), called by whoever polls, links them behind the
/// tail. The tail is never posted: the NIC does not read a link that is about to be written.
class VerbsSharedQueue {
 public:
  /// `ring` has room for 2 or more entries of `stride` bytes: a link and the scatter list.
  void open(std::byte* ring, uint32_t entries, uint32_t stride, mlx5::DoorbellRecord* doorbell) {
    ring_ = ring;
    stride_ = stride;
    doorbell_ = doorbell;
    entry_.resize(entries);
    tail_ = entries - 1;
    for (uint32_t i = 0; i < entries; ++i) link(i, (i + 1) & tail_);
  }

  std::mutex& lock() { return lock_; }
  uint32_t segments() const { return stride_ / mlx5::kSegmentBytes - 1; }
  /// The first free entry and the last.
  uint32_t head() const { return head_; }
  uint32_t tail() const { return tail_; }

  // ---- posting, under the lock

  bool full() const { return head_ == tail_; }
  /// Where the scatter list of the next entry goes.
  std::byte* slot() const { return at(head_) + sizeof(LinkSegment); }
  void finish(uint64_t wr_id) {
    entry_[head_] = {wr_id, true};
    head_ = following(head_);
    ++posted_;
  }
  void ring() { store<uint32_t>(&doorbell_->receive, Be32(posted_ & 0xffff).raw); }

  bool used() {
    const std::lock_guard hold(lock_);
    return posted_ != 0;
  }

  // ---- polling

  /// The name of entry `counter`, which is free from now on; 0 if it was not posted.
  uint64_t complete(uint16_t counter) {
    const std::lock_guard hold(lock_);
    if (counter >= entry_.size() || !entry_[counter].posted) return 0;
    entry_[counter].posted = false;
    link(tail_, counter);
    tail_ = counter;
    return entry_[counter].wr_id;
  }

 private:
  struct Entry {
    uint64_t wr_id = 0;
    bool posted = false;  // and not completed
  };
  std::byte* at(uint32_t index) const { return ring_ + size_t{index} * stride_; }
  void link(uint32_t index, uint32_t next) {
    auto* segment = reinterpret_cast<LinkSegment*>(at(index));
    segment->next[0] = static_cast<uint8_t>(next >> 8);
    segment->next[1] = static_cast<uint8_t>(next);
  }
  uint32_t following(uint32_t index) const {
    const auto* segment = reinterpret_cast<const LinkSegment*>(at(index));
    const uint32_t next = uint32_t{segment->next[0]} << 8 | segment->next[1];
    return next & static_cast<uint32_t>(entry_.size() - 1);  // whatever the client made of it
  }

  std::mutex lock_;
  std::byte* ring_ = nullptr;
  uint32_t stride_ = 0;
  mlx5::DoorbellRecord* doorbell_ = nullptr;
  std::vector<Entry> entry_;
  uint32_t head_ = 0;
  uint32_t tail_ = 0;
  uint32_t posted_ = 0;
};

class VerbsSrq : public SharedReceives {
 public:
  using SharedReceives::SharedReceives;
  uint64_t complete(uint16_t counter) override { return queue.complete(counter); }
  bool used() override { return queue.used(); }
  uint32_t max_wr() const { return (1u << config.log_entries) - 1; }

  SharedReceiveConfig config;
  Buffer memory;
  VerbsSharedQueue queue;
};

constexpr uint32_t kMaxSge = 31;

/// Sizes the queue and allocates it.
void place_queue(VerbsSrq& srq, Pd& domain, const ibv_srq_attr& wanted) {
  if (wanted.max_wr > (1u << kMaxLogReceiveEntries)) refuse(EINVAL);
  if (wanted.max_sge > kMaxSge) refuse(EINVAL);
  // One entry more than asked for: the last of the list is never posted.
  const uint32_t entries = std::bit_ceil(std::max(wanted.max_wr, 1u) + 1);
  const uint32_t stride = mlx5::kSegmentBytes * std::bit_ceil(1 + std::max(wanted.max_sge, 1u));
  const size_t bytes = size_t{entries} * stride;
  srq.memory = allocate_queue(&domain, bytes + sizeof(mlx5::DoorbellRecord), MLX5DV_RES_TYPE_SRQ);
  auto* record = reinterpret_cast<mlx5::DoorbellRecord*>(srq.memory.get() + bytes);
  srq.queue.open(srq.memory.get(), entries, stride, record);
  srq.config = {.pd = domain.pdn,
                .buffer = srq.memory.get(),
                .log_entries = static_cast<uint32_t>(std::countr_zero(entries)),
                .log_stride = static_cast<uint32_t>(std::countr_zero(stride / mlx5::kSegmentBytes)),
                .doorbell = record};
}

}  // namespace

void describe_srq(ibv_srq* handle, mlx5dv_srq* out) {
  auto& srq = *static_cast<VerbsSrq*>(handle);
  uint64_t asked = out->comp_mask;
  *out = {};
  out->buf = srq.config.buffer;
  out->dbrec = reinterpret_cast<__be32*>(srq.config.doorbell);
  out->stride = mlx5::kSegmentBytes << srq.config.log_stride;
  const std::lock_guard hold(srq.queue.lock());
  out->head = srq.queue.head();
  out->tail = srq.queue.tail();
  if ((asked & MLX5DV_SRQ_MASK_SRQN) != 0) {
    out->srqn = srq.number;
    out->comp_mask = MLX5DV_SRQ_MASK_SRQN;
  }
}

int get_srq_num_slot(ibv_srq* srq, uint32_t* number) {
  return answer_error([&] { *number = static_cast<VerbsSrq*>(srq)->number; });
}

// An engine on a GPU does not reach the entries, which are the host's.
int post_shared_receive_slot(ibv_srq* handle, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  auto& srq = *static_cast<VerbsSrq*>(handle);
  if (srq.nic().on_gpu()) return refused(EOPNOTSUPP, wr, bad);
  return post_list(srq.queue, wr, bad,
                   [&](const ibv_recv_wr& each) { return post_receive(srq.queue, each); });
}

extern "C" {

ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* init) {
  return answer_pointer([&]() -> ibv_srq* {
    auto& domain = *static_cast<Pd*>(pd);
    VerbsContext& context = VerbsContext::of(pd->context);
    auto srq = std::make_unique<VerbsSrq>(context);
    place_queue(*srq, domain, init->attr);
    srq->use(domain);
    srq->number = srq->handle = require(context.nic().create_srq(srq->config));
    srq->context = pd->context;
    srq->srq_context = init->srq_context;
    srq->pd = pd;
    init->attr.max_wr = srq->max_wr();
    init->attr.max_sge = srq->queue.segments();
    return context.adopt(std::move(srq));
  });
}

// A ConnectX cannot resize one either, and says so in its capabilities.
int ibv_modify_srq(ibv_srq* handle, ibv_srq_attr* attr, int mask) {
  return answer_error([&] {
    if ((mask & ~int{IBV_SRQ_LIMIT}) != 0) refuse(EINVAL);
    auto& srq = *static_cast<VerbsSrq*>(handle);
    if (mask != 0) require(srq.nic().arm_srq(srq.number, attr->srq_limit));
  });
}

int ibv_query_srq(ibv_srq* handle, ibv_srq_attr* attr) {
  return answer_error([&] {
    auto& srq = *static_cast<VerbsSrq*>(handle);
    attr->max_wr = srq.max_wr();
    attr->max_sge = srq.queue.segments();
    attr->srq_limit = srq.nic().srq_limit(srq.number);
  });
}

int ibv_destroy_srq(ibv_srq* handle) {
  auto& srq = *static_cast<SharedReceives*>(handle);
  return destroy_with_events(srq.context, srq, srq, handle);
}

}  // extern "C"
}  // namespace peal::softnic::abi
