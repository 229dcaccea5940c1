// SPDX-License-Identifier: Apache-2.0
//
// A model of weakly ordered memory, for simulations: a load may answer an older value than the
// newest, as long as nothing orders the newer one before the reader. docs/simulation.md says what
// is modelled and what is not.
//
//   granule (8 bytes):  m3 <- m4 <- m5 <- newest        messages: value, writer, what it releases
//                            ^floor of a reader: what happened before it, what it has seen, what
//                             is older than the horizon
//
// Order is kept in vector clocks with two entries for each agent (a lane of a simulation): what it
// did to memory of its device or any other, and what it did to the host's memory. A fence of
// device scope lets go of the first only: a device that reads this one's memory sees what was
// stored there, and not what is on its way elsewhere. Real memory holds the newest value always, so
// that what is not modelled (set-up, a look after the end) is read and written plainly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "simt/simulation/decisions.h"

namespace peal::simt {

/// How far apart two agents may be for an operation of one to be ordered with that of the other.
enum class Scope : uint8_t { kLane, kBlock, kDevice, kSystem };

/// What an operation on modelled memory orders.
enum class MemoryOrder : uint8_t {
  kRelaxed,
  kAcquire,
  kRelease,
  kBoth,
  kLate,  ///< a store that its agent's next one may overtake: it lost its place in the program
};

struct ModelAccess {
  Scope scope = Scope::kLane;
  MemoryOrder order = MemoryOrder::kRelaxed;
};

/// What each agent had done when something was released: to devices' memory, to the host's, agent
/// by agent.
using VectorClock = std::vector<uint32_t>;
using Released = std::shared_ptr<const VectorClock>;
/// Both of them; either may be null.
Released both(const Released& one, const Released& other);

/// Where an agent runs: agents of one device and one group are of one block.
struct AgentGroup {
  int device = 0;
  int group = 0;
};

/// How weak memory is in one simulation.
struct MemoryWeakness {
  uint32_t stale_in_256 = 128;  ///< how often a load that may be stale is
  uint64_t horizon = 4096;      ///< operations of all agents after which a store is seen by all
};

/// One operation, for whoever tells the story of a run.
struct Step {
  uint64_t agent;
  const char* what;  // "load", "store", "atomic", "fence", "register"
  const void* where;
  unsigned bytes;
  uint64_t value;  // read, or written
  // For a load: the store that it read, and the newest there is.
  uint64_t writer = kNobody;  // agent
  uint64_t newest = 0;
  uint64_t newest_writer = kNobody;
  bool stale = false;
  static constexpr uint64_t kNobody = ~uint64_t{0};
};

/// Memory that agents share. Everything below is called from lanes of one simulation, or before and
/// after it ran.
class WeakMemory {
 public:
  WeakMemory(size_t bytes, Decisions& decisions);
  ~WeakMemory();
  WeakMemory(const WeakMemory&) = delete;
  WeakMemory& operator=(const WeakMemory&) = delete;

  /// Zeroed modelled memory that lives as long as this object; `name` is for reports. Throws Error
  /// when there is no more.
  void* allocate(size_t bytes, const std::string& name, size_t align = 64);
  /// From now on every write into the range must be ordered behind all reads and writes of it, or
  /// the simulation fails: memory that has one user at a time.
  void guard(const void* start, size_t bytes);
  /// The range is in no device's memory: a fence of device scope does not reach it.
  void set_host_memory(const void* start, size_t bytes);

  /// From now on [start, start + bytes), multiples of 8, is modelled too, with what it holds; it
  /// stays its owner's. forget() ends that, before the memory goes.
  void adopt(void* start, size_t bytes, const std::string& name);
  void forget(const void* start);
  /// From `start` on, up to what has a name of its own, modelled memory is called so.
  void name(const void* start, const std::string& name) { names_[start] = name; }

  bool holds(const void* p) const { return region_of(p) != nullptr; }
  /// "heap of PE 0 + 64"
  std::string name_of(const void* p) const;

  /// Agents are numbered from 0 in the order they are added.
  uint64_t add_agent(const AgentGroup& place);
  /// An agent that has ended begins anew, behind all that it did.
  void reuse_agent(uint64_t agent, const AgentGroup& place);
  void set_weakness(const MemoryWeakness& weakness) { weakness_ = weakness; }

  // An aligned word of 1, 2, 4 or 8 bytes, as agent `me`.
  uint64_t load(uint64_t me, const void* p, unsigned bytes, ModelAccess access) {
    return read(me, p, bytes, access, false);
  }
  void store(uint64_t me, void* p, unsigned bytes, uint64_t value, ModelAccess access);
  /// A read-modify-write is newest() and, if it writes, replace() with nothing between.
  uint64_t newest(uint64_t me, const void* p, unsigned bytes, ModelAccess access) {
    return read(me, p, bytes, access, true);
  }
  void replace(uint64_t me, void* p, unsigned bytes, uint64_t value, ModelAccess access);

