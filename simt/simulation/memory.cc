// SPDX-License-Identifier: Apache-2.0
//
// The rules, in the order of an operation: what may be read, what that orders, what a write leaves.
#include "simt/simulation/memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "simt/lanes/launch.h"

namespace peal::simt {
namespace {

constexpr uint32_t kNobody = ~uint32_t{0};
constexpr uint32_t kUnderWay = ~uint32_t{0};  // a clock that nobody's reaches
constexpr size_t kHistory = 8;                // messages kept of a granule
constexpr size_t kAlign = 4096;

bool acquires(MemoryOrder order) {
  return order == MemoryOrder::kAcquire || order == MemoryOrder::kBoth;
}
bool releases(MemoryOrder order) {
  return order == MemoryOrder::kRelease || order == MemoryOrder::kBoth;
}

// The older of two may know of fewer agents.
void join(VectorClock& clock, const VectorClock& other) {
  if (clock.size() < other.size()) clock.resize(other.size(), 0);
  for (size_t i = 0; i < other.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

size_t offset_in_granule(const void* p) { return reinterpret_cast<uintptr_t>(p) % 8; }

uint8_t mask_of(const void* p, unsigned bytes) {
  return static_cast<uint8_t>(((1u << bytes) - 1) << offset_in_granule(p));
}

uint64_t field(uint64_t word, const void* p, unsigned bytes) {
  word >>= 8 * offset_in_granule(p);
  return bytes == 8 ? word : word & ((uint64_t{1} << (8 * bytes)) - 1);
}

const void* granule_start(const void* p) {
  return static_cast<const std::byte*>(p) - offset_in_granule(p);
}

}  // namespace

Released both(const Released& one, const Released& other) {
  if (one == nullptr || other == nullptr) return one == nullptr ? other : one;
  VectorClock all = *one;
  join(all, *other);
  return std::make_shared<const VectorClock>(std::move(all));
}

/// One store: the granule as it was behind it.
struct WeakMemory::Message {
  uint64_t value = 0;
  uint64_t at = 0;  // in operations
  Released released;
  Released in_block;  // to agents of the writer's block: by a fence that reaches no further
  uint32_t agent = kNobody;
  uint32_t clock = 0;
  uint8_t mask = 0xff;  // bytes it wrote
  Scope scope = Scope::kSystem;
  bool late = false;
};

/// `agent` had seen message `at` when its clock was `clock`.
struct WeakMemory::Seen {
  uint64_t agent;
  uint32_t clock;
  uint32_t at;
};

struct WeakMemory::Granule {
  uint32_t first = 0;             // number of messages[0]
  std::vector<Message> messages;  // oldest first
  std::vector<Seen> seen;
  bool guarded = false;
  bool of_host = false;
  std::vector<Seen> readers;  // guarded: since the last write

  uint32_t last() const { return first + static_cast<uint32_t>(messages.size()) - 1; }
  const Message& message(uint32_t at) const { return messages[at - first]; }
};

WeakMemory::WeakMemory(size_t bytes, Decisions& decisions) : decisions_(decisions) {
  bytes = (bytes + kAlign - 1) / kAlign * kAlign;
  base_ = static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kAlign}));
  std::memset(base_, 0, bytes);
  end_ = base_ + bytes;
  free_ = base_;
  adopt(base_, bytes, "memory without a name");
}

WeakMemory::~WeakMemory() { ::operator delete (base_, std::align_val_t{kAlign}); }

void WeakMemory::mark(const void* start, size_t bytes, bool Granule::*what) {
  for (size_t i = 0; i < bytes; i += 8) {
    granule(static_cast<const std::byte*>(start) + i).*what = true;
  }
}
void WeakMemory::guard(const void* start, size_t bytes) { mark(start, bytes, &Granule::guarded); }
void WeakMemory::set_host_memory(const void* start, size_t bytes) {
  mark(start, bytes, &Granule::of_host);
}

// Where a clock has what an agent did to memory such as this.
size_t WeakMemory::entry(const Granule& g, uint64_t agent) {
  return 2 * agent + (g.of_host ? 1 : 0);
}

void WeakMemory::tick(uint64_t me) {
  VectorClock& clock = agents_[me].clock;
  clock[2 * me + 1] = ++clock[2 * me];
}

// What the agent knows is visible in the whole system from now on.
void WeakMemory::publish_clock(uint64_t me) {
  published_.resize(agents_[me].clock.size(), 0);
  join(published_, agents_[me].clock);
}

