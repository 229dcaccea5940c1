// SPDX-License-Identifier: Apache-2.0
//
// Making a context: agree on what and in which slot, within the limits; queues, fields and tables;
// then the first links:
//
//   make | all tell their ends | connect | all meet | prove, all tell | open | all meet
#include "host/contexts/contexts.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <span>
#include <utility>

#include "base/forks.h"
#include "base/patience.h"
#include "base/run_clock.h"
#include "host/base/error.h"
#include "host/job/together.h"

namespace peal {

// What a PE would make a context of, and the context slots it still uses.
struct Contexts::ContextShape {
  uint64_t taken;
  uint32_t queues;
  uint32_t depth;
  bool shared;  // by all lanes of the GPU
  bool fences_too_near;
  QueuePlan plan;
};

Contexts::Contexts(const Dependencies& dependencies)
    : dependencies_(dependencies),
      sync_flags_(reinterpret_cast<uint64_t*>(dependencies.heap.reserve_internal(
          (kMaxContexts * flag_words() + 1) * sizeof(uint64_t)))) {}

// All queues there are, and those of a context more.
QueuePlan Contexts::plan_with(const QueueShape& shape) const {
  QueuePlan plan;
  if (dependencies_.nics == nullptr) return plan;
  plan.set_nics(dependencies_.nics->rails);
  plan.allowed_bytes = dependencies_.config.queue_memory;
  plan.add(shape, dependencies_.group.size());
  dependencies_.table.for_each([&](const ContextOwner& context) {
    plan.add(context.links()->queues().shape(), dependencies_.group.size());
  });
  return plan;
}

// A fence of GPU scope was asked for, and does not reach whoever rings or reads.
bool Contexts::fences_too_near() const {
  if (dependencies_.nics == nullptr || dependencies_.config.fence != FenceKind::kGpu) return false;
  const Doorbells* const doorbells = dependencies_.nics->carrier.doorbells;
  return dependencies_.gpu == nullptr || doorbells == nullptr ||
         std::ranges::any_of(*doorbells, &Doorbell::assisted);
}

QueueShape Contexts::shape_of(const ContextOptions& options, Reach reach) const {
  const Config& config = dependencies_.config;
  // Atomics of all blocks meet on queues of rail 0, which owned queues must not be shared for.
  const bool spread = dependencies_.nics != nullptr && reach == Reach::kGpu;
  return {.queues_per_peer = options.queues_per_peer != 0 ? options.queues_per_peer
                                                          : static_cast<uint32_t>(config.queues),
          .depth = options.depth != 0 ? options.depth : static_cast<uint32_t>(config.queue_depth),
          .rails = spread ? dependencies_.nics->rails.count() : 1,
          .owned = reach != Reach::kGpu};
}

// Compares the options of all PEs; answers the first slot whose context, if it had one, is gone on
// every PE: nobody can still write its flags.
Contexts::Name Contexts::agree(const QueueShape& shape, Reach reach) {
  if (dependencies_.nics != nullptr) dependencies_.nics->linker.let_go();
  const ContextShape mine{dependencies_.table.taken(), shape.queues_per_peer, shape.depth,
                          reach == Reach::kGpu,        fences_too_near(),     plan_with(shape)};
  const std::vector<ContextShape> all = gather(dependencies_.group, mine);
  uint64_t taken = 0;
  std::vector<QueuePlan> plans;
  for (size_t pe = 0; pe < all.size(); ++pe) {
    taken |= all[pe].taken;
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
  shape.check();  // also where there are none: a program is right or wrong on every machine
  if (dependencies_.config.info && dependencies_.nics != nullptr &&
      dependencies_.group.rank() == 0) {
    dependencies_.log.print("runtime", describe(mine.plan, shape, dependencies_.group.size()));
  }
  check_plans(plans, dependencies_.group.places());
  return {static_cast<uint32_t>(std::countr_one(taken)), ++made_};
}

QueueWiring Contexts::wiring(const Name& name, const ContextOptions& options) const {
  ContextWords& words = dependencies_.table.words(name.slot);
  const Config& config = dependencies_.config;
  const std::chrono::nanoseconds timeout =
      options.timeout.count() < 0 ? config.timeout : options.timeout;
  return {.timeout_ns = static_cast<uint64_t>(timeout.count()),
          .stop = &words.stop,
          .alarm = &words.alarm,
          .requests = dependencies_.table.requests(name.slot),
          .tested = config.self_test,
          .fence = config.fence,
          .waits = dependencies_.tables.wait_place(name.slot)};
}

// What kernels find in a context, but for its queues.
ContextFields Contexts::fields(const Name& name, const QueueShape& shape,
                               const QueueWiring& wiring) const {
  ContextFields fields = dependencies_.tables.fields();
  fields.pe = dependencies_.group.rank();
  fields.n_pes = dependencies_.group.size();
  fields.slot = name.slot;
  fields.sync_rounds = rounds();
  fields.rails = shape.rails;
  fields.stop = wiring.stop;
  fields.sync_flags = sync_flags_ + name.slot * flag_words();
  fields.timeout_ns = wiring.timeout_ns;
  if (dependencies_.nics == nullptr) return fields;
  const Rails& rails = dependencies_.nics->rails;
  const SignalOps& signals = rails.signal_ops();
  // Windows in the host's memory tell kernels themselves (WindowTable::off_gpu).
  const bool stay = dependencies_.gpu != nullptr && !dependencies_.nics->must_settle;
  fields.stores_stay = stay ? 1 : 0;
  fields.settle = rails.count() > 1 || dependencies_.nics->must_settle ? 1 : 0;
  if (dependencies_.nics->unordered) fields.settle = kSettleAlways;
  fields.relaxed = rails.payload() == nic::KeyOrdering::kRelaxed || !signals.in_order ? 1 : 0;
  fields.signals = (signals.atomic ? kSignalsSwap : 0) | (signals.waits ? kSignalsWait : 0);
  return fields;
}

std::shared_ptr<ContextOwner> Contexts::make(const Name& name, const QueueShape& shape,
                                             const ContextOptions& options) {
  QueueWiring wires = wiring(name, options);
  dependencies_.table.words(name.slot).clear();
  std::fill_n(wires.requests, dependencies_.group.size(), 0u);
  const ContextFields known = fields(name, shape, wires);
  // Clears what the context that had the slot before has left.
  dependencies_.heap.zero(known.sync_flags, flag_words() * sizeof(uint64_t));
  dependencies_.tables.reset_state(name.slot, wires.alarm);
  RecordTable* const records = dependencies_.recorder.begin(name.slot);
  dependencies_.tables.keep_records(name.slot, records);
  if (records != nullptr) wires.times = &records->posts;
  std::unique_ptr<LinkMachine> links;
  if (const ContextNics* const nics = dependencies_.nics) {
    links = std::make_unique<LinkMachine>(
        std::make_unique<Queues>(nics->rails, nics->carrier,
                                 static_cast<uint32_t>(dependencies_.group.size()), shape, wires),
        wires.requests);
  }
  auto made = std::make_unique<ContextOwner>(std::move(links), dependencies_.tables,
                                             dependencies_.table.words(name.slot), name, known);
  // A program holds contexts, too, and a child of fork() must not destroy the queues of its parent.
  const auto drop = [this, maker = Maker()](ContextOwner* one) {
    if (!maker.here()) return;
    const std::unique_ptr<ContextOwner> dropped(one);
    if (before_drop_) before_drop_(*dropped);
    finish(*dropped, RunClock::now() + dependencies_.config.bootstrap_timeout);
  };
  const std::shared_ptr<ContextOwner> owner(made.release(), drop);
  leave_masked_out(*owner);
  return owner;
}

// Its queues go, and with them what the NIC has not executed yet: a kernel may set a flag and end.
// What ends the waits of kernels ends this one, too; a peer that does not answer the NIC gives up.
// Who is lost, or has left, has no use for it: nobody waits for what the NIC cannot take there.
void Contexts::finish(const ContextOwner& context, RunClock::time_point until) const {
  if (context.links() == nullptr || context.ended()) return;
  const Queues& queues = context.links()->queues();
  std::vector<uint32_t> left = queues.marked();
  const auto over = [&](uint32_t index) {
    return !queues.under_way(index) || !dependencies_.group.works(queues.peer(index));
  };
  wait_until(
      [&] {
        std::erase_if(left, over);
        return left.empty() || context.ended();
      },
      until);
}

void Contexts::finish_all() const {
  const RunClock::time_point until = RunClock::now() + dependencies_.config.bootstrap_timeout;
  const ContextTable& table = dependencies_.table;
  const uint64_t taken = table.taken();
  for (uint32_t slot = 0; slot < kMaxContexts; ++slot) {
    const auto context = (taken >> slot & 1) != 0 ? table.at(slot) : nullptr;
    if (context != nullptr) finish(*context, until);
  }
}

// Which links a context has from the start. Who owns a queue does not look at what the host
// changes: it finds all connected. While a kernel of a GPU waits for a link, CUDA may load another
// kernel, and holds up the copies that make the link until the first one ends: jobs of a size that
// makes all links soon do so. Only larger ones depend on UDP between hosts by default.
ConnectKind Contexts::connect_kind(Reach reach) const {
  constexpr int kSoon = 64;
  if (reach != Reach::kGpu) return ConnectKind::kEager;
  if (dependencies_.config.connect != ConnectKind::kAuto) return dependencies_.config.connect;
  if (dependencies_.group.size() > kSoon) return ConnectKind::kLazy;
  return dependencies_.gpu != nullptr ? ConnectKind::kEager : ConnectKind::kAuto;
}

std::shared_ptr<ContextOwner> Contexts::create(const ContextOptions& options, Reach reach) {
  const QueueShape shape = shape_of(options, reach);
  const Name name = agree(shape, reach);
  std::shared_ptr<ContextOwner> owner;
  const std::vector<RailEnds> ends = gather_together(dependencies_.group, [&] {
    owner = make(name, shape, options);
    return dependencies_.nics == nullptr ? RailEnds{} : rail_ends(dependencies_.nics->rails, shape);
  });
  LinkMachine* const links = owner->links();
  if (links != nullptr) {
    const FirstLinks first(connect_kind(reach), dependencies_.group.places(),
                           dependencies_.group.masked_pes());
    const auto me = static_cast<uint32_t>(dependencies_.group.rank());
    if (dependencies_.config.info && me == 0) {
      dependencies_.log.print("runtime",
                              fmt::format("links: {} of {} at the start", first.of(me).size(),
                                          dependencies_.group.size()));
    }
    check_fabrics(dependencies_.group, dependencies_.nics->rails, ends);
    check_rail_ends(ends, shape, first.between(me, me));
    connect_first(*links, first);
  }
  // No peer's kernel sets a flag before it is zero, or wants a link to a context that is not there.
  together(dependencies_.group, [&] {
    for (int pe = 0; links != nullptr && pe < dependencies_.group.size(); ++pe) {
      const auto peer = static_cast<uint32_t>(pe);
      if (links->state(peer) == LinkState::kConnected) links->open(peer);
    }
    dependencies_.table.add(owner);
    expect_links(*owner);
  });
  return owner;
}

void Contexts::expect_links(const ContextOwner& context) {
  if (context.links() == nullptr) return;
  dependencies_.nics->linker.expect(context.slot(), context.links()->to_come());
}

void Contexts::connect_first(LinkMachine& links, const FirstLinks& first) {
  LiveGroup& group = dependencies_.group;
  const auto me = static_cast<uint32_t>(group.rank());
  const size_t per_peer = links.queues().shape().queues_per_peer;
  const std::vector<uint32_t> linked = first.of(me);
  const size_t room = first.most() * per_peer;
  const std::vector<Endpoint> all =  // [PEs][linked PEs][queues]
      gather_together<Endpoint>(group, room, [&](std::span<Endpoint> mine) {
        for (size_t i = 0; i < linked.size(); ++i) {
          std::ranges::copy(links.make(linked[i]), mine.subspan(i * per_peer).begin());
        }
      });
  // Every queue can receive before anybody sends.
  together(group, [&] {
    for (const uint32_t pe : linked) {
      const std::vector<uint32_t> theirs = first.of(pe);
      const auto i = static_cast<size_t>(std::ranges::find(theirs, me) - theirs.begin());
      links.connect(pe, std::span(all).subspan(pe * room + i * per_peer, per_peer), 0);
    }
  });
  if (!dependencies_.config.self_test) return;
  std::vector<uint32_t> queues;
  for (const uint32_t pe : linked)
    std::ranges::copy(links.queues_to(pe), std::back_inserter(queues));
  dependencies_.nics->link_tester.test_together(links.queues(), queues);
}

void Contexts::leave_masked_out(ContextOwner& context) const {
  const std::vector<int> masked = dependencies_.group.masked_pes();
  if (masked.empty() && !dependencies_.tables.has_faults()) return;
  const std::vector<int> left = dependencies_.group.unmasked_pes();
  if (masked.empty()) dependencies_.tables.leave_out({}, left);  // for barriers that meet faults
  const auto rank = std::ranges::find(left, dependencies_.group.rank()) - left.begin();
  context.leave_out(masked, static_cast<uint32_t>(rank), static_cast<uint32_t>(left.size()));
}

void Contexts::leave_masked_out() {
  together(dependencies_.group, [&] {
    dependencies_.tables.leave_out(dependencies_.group.masked_pes(),
                                   dependencies_.group.unmasked_pes());
    dependencies_.table.for_each([&](ContextOwner& context) { leave_masked_out(context); });
  });
}

}  // namespace peal
