// SPDX-License-Identifier: Apache-2.0
//
// Back to work after an error, without tearing anything down. Both ends of a queue go the whole way
// together, because what either remembers of the connection is void:
//
//   all tell what is broken | 2RST, memory afresh | all meet | INIT, RTR, RTS | all meet | proven
//
// A link that is not open at both ends is forgotten: a kernel may want it again.
#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "host/base/error.h"
#include "host/contexts/contexts.h"
#include "host/job/together.h"

namespace peal {
namespace {

// Where a PE stands before it recovers.
struct Position {
  uint64_t contexts;  // one bit a slot
  std::array<uint64_t, kMaxContexts> epoch;
};

// A context and what its queues need, as both ends of each agreed.
struct Repairs {
  std::shared_ptr<ContextOwner> context;
  std::vector<Repair> of;  // by queue
};

std::vector<Position> agree_on_contexts(Bootstrap& group, const ContextTable& table) {
  const std::vector<Position> all = gather_together(group, [&] {
    Position mine{};
    table.for_each([&](const ContextOwner& context) {
      mine.contexts |= uint64_t{1} << context.slot();
      mine.epoch[context.slot()] = context.sync_epoch();
    });
    return mine;
  });
  for (size_t pe = 0; pe < all.size(); ++pe) {
    if (all[pe].contexts == all[0].contexts) continue;
    fail(ErrorCode::kInvalidArgument,
         "recover: PE {} has contexts {:#x} (one bit each), PE 0 {:#x}: a context that one PE has "
         "dropped must be dropped on all",
         pe, all[pe].contexts, all[0].contexts);
  }
  return all;
}

// Beyond every flag that is set or on its way: a PE is at most one barrier ahead of another.
uint64_t next_epoch(const std::vector<Position>& all, uint32_t slot) {
  uint64_t newest = 0;
  for (const Position& one : all) newest = std::max(newest, one.epoch[slot]);
  return newest + 1;
}

// Both ends of a link make the larger of the repairs that either of them needs.
std::vector<Repair> agree_on_repairs(LiveGroup& group, const LinkMachine& links) {
  const auto n_pes = static_cast<size_t>(group.size());
  const auto me = static_cast<size_t>(group.rank());
  const size_t count = links.queues().count();
  const std::vector<Repair> all = gather_together<Repair>(
      group, count,
      [&](std::span<Repair> mine) { std::ranges::copy(links.needed(), mine.begin()); });
  std::vector<Repair> agreed(count);
  for (size_t i = 0; i < count; ++i) {
    const size_t pe = i % n_pes;
    agreed[i] = std::max(all[me * count + i], all[pe * count + (i - pe + me)]);
    if (group.masked(static_cast<int>(pe))) agreed[i] = Repair::kNone;  // it has no other end
  }
  return agreed;
}

std::vector<uint32_t> reconnected(const Repairs& repairs) {
  std::vector<uint32_t> queues;
  for (uint32_t i = 0; i < repairs.of.size(); ++i) {
    if (repairs.of[i] == Repair::kReconnect) queues.push_back(i);
  }
  return queues;
}

}  // namespace

size_t Contexts::recover() {
  LiveGroup& group = dependencies_.group;
  if (const auto lost = group.lost_pes(); !lost.empty()) {
    fail(ErrorCode::kPeerLost, "recover: PE {} has ended: mask it first (Runtime::mask)",
         lost.front());
  }
  Linker* const linker = dependencies_.nics == nullptr ? nullptr : &dependencies_.nics->linker;
  if (linker) linker->let_go();
  const std::vector<Position> positions = agree_on_contexts(group, dependencies_.table);
  // From here no kernel runs anywhere, and none wants a link.
  const auto paused = linker ? linker->pause() : std::unique_lock<std::mutex>();
  if (linker) linker->forget();
  std::vector<Repairs> all;
  for (uint32_t slot = 0; slot < kMaxContexts; ++slot) {
    if (auto context = dependencies_.table.at(slot)) all.push_back({std::move(context), {}});
  }
  size_t resets = 0;
  for (Repairs& repairs : all) {
    if (linker) repairs.of = agree_on_repairs(group, *repairs.context->links());
    resets += reconnected(repairs).size();
  }
  // As the table's readers visit contexts: other threads may be asking for failures, whose records
  // change here.
  const auto for_each = [&](const auto& visit) {
    dependencies_.table.for_each([&](const ContextOwner& visited) {
      for (const Repairs& repairs : all) {
        if (repairs.context.get() == &visited) visit(repairs);
      }
    });
  };
  // None sends before the other end has forgotten the old connection.
  together(group, [&] {
    for_each([&](const Repairs& repairs) {
      if (linker) repairs.context->links()->reset(repairs.of);
    });
  });
  if (linker) dependencies_.nics->link_tester.free_cells();
  dependencies_.table.next_generation();
  together(group, [&] {
    for_each([&](const Repairs& repairs) {
      ContextOwner& context = *repairs.context;
      if (linker) context.links()->reconnect(repairs.of, dependencies_.table.generation());
      context.start_again(next_epoch(positions, context.slot()));
      leave_masked_out(context);  // whatever was under way to them has ended
    });
  });
  for (const Repairs& repairs : all) {
    if (!linker || !dependencies_.config.self_test) break;
    dependencies_.nics->link_tester.test_together(repairs.context->links()->queues(),
                                                  reconnected(repairs));
  }
  together(group, [&] {
    for (const Repairs& repairs : all) {
      if (!linker) break;
      repairs.context->links()->reopen(repairs.of);
      expect_links(*repairs.context);
    }
  });
  return resets;
}

}  // namespace peal