uint64_t WeakMemory::add_agent(const AgentGroup& place) {
  agents_.emplace_back().place = place;
  // Each starts at 1, so that 0 in somebody's clock means "knows nothing of it".
  for (Agent& agent : agents_) agent.clock.resize(2 * agents_.size(), 0);
  tick(agents_.size() - 1);
  return agents_.size() - 1;
}

void WeakMemory::reuse_agent(uint64_t agent, const AgentGroup& place) {
  Agent& one = agents_[agent];
  one.place = place;
  one.pending.clear();
  one.fenced = one.in_block = nullptr;
  one.what = nullptr;
  tick(agent);
}

WeakMemory::Granule& WeakMemory::granule(const void* p) {
  const Region& region = *region_of(p);
  const auto index = static_cast<size_t>(static_cast<const std::byte*>(p) - region.start) / 8;
  Granule*& entry = region.granules[index];
  if (entry == nullptr) {
    pool_.emplace_back();
    entry = &pool_.back();
    entry->messages.emplace_back();
    std::memcpy(&entry->messages.back().value, region.start + index * 8, 8);
  }
  uint64_t real;
  std::memcpy(&real, region.start + index * 8, 8);
  if (entry->messages.back().value != real) {  // written plainly: all see it
    const uint32_t at = entry->last() + 1;
    entry->messages.assign(1, Message{});
    entry->messages.back().value = real;
    entry->first = at;
    entry->seen.clear();
    entry->readers.clear();
  }
  return *entry;
}

uint32_t WeakMemory::floor(const Granule& g, const Agent& me) const {
  uint32_t floor = g.first;
  for (uint32_t at = g.last(); at > floor; --at) {
    const Message& m = g.message(at);
    if (me.clock[entry(g, m.agent)] >= m.clock || operations_ - m.at > weakness_.horizon) {
      floor = at;
      break;
    }
  }
  for (const Seen& seen : g.seen) {
    if (seen.at > floor &&
        (&agents_[seen.agent] == &me || me.clock[entry(g, seen.agent)] >= seen.clock))
      floor = seen.at;
  }
  return floor;
}

void WeakMemory::see(Granule& g, uint64_t me, uint32_t at, uint32_t clock) {
  if (g.guarded) {
    const auto known = std::find_if(g.readers.begin(), g.readers.end(),
                                    [me](const Seen& reader) { return reader.agent == me; });
    if (known != g.readers.end()) {
      known->clock = clock;
    } else {
      g.readers.push_back({me, clock, at});
    }
  }
  if (at == g.first) return;
  bool news = true;
  std::erase_if(g.seen, [&](const Seen& seen) {
    if (seen.agent == me && seen.at >= at) news = false;
    return seen.at <= g.first;
  });
  if (news) g.seen.push_back({me, clock, at});
}

bool WeakMemory::reaches(const Agent& from, const Agent& to, Scope scope) const {
  switch (scope) {
    case Scope::kLane:
      return &from == &to;
    case Scope::kBlock:
      return from.place.device == to.place.device && from.place.group == to.place.group;
    case Scope::kDevice:
      return from.place.device == to.place.device;
    case Scope::kSystem:
      return true;
  }
  return false;
}

void WeakMemory::take_order(const Granule& g, uint32_t at, uint8_t mask, uint64_t me,
                            ModelAccess access) {
  Agent& reader = agents_[me];
  if (access.scope == Scope::kLane) return;
  // Each byte comes from the last message that wrote it.
  for (uint32_t i = at;; --i) {
    const Message& m = g.message(i);
    if ((m.mask & mask) != 0 && m.agent != kNobody) {
      const Agent& writer = agents_[m.agent];
      const bool both = reaches(writer, reader, m.scope) && reaches(reader, writer, access.scope);
      VectorClock& to = acquires(access.order) ? reader.clock : reader.pending;
      if (both && m.released != nullptr) join(to, *m.released);
      if (both && m.in_block != nullptr && reaches(writer, reader, Scope::kBlock)) {
        join(to, *m.in_block);
      }
    }
    mask = static_cast<uint8_t>(mask & ~m.mask);
    if (mask == 0 || i == g.first) return;
  }
}

