// SPDX-License-Identifier: Apache-2.0
//
// Making a context, which all PEs do together: agree on what and in which slot, within the limits;
// then queues, fields, and the tables.
#include <algorithm>
#include <bit>
#include <vector>

#include "host/base/error.h"
#include "host/runtime_state.h"

namespace peal {
namespace {

// What a PE would make a context of, and the context slots it still uses.
struct ContextOffer {
  uint64_t taken;
  uint64_t made;
  uint32_t queues;
  uint32_t depth;
  bool shared;  // by all lanes of the GPU
  bool fences_too_near;
  QueuePlan plan;
};

uint64_t nanoseconds(std::chrono::microseconds t) {
  return static_cast<uint64_t>(std::chrono::nanoseconds(t).count());
}

}  // namespace

// All queues there are, and those of a context more.
QueuePlan Runtime::State::plan_with(const QueueOptions& queues) const {
  QueuePlan plan;
  if (!rails) return plan;
  plan.set_nics(*rails);
  plan.allowed_bytes = config.queue_memory;
  plan.add(queues, bootstrap->size());
  const std::lock_guard lock(contexts_mutex);
  for (const auto& weak : contexts) {
    const auto context = weak.lock();
    if (context == nullptr) continue;
    plan.add({.queues_per_peer = context->queues()->per_peer(),
              .depth = context->queues()->depth(),
              .timeout_ns = 0,
              .stop = nullptr,
              .alarm = nullptr,
              .requests = nullptr,
              .rails = context->queues()->rails()},
             bootstrap->size());
  }
  return plan;
}

// A fence of GPU scope was asked for, and does not reach whoever rings or reads.
bool Runtime::State::fences_too_near() const {
  if (!rails || config.fence != FenceKind::kGpu) return false;
  return !gpu || doorbells.empty() || std::ranges::any_of(doorbells, &Doorbell::assisted);
}

// Compares the options of all PEs; answers the first slot whose context, if it had one, is gone on
// every PE: nobody can still write its flags.
Runtime::State::Slot Runtime::State::agree_on_context(const QueueOptions& queues, Reach reach) {
  static_assert(kMaxContexts == 64, "one bit a slot");
  if (linker) linker->let_go();
  ContextOffer mine{0,
                    contexts_made,
                    queues.queues_per_peer,
                    queues.depth,
                    reach == Reach::kGpu,
                    fences_too_near(),
                    plan_with(queues)};
  {
    const std::lock_guard lock(contexts_mutex);
    for (uint32_t slot = 0; slot < kMaxContexts; ++slot) {
      if (!contexts[slot].expired()) mine.taken |= uint64_t{1} << slot;
    }
  }
  const std::vector<ContextOffer> all = gather(*bootstrap, mine);
  uint64_t taken = 0;
  std::vector<QueuePlan> plans;
  for (size_t pe = 0; pe < all.size(); ++pe) {
    taken |= all[pe].taken;
    contexts_made = std::max(contexts_made, all[pe].made);
    plans.push_back(all[pe].plan);
    if (all[pe].shared != all[0].shared) {
      fail(
          ErrorCode::kInvalidArgument,
          "make_context: PE {} makes a context that is shared by all lanes of its GPU, or not, and "
          "PE 0 the other kind: all must make the same",
          pe);
    }
    if (all[pe].fences_too_near) {
      fail(ErrorCode::kUnsupported,
           "PEAL_FENCE=gpu, but not every queue of PE {} is in the memory of a GPU whose kernels "
           "ring the NIC themselves; PEAL_FENCE=auto fences as far as needed",
           pe);
    }
    if (all[pe].queues == all[0].queues && all[pe].depth == all[0].depth) continue;
    fail(
        ErrorCode::kInvalidArgument,
        "make_context: PE {} asks for {} queues of depth {}, PE 0 for {} of {}: all must ask alike",
        pe, all[pe].queues, all[pe].depth, all[0].queues, all[0].depth);
  }
  if (~taken == 0) {
    fail(ErrorCode::kInvalidArgument,
         "make_context: {} contexts exist already, which is the limit; drop one on every PE first",
         kMaxContexts);
  }
  queues.check();  // also where there are none: a program is right or wrong on every machine
  if (config.info && rails && bootstrap->rank() == 0) {
    log.print("runtime", describe(mine.plan, queues, bootstrap->size()));
  }
  check_plans(plans, bootstrap->places());
  return {static_cast<uint32_t>(std::countr_one(taken)), ++contexts_made};
}

QueueOptions Runtime::State::queue_options(const ContextOptions& options, Reach reach) const {
  return {.queues_per_peer = options.queues_per_peer != 0 ? options.queues_per_peer
                                                          : static_cast<uint32_t>(config.queues),
          .depth = options.depth != 0 ? options.depth : static_cast<uint32_t>(config.queue_depth),
          .timeout_ns = nanoseconds(options.timeout.count() < 0 ? config.timeout : options.timeout),
          .stop = nullptr,
          .alarm = nullptr,
          .requests = nullptr,
          // Atomics of all blocks meet on queues of rail 0, which owned queues must not be shared
          // for.
          .rails = rails && reach == Reach::kGpu ? rails->count() : 1,
          .tested = config.self_test,
          .fence = config.fence};
}

// Connected and proven as far as they are to be from the start. Null where there is no NIC.
std::unique_ptr<Queues> Runtime::State::make_queues(const QueueOptions& options, Reach reach) {
  if (!rails) return nullptr;
  const Carrier carrier{doorbells.empty() ? nullptr : &doorbells, &proxies};
  // Who owns a queue does not look at what the host changes: it finds all connected.
  const FirstLinks first(reach == Reach::kGpu ? config.connect : ConnectKind::kEager,
                         bootstrap->places(), bootstrap->masked_pes());
  auto queues = std::make_unique<Queues>(*rails, carrier, *bootstrap, first, options);
  if (config.self_test) prove(*queues, queues->connected());
  queues->open_connected();
  return queues;
}

// What kernels find in a context, but for its queues.
ContextFields Runtime::State::context_fields(uint32_t slot, const QueueOptions& queues) {
  ContextFields fields = tables.fields();
  fields.pe = bootstrap->rank();
  fields.n_pes = bootstrap->size();
  fields.sync_rounds = rounds();
  fields.rails = queues.rails;
  fields.settle = rails && (rails->count() > 1 || reachable.must_settle()) ? 1 : 0;
  const bool keys_relax = rails && rails->payload() == nic::Ordering::kRelaxed;
  fields.relaxed = rails && (keys_relax || !rails->signal_ops().in_order) ? 1 : 0;
  fields.sets_by_swap = rails && rails->signal_ops().atomic ? 1 : 0;
  fields.stop = queues.stop;
  fields.sync_flags = sync_flags + slot * flag_words();
  fields.timeout_ns = queues.timeout_ns;
  return fields;
}

std::shared_ptr<ContextOwner> Runtime::State::create_context(const ContextOptions& options,
                                                             Reach reach) {
  QueueOptions queues = queue_options(options, reach);
  const auto [slot, serial] = agree_on_context(queues, reach);
  words[slot].clear();
  queues.stop = &words[slot].stop;
  queues.alarm = &words[slot].alarm;
  queues.requests = requests(slot);
  std::fill_n(queues.requests, bootstrap->size(), 0u);
  const ContextFields fields = context_fields(slot, queues);
  heap.zero(fields.sync_flags, flag_bytes());  // of the context that had the slot before
  tables.reset_state(slot, queues.alarm);
  auto owner = std::make_shared<ContextOwner>(make_queues(queues, reach), tables, words[slot],
                                              ContextOwner::Name{slot, serial}, fields);
  leave_masked_out(*owner);
  {
    const std::lock_guard lock(contexts_mutex);
    contexts[slot] = owner;
  }
  if (linker) linker->expect(slot, owner->queues()->links_to_come());
  // No peer's kernel sets a flag before it is zero, or wants a link to a context that is not there.
  bootstrap->barrier();
  return owner;
}

}  // namespace peal
