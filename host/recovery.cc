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
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "host/base/error.h"
#include "host/runtime_state.h"

namespace peal {
namespace {

// Where a PE stands before it recovers.
struct Standing {
  uint64_t contexts;  // one bit a slot
  std::array<uint64_t, kMaxContexts> epoch;
};

using Remedy = ContextOwner::Remedy;

// A context and what its queues need.
struct Patient {
  uint32_t slot;
  std::shared_ptr<ContextOwner> context;
  std::vector<Remedy> remedies;
};

std::vector<Standing> agree(Bootstrap& bootstrap, const Standing& mine) {
  std::vector<Standing> all = gather(bootstrap, mine);
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
uint64_t next_epoch(const std::vector<Standing>& all, uint32_t slot) {
  uint64_t newest = 0;
  for (const Standing& one : all) newest = std::max(newest, one.epoch[slot]);
  return newest + 1;
}

// Whichever end needs more decides.
std::vector<Remedy> choose(LiveGroup& bootstrap, const std::vector<Remedy>& mine) {
  const auto n_pes = static_cast<size_t>(bootstrap.size());
  const auto me = static_cast<size_t>(bootstrap.rank());
  std::vector<Remedy> all(mine.size() * n_pes);
  bootstrap.allgather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
  std::vector<Remedy> chosen = mine;
  for (size_t i = 0; i < chosen.size(); ++i) {
    const size_t pe = i % n_pes;
    chosen[i] = std::max(chosen[i], all[pe * mine.size() + (i - pe + me)]);
    if (bootstrap.masked(static_cast<int>(pe))) chosen[i] = Remedy::kNone;  // it has no other end
  }
  return chosen;
}

std::vector<uint8_t> reconnected(const Patient& p) {
  std::vector<uint8_t> chosen;
  for (const Remedy remedy : p.remedies) chosen.push_back(remedy == Remedy::kReconnect ? 1 : 0);
  return chosen;
}

}  // namespace

size_t Runtime::State::recover() {
  if (const auto lost = bootstrap->lost_pes(); !lost.empty()) {
    fail(ErrorCode::kPeerLost, "recover: PE {} has ended: mask it first (Runtime::mask)",
         lost.front());
  }
  if (linker) linker->let_go();
  Standing mine{};
  std::vector<Patient> patients;
  {
    const std::lock_guard lock(contexts_mutex);
    for (uint32_t slot = 0; slot < kMaxContexts; ++slot) {
      auto context = contexts[slot].lock();
      if (context == nullptr) continue;
      mine.contexts |= uint64_t{1} << slot;
      mine.epoch[slot] = context->sync_epoch();
      patients.push_back({slot, std::move(context), {}});
    }
  }
  const std::vector<Standing> all = agree(*bootstrap, mine);
  // From here no kernel runs anywhere, and none wants a link.
  const auto paused = linker ? linker->pause() : std::unique_lock<std::mutex>();
  if (linker) linker->forget();
  size_t resets = 0;
  for (Patient& p : patients) {
    if (rails) p.remedies = choose(*bootstrap, p.context->remedies());
    resets += static_cast<size_t>(std::ranges::count(p.remedies, Remedy::kReconnect));
    const std::lock_guard lock(contexts_mutex);  // other threads may be asking for failures
    p.context->reset_queues(p.remedies);
  }
  bootstrap->barrier();  // none sends before the other end has forgotten the old connection
  ++generation;
  for (const Patient& p : patients) {
    const std::lock_guard lock(contexts_mutex);
    p.context->start_again(p.remedies, generation, next_epoch(all, p.slot));
    leave_masked_out(*p.context);  // whatever was under way to them has ended
  }
  bootstrap->barrier();
  for (const Patient& p : patients) {
    Queues* const queues = p.context->queues();
    if (queues == nullptr) continue;
    if (config.self_test) prove(*queues, reconnected(p));
    for (uint32_t i = 0; i < p.remedies.size(); ++i) {
      if (p.remedies[i] == Remedy::kReconnect) queues->open_queue(i);
    }
    linker->expect(p.slot, queues->links_to_come());
  }
  arm_callback();
  // Of a PE that ended meanwhile its own stop may have been cleared.
  if (!bootstrap->lost_pes().empty()) stop_for_loss();
  return resets;
}

size_t Runtime::recover() { return state_->recover(); }

}  // namespace peal