void WeakMemory::check_guard(const Granule& g, uint64_t me, const void* p) {
  const Agent& writer = agents_[me];
  const auto fail = [&](uint64_t other, const char* what) {
    throw LaneError("race: a store of agent " + std::to_string(me) + " to " + name_of(p) +
                    " is not ordered behind a " + what + " of agent " + std::to_string(other) +
                    " (memory that has one user at a time)");
  };
  for (const Seen& reader : g.readers) {
    if (reader.agent != me && writer.clock[entry(g, reader.agent)] < reader.clock) {
      fail(reader.agent, "load");
    }
  }
  const Message& m = g.messages.back();
  if (m.agent != kNobody && m.agent != me && writer.clock[entry(g, m.agent)] < m.clock) {
    fail(m.agent, "store");
  }
}

void WeakMemory::append(Granule& g, uint64_t me, const void* p, Message message) {
  Agent& writer = agents_[me];
  if (g.guarded) {
    check_guard(g, me, p);
    g.readers.clear();
  }
  if (message.value != g.messages.back().value) ++changes_;
  message.agent = static_cast<uint32_t>(me);
  message.clock = writer.clock[2 * me] + (message.late ? 2 : 0);  // the next store is one further
  message.at = operations_;
  if (g.of_host && writer.on_bus) {
    message.clock = kUnderWay;
    writer.under_way.emplace_back(&g, g.last() + 1);
  }
  std::memcpy(const_cast<void*>(granule_start(p)), &message.value, 8);
  g.messages.push_back(std::move(message));
  if (g.messages.size() > kHistory) {
    g.messages.erase(g.messages.begin());
    ++g.first;
  }
  see(g, me, g.last(), g.messages.back().clock);
  if (g.guarded) g.readers.clear();  // the store speaks for itself
  tick(me);
}

// A read from host memory pushes what is under way there.
void WeakMemory::arrive(uint64_t me) {
  Agent& agent = agents_[me];
  for (const auto& [granule, at] : agent.under_way) {
    if (at >= granule->first && at <= granule->last()) {
      granule->messages[at - granule->first].clock = agent.clock[2 * me];
    }
  }
  agent.under_way.clear();
  tick(me);
}

void WeakMemory::note(uint64_t me, const char* what, const void* p, unsigned bytes,
                      uint64_t value) {
  ++operations_;
  agents_[me].what = what;
  agents_[me].where = p;
  for (const uint64_t word : {me, place_of(reinterpret_cast<uintptr_t>(p)), place_of(value)}) {
    digest_ = (digest_ ^ word) * 0x100000001b3;
  }
  const bool loaded = std::strcmp(what, "load") == 0;  // show() has told of it
  if (listener_ && !loaded) listener_({me, what, p, bytes, value});
}

void WeakMemory::show(uint64_t me, const void* p, unsigned bytes, const Granule& g, uint32_t at) {
  if (!listener_) return;
  const auto writer = [](const Message& m) {
    return m.agent == kNobody ? Step::kNobody : uint64_t{m.agent};
  };
  const Message& newest = g.messages.back();
  const Message& seen = g.message(at);
  Step step{me, "load", p, bytes, field(seen.value, p, bytes)};
  step.newest = field(newest.value, p, bytes);
  step.stale = step.newest != step.value;
  step.writer = writer(seen);
  step.newest_writer = writer(newest);
  listener_(step);
}

// The newest message, or one that may still be read.
uint64_t WeakMemory::read(uint64_t me, const void* p, unsigned bytes, ModelAccess access,
                          bool atomic) {
  Granule& g = granule(p);
  // A NIC may have at hand the word that it changes: only what it reads comes from the bus.
  if (g.of_host && agents_[me].on_bus && !atomic) arrive(me);
  uint32_t at = g.last();
  if (!atomic && at != g.first) {
    const uint32_t oldest = floor(g, agents_[me]);
    if (oldest != at && decisions_.chance(Question::kValue, me, weakness_.stale_in_256, 256)) {
      at -= decisions_.below(Question::kValue, me, at - oldest + 1);
    }
  }
  take_order(g, at, mask_of(p, bytes), me, access);
  see(g, me, at, agents_[me].clock[2 * me]);
  tick(me);
  const uint64_t value = field(g.message(at).value, p, bytes);
  note(me, atomic ? "atomic" : "load", p, bytes, value);
  if (!atomic) show(me, p, bytes, g, at);
  return value;
}

// What a store of the value leaves; it releases nothing yet.
WeakMemory::Message WeakMemory::message_of(const Granule& g, const void* p, unsigned bytes,
                                           uint64_t value, ModelAccess access) {
  Message message;
  message.value = g.messages.back().value;
  std::memcpy(reinterpret_cast<std::byte*>(&message.value) + offset_in_granule(p), &value, bytes);
  message.mask = mask_of(p, bytes);
  message.scope = access.scope;
  return message;
}

