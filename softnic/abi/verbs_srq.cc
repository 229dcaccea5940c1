// SPDX-License-Identifier: Apache-2.0
//
// Shared receive queues: made, changed and destroyed. Posting to them is in verbs_post.cc.
//
//   one block of memory:  entries (link | scatter list) | doorbell record
#include <infiniband/mlx5dv.h>

#include <algorithm>
#include <bit>
#include <cstddef>

#include "softnic/abi/acknowledged.h"
#include "softnic/abi/verbs_queues.h"

namespace peal::softnic::abi {

static_assert(sizeof(LinkSegment) == sizeof(mlx5_wqe_srq_next_seg));
static_assert(offsetof(LinkSegment, next) == offsetof(mlx5_wqe_srq_next_seg, next_wqe_index));
static_assert(offsetof(LinkSegment, signature) == offsetof(mlx5_wqe_srq_next_seg, signature));

VerbsSrq::VerbsSrq(std::shared_ptr<Nic> device)
    : NicObject(Kind::kSrq, std::move(device)), ibv_srq{} {
  pthread_mutex_init(&mutex, nullptr);
  pthread_cond_init(&cond, nullptr);
}

VerbsSrq::~VerbsSrq() {
  pthread_cond_destroy(&cond);
  pthread_mutex_destroy(&mutex);
}

int get_srq_num_slot(ibv_srq* srq, uint32_t* number) {
  return answer_error([&] { *number = static_cast<VerbsSrq*>(srq)->number; });
}

namespace {

constexpr uint32_t kMaxSge = 31;

/// Sizes the queue and allocates it.
void place_queue(VerbsSrq& srq, Pd& domain, const ibv_srq_attr& wanted) {
  if (wanted.max_wr > (1u << kMaxLogReceiveEntries)) refuse(EINVAL);
  if (wanted.max_sge > kMaxSge) refuse(EINVAL);
  // One entry more than asked for: the last of the list is never posted.
  const uint32_t entries = std::bit_ceil(std::max(wanted.max_wr, 1u) + 1);
  const uint32_t stride = mlx5::kSegmentBytes * std::bit_ceil(1 + std::max(wanted.max_sge, 1u));
  const size_t bytes = size_t{entries} * stride;
  srq.memory = allocate_queue(domain, bytes + sizeof(mlx5::DoorbellRecord), MLX5DV_RES_TYPE_SRQ);
  auto* record = reinterpret_cast<mlx5::DoorbellRecord*>(srq.memory.get() + bytes);
  srq.queue.open(srq.memory.get(), entries, stride, record);
  srq.config = {.pd = domain.pdn,
                .buffer = srq.memory.get(),
                .log_entries = static_cast<uint32_t>(std::countr_zero(entries)),
                .log_stride = static_cast<uint32_t>(std::countr_zero(stride / mlx5::kSegmentBytes)),
                .doorbell = record};
}

}  // namespace
}  // namespace peal::softnic::abi

using namespace peal::softnic;
using namespace peal::softnic::abi;

extern "C" {

ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* init) {
  return answer_pointer([&]() -> ibv_srq* {
    auto& domain = *static_cast<Pd*>(pd);
    Context& context = Context::of(pd->context);
    auto srq = std::make_unique<VerbsSrq>(context.shared_nic());
    place_queue(*srq, domain, init->attr);
    srq->domain = Use(domain);
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
    if (mask != 0) require(srq.nic->arm_srq(srq.number, attr->srq_limit));
  });
}

int ibv_query_srq(ibv_srq* handle, ibv_srq_attr* attr) {
  return answer_error([&] {
    auto& srq = *static_cast<VerbsSrq*>(handle);
    attr->max_wr = srq.max_wr();
    attr->max_sge = srq.queue.segments();
    attr->srq_limit = srq.nic->srq_limit(srq.number);
  });
}

int ibv_destroy_srq(ibv_srq* handle) {
  auto& srq = *static_cast<VerbsSrq*>(handle);
  const bool waited =
      wait_acknowledged(srq, [&] { return srq.events_completed == srq.async_reported; });
  return answer_error([&] {
    if (!waited) refuse(EBUSY);
    destroy_with_events(Context::of(srq.context), srq, handle);
  });
}

}  // extern "C"