  /// A release of device scope is seen by other devices too, by what they read of this one's
  /// memory; what is the host's it leaves out, unless somebody it heard from fenced that with
  /// system scope.
  void fence(uint64_t me, MemoryOrder order, Scope scope = Scope::kSystem);
  /// All of `agents` have met: what one did before, all know.
  void meet(const std::vector<uint64_t>& agents);

  /// Everything `me` did, for a message that travels outside of memory, and its receipt.
  Released release(uint64_t me);
  void acquire(uint64_t me, const Released& what);
  /// release(), but for its own stores since push(): a device that has given them to a bus and does
  /// not know where they are. Its own later stores are behind them all the same.
  Released release_pushed(uint64_t me);
  void push(uint64_t me) { agents_[me].pushed = agents_[me].clock[2 * me]; }

  /// A device register: every store arrives, in order, with what the last fence of its writer
  /// released. collect() answers false when there is none.
  void post(uint64_t me, const void* reg, uint64_t value);
  bool collect(uint64_t me, const void* reg, uint64_t* value);

  /// Stores of `me` release nothing until it is called with false: a NIC that may reorder.
  void set_unordered(uint64_t me, bool unordered) { agents_[me].unordered = unordered; }

  /// From now on host memory is on another bus than the rest for this agent: nothing that it does
  /// is behind what it has stored there, until it has read from host memory.
  void set_on_bus(uint64_t me) { agents_[me].on_bus = true; }

  /// Stores that changed something so far.
  uint64_t changes() const { return changes_; }
  /// A hash of every operation so far: equal for equal runs.
  uint64_t digest() const { return digest_; }
  /// "load of PE 0 heap + 0x40": the last operation of an agent.
  std::string last_of(uint64_t agent) const;

  /// From now on each operation is told; null: none.
  void tell(std::function<void(const Step&)> listener) { listener_ = std::move(listener); }

 private:
  struct Message;
  struct Seen;
  struct Granule;
  struct Agent {
    AgentGroup place;
    VectorClock clock;
    VectorClock pending;  // released to relaxed loads, for an acquire fence; empty: nothing
    Released fenced;      // by the last release fence that reaches beyond the block
    Released in_block;    // by the last of any reach
    uint32_t pushed = 0;  // own clock of the last push()
    bool unordered = false;
    bool on_bus = false;
    std::vector<std::pair<Granule*, uint32_t>> under_way;  // messages in host memory
    const char* what = nullptr;
    const void* where = nullptr;
  };
  struct Posted {
    uint64_t value;
    Released released;
  };

  /// Modelled memory without a gap.
  struct Region {
    std::byte* start;
    std::byte* end;
    uint64_t place;  // for the digest: the same in each run
    std::unique_ptr<Granule*[], void (*)(void*)> granules;
  };
  const Region* region_of(const void* p) const;
  Granule& granule(const void* p);
  void show(uint64_t me, const void* p, unsigned bytes, const Granule& g, uint32_t at);
  void mark(const void* start, size_t bytes, bool Granule::*what);
  uint64_t read(uint64_t me, const void* p, unsigned bytes, ModelAccess access, bool atomic);
  static Message message_of(const Granule& g, const void* p, unsigned bytes, uint64_t value,
                            ModelAccess access);
  static size_t entry(const Granule& g, uint64_t agent);
  void tick(uint64_t me);
  void publish_clock(uint64_t me);
  uint32_t floor(const Granule& g, const Agent& me) const;
  void see(Granule& g, uint64_t me, uint32_t at, uint32_t clock);
  void check_guard(const Granule& g, uint64_t me, const void* p);
  void take_order(const Granule& g, uint32_t at, uint8_t mask, uint64_t me, ModelAccess access);
  void append(Granule& g, uint64_t me, const void* p, Message message);
  void arrive(uint64_t me);
  bool reaches(const Agent& from, const Agent& to, Scope scope) const;
  void note(uint64_t me, const char* what, const void* p, unsigned bytes, uint64_t value);
  uint64_t place_of(uint64_t address) const;

  Decisions& decisions_;
  MemoryWeakness weakness_;
  std::byte* base_;
  std::byte* end_;
  std::byte* free_;
  std::map<uintptr_t, Region> regions_;  // by where they end
  uint64_t regions_bytes_ = 0;           // of all that there were
  mutable const Region* last_region_ = nullptr;
  std::deque<Granule> pool_;
  std::vector<Agent> agents_;
  VectorClock published_;  // what was fenced with system scope by whomever
  std::map<const void*, std::string> names_;
  std::map<const void*, std::deque<Posted>> registers_;
  uint64_t operations_ = 0;
  uint64_t changes_ = 0;
  uint64_t digest_ = 0xcbf29ce484222325;
  std::function<void(const Step&)> listener_;
};

}  // namespace peal::simt