void WeakMemory::store(uint64_t me, void* p, unsigned bytes, uint64_t value, ModelAccess access) {
  Granule& g = granule(p);
  const Agent& writer = agents_[me];
  Message message = message_of(g, p, bytes, value, access);
  message.late = access.order == MemoryOrder::kLate;
  if (writer.unordered) {
    // Releases nothing itself; a later store that may not be reordered speaks for it.
  } else if (releases(access.order)) {
    if (access.scope == Scope::kSystem) publish_clock(me);
    message.released = std::make_shared<const VectorClock>(writer.clock);
  } else if (access.scope != Scope::kLane && !message.late) {
    message.released = writer.fenced;
    message.in_block = writer.in_block;
  }
  note(me, "store", p, bytes, value);
  append(g, me, p, std::move(message));
}

void WeakMemory::replace(uint64_t me, void* p, unsigned bytes, uint64_t value, ModelAccess access) {
  Granule& g = granule(p);
  const Agent& writer = agents_[me];
  Message message = message_of(g, p, bytes, value, access);
  // A read-modify-write hands on what the store it read had released.
  VectorClock released;
  const Released& before = g.messages.back().released;
  if (before != nullptr && (g.messages.back().mask & message.mask) != 0) released = *before;
  if (releases(access.order) && access.scope == Scope::kSystem) publish_clock(me);
  const VectorClock* own = releases(access.order) ? &writer.clock : writer.fenced.get();
  if (writer.unordered) own = nullptr;
  if (own != nullptr) {
    released.resize(writer.clock.size(), 0);
    join(released, *own);
  }
  if (!released.empty())
    message.released = std::make_shared<const VectorClock>(std::move(released));
  message.in_block = writer.unordered ? nullptr : writer.in_block;
  note(me, "atomic", p, bytes, value);
  append(g, me, p, std::move(message));
}

void WeakMemory::fence(uint64_t me, MemoryOrder order, Scope scope) {
  Agent& agent = agents_[me];
  if (acquires(order) && !agent.pending.empty()) join(agent.clock, agent.pending);
  if (releases(order)) {
    if (scope == Scope::kSystem) publish_clock(me);
    published_.resize(agent.clock.size(), 0);
    VectorClock released = agent.clock;
    for (size_t host = 1; host < released.size(); host += 2) {
      released[host] = std::min(released[host], published_[host]);
    }
    agent.in_block = std::make_shared<const VectorClock>(std::move(released));
    if (scope != Scope::kBlock) agent.fenced = agent.in_block;
  }
  tick(me);
  note(me, "fence", base_, 0, 0);
}

void WeakMemory::meet(const std::vector<uint64_t>& agents) {
  if (agents.empty()) return;
  VectorClock all = agents_[agents.front()].clock;
  for (const uint64_t agent : agents) join(all, agents_[agent].clock);
  for (const uint64_t agent : agents) {
    agents_[agent].clock = all;
    tick(agent);
  }
}

Released WeakMemory::release(uint64_t me) {
  Agent& agent = agents_[me];
  auto released = std::make_shared<const VectorClock>(agent.clock);
  tick(me);
  ++changes_;  // a message under way is something that happens
  return released;
}

Released WeakMemory::release_pushed(uint64_t me) {
  auto released = std::make_shared<VectorClock>(*release(me));
  (*released)[2 * me] = (*released)[2 * me + 1] = agents_[me].pushed;
  return released;
}

void WeakMemory::acquire(uint64_t me, const Released& what) { join(agents_[me].clock, *what); }

void WeakMemory::post(uint64_t me, const void* reg, uint64_t value) {
  registers_[reg].push_back({value, agents_[me].fenced});
  ++changes_;
  note(me, "register", reg, 8, value);
}

bool WeakMemory::collect(uint64_t me, const void* reg, uint64_t* value) {
  const auto found = registers_.find(reg);
  if (found == registers_.end() || found->second.empty()) return false;
  const Posted posted = std::move(found->second.front());
  found->second.pop_front();
  *value = posted.value;
  if (posted.released != nullptr) join(agents_[me].clock, *posted.released);
  return true;
}

std::string WeakMemory::last_of(uint64_t agent) const {
  const Agent& who = agents_[agent];
  if (who.what == nullptr) return "nothing";
  return std::string(who.what) + " of " + name_of(who.where);
}

}  // namespace peal::simt
