// SPDX-License-Identifier: Apache-2.0
//
// Completion queues, address handles; the memory of all queues that verbs calls create.
#include "softnic/abi/core/verbs_queues.h"

#include <sys/mman.h>

#include <bit>
#include <cstdlib>
#include <string_view>

#include "device/mlx5/layout.h"

namespace peal::softnic::abi {
namespace {

const char* variable_of(uint64_t resource_type) {
  switch (resource_type) {
    case MLX5DV_RES_TYPE_QP:
      return "MLX_QP_ALLOC_TYPE";
    case MLX5DV_RES_TYPE_SRQ:
      return "MLX_SRQ_ALLOC_TYPE";
    default:
      return "MLX_CQ_ALLOC_TYPE";
  }
}

Buffer huge_pages(size_t bytes) {
  constexpr int kHuge2Mib = 21 << 26;  // MAP_HUGE_2MB, which older C libraries lack
  constexpr size_t kPage = size_t{2} << 20;
  const size_t whole = (bytes + kPage - 1) / kPage * kPage;
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | kHuge2Mib;
  void* memory = mmap(nullptr, whole, PROT_READ | PROT_WRITE, kFlags, -1, 0);
  if (memory == MAP_FAILED) return {};
  return Buffer(static_cast<std::byte*>(memory), [whole](std::byte* p) { munmap(p, whole); });
}

/// From where libmlx5's variable says. HUGE wants huge pages, PREFER_HUGE takes others where there
/// are none; anything else is for libmlx5 to tell apart. Throws ENOMEM.
Buffer default_queue_memory(size_t bytes, uint64_t resource_type) {
  const char* const set = std::getenv(variable_of(resource_type));
  const std::string_view from = set == nullptr ? "" : set;
  const bool only = from == "HUGE";
  Buffer huge = only || from == "PREFER_HUGE" ? huge_pages(bytes) : Buffer();
  if (only && huge == nullptr) refuse(ENOMEM);
  return huge != nullptr ? std::move(huge) : allocate_buffer(bytes);
}

}  // namespace

Buffer allocate_queue(Pd* pd, size_t bytes, uint64_t resource_type) {
  constexpr size_t kAlignment = 4096;
  const auto attributes = pd == nullptr ? ibv_parent_domain_init_attr{} : pd->attributes;
  if (attributes.alloc == nullptr) return default_queue_memory(bytes, resource_type);
  void* memory = attributes.alloc(pd, attributes.pd_context, bytes, kAlignment, resource_type);
  if (memory == IBV_ALLOCATOR_USE_DEFAULT) return default_queue_memory(bytes, resource_type);
  if (memory == nullptr) refuse(ENOMEM);
  std::memset(memory, 0, bytes);
  return Buffer(static_cast<std::byte*>(memory), [pd, attributes, resource_type](std::byte* p) {
    attributes.free(pd, attributes.pd_context, p, resource_type);
  });
}

VerbsCq::~VerbsCq() {
  if (channel != nullptr) {
    static_cast<CompletionChannel*>(channel)->waiting.forget(
        [this](const VerbsCq* each) { return each == this; });
    --channel->refcnt;
  }
}

namespace {

/// Bytes of an entry. Programs set libmlx5's variable for its sake, DPDK for one.
uint32_t entry_bytes(uint32_t asked) {
  const char* const set = asked == 0 ? std::getenv("MLX5_CQE_SIZE") : nullptr;
  if (set != nullptr) asked = static_cast<uint32_t>(std::atoi(set));
  if (asked == 0 && set == nullptr) return 64;
  if (asked != 64 && asked != 128) refuse(EINVAL);
  return asked;
}

/// Completion queue of at least the entries asked for, its doorbell record after its CQEs.
void make_cq(VerbsCq& cq, VerbsContext& context, const CqRequest& request) {
  const uint32_t entries = request.entries;
  if (entries < 1 || entries > (1u << kMaxLogCqEntries) - 1) refuse(EINVAL);
  // One entry more than asked for, so that a full queue differs from an empty one.
  size_t count = std::bit_ceil(size_t{entries} + 1);
  const uint32_t stride = entry_bytes(request.cqe_bytes);
  size_t bytes = count * stride;
  const size_t needed = bytes + sizeof(mlx5::DoorbellRecord);
  if (request.domain != nullptr) cq.use(*request.domain);
  cq.memory = allocate_queue(request.domain, needed, MLX5DV_RES_TYPE_CQ);
  // An entry of 128 bytes ends with the 64 that have the owner bit, and begins with as many.
  auto* entry = reinterpret_cast<mlx5::Cqe*>(cq.memory.get());
  constexpr uint32_t kInvalid = uint32_t{static_cast<uint8_t>(mlx5::CqeOpcode::kInvalid)} << 4;
  for (size_t i = 0; i < bytes / sizeof *entry; ++i) entry[i].counter_sig_op_own = Be32(kInvalid);
  Uar& uar = context.verbs_uar();
  cq.config.buffer = cq.memory.get();
  cq.config.doorbell = cq.memory.get() + bytes;
  cq.config.cqe_bytes = stride;
  cq.config.log_entries = static_cast<uint32_t>(std::countr_zero(count));
  cq.config.uar_page = uar.number;
  cq.config.ignore_overrun = request.ignore_overrun;
  cq.use(uar);
  cq.uar_register = uar.page.get();
  CompletionQueueConfig told = cq.config;
  // An engine on a GPU does not reach it: a number for SRQs and DC targets to name.
  if (context.nic().on_gpu()) told.buffer = told.doorbell = nullptr;
  cq.number = require(context.nic().create_cq(told));
  cq.context = context.handle();
  cq.handle = cq.number;
  cq.cqe = static_cast<int>(count) - 1;
}

}  // namespace

VerbsCq* create_completion_queue(ibv_context* handle, std::unique_ptr<VerbsCq> cq,
                                 const CqRequest& request) {
  VerbsContext& context = VerbsContext::of(handle);
  ibv_comp_channel* channel = request.channel;
  if (request.vector >= static_cast<uint32_t>(handle->num_comp_vectors)) refuse(EINVAL);
  if (channel != nullptr && channel->context != handle) refuse(EINVAL);
  make_cq(*cq, context, request);
  cq->cq_context = request.cq_context;
  if (channel != nullptr) {
    cq->use(*static_cast<CompletionChannel*>(channel));
    cq->channel = channel;
    ++channel->refcnt;
  }
  return context.adopt(std::move(cq));
}

extern "C" {

ibv_cq* ibv_create_cq(ibv_context* handle, int entries, void* cq_context, ibv_comp_channel* channel,
                      int vector) {
  return answer_pointer([&] {
    if (entries < 1 || vector < 0) refuse(EINVAL);
    const CqRequest request = {.entries = static_cast<uint32_t>(entries),
                               .cq_context = cq_context,
                               .channel = channel,
                               .vector = static_cast<uint32_t>(vector)};
    auto fresh = std::make_unique<VerbsCq>(VerbsContext::of(handle));
    return create_completion_queue(handle, std::move(fresh), request)->plain();
  });
}

int ibv_destroy_cq(ibv_cq* handle) {
  VerbsCq& cq = verbs_cq(handle);
  return destroy_with_events(handle->context, cq, cq, handle);
}

ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attr) {
  return answer_pointer([&]() -> ibv_ah* {
    VerbsContext& context = VerbsContext::of(pd->context);
    const AddressPath path = path_of(context.nic(), *attr);
    auto ah = std::make_unique<AddressHandle>(context);
    ah->vector = address_vector(path, context.nic().device().ethernet, *attr);
    ah->use(*static_cast<Pd*>(pd));
    ah->number = ah->handle = context.next_number();
    ah->context = pd->context;
    ah->pd = pd;
    return context.adopt(std::move(ah));
  });
}

int ibv_destroy_ah(ibv_ah* ah) { return destroy_handle<AddressHandle>(ah); }

}  // extern "C"
}  // namespace peal::softnic::abi
