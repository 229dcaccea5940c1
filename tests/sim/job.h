// SPDX-License-Identifier: Apache-2.0
//
// A job in a simulation: the device state of all PEs as host/ would make it, a NIC engine each, and
// wires between them. Kernels get contexts; nothing here is told of what they do.
//
//   Job job(sim, {.n_pes = 2});
//   job.launch(0, {1, 8}, [&] { put(job.context<Reach::kGpu>(0), ...); });
//   sim.run();
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device/api.h"
#include "simt/simulation/simulation.h"
#include "softnic/engine/engine.h"
#include "softnic/engine/fault_plan.h"
#include "softnic/engine/faults.h"
#include "softnic/engine/serve.h"
#include "tests/sim/network.h"

namespace peal::sim {

inline constexpr uint64_t kSecond = 1'000'000'000;

/// What a NIC goes by. The way in which 438a779 rang, with no fence before the doorbell, fails with
/// kValue.
enum class Hears {
  kRecords,  ///< watches the doorbell records, as the software NIC can
  kRing,     ///< looks at a record when its register was written: a card that loses every doorbell
  kValue,    ///< takes the index from what was written, but for some that it loses: a card
};

struct JobOptions {
  int n_pes = 2;
  uint32_t queues_per_peer = 1;
  uint32_t depth = 16;
  uint64_t start = 0;                       ///< index of every queue's first block
  uint32_t heap_bytes = 4096;               ///< the last 1024 are the barrier's
  bool direct = false;                      ///< every PE's heap is mapped at every other: no queues
  bool (*map)(int pe, int peer) = nullptr;  ///< else: whose heap is mapped where; null: nobody's
  bool owned = false;                       ///< blocks own queues
  bool settle = false;           ///< as the host says of jobs with two ways to one memory
  bool relaxed = true;           ///< payload keys have relaxed ordering
  bool placed_in_order = false;  ///< WRITEs of a queue pair are placed as they were sent
  bool loose_atomics = false;    ///< where WRITEs may be passed, a program's atomics pass them
  Hears hears = Hears::kValue;
  NicFence fence = NicFence::kGpu;  ///< of every queue
  bool connected = true;            ///< else connect() brings the queue pairs up
  uint64_t timeout_ns = 20 * kSecond;
  WireFaults wire_faults = {};
  softnic::FaultPlan faults = {};  ///< of every NIC; of those that watch records
};

/// Options that any workload allows to differ from seed to seed.
JobOptions any_options(simt::Random& random);

class Job {
 public:
  static constexpr uint32_t kPayloadKey = 1 << 8;
  static constexpr uint32_t kWordKey = 2 << 8;
  static constexpr uint32_t kQueueKey = 3 << 8;
  static constexpr uint32_t kSecondKey = 4 << 8;  // window 1, if it has one

  Job(simt::Simulation& sim, const JobOptions& options);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  template <Reach R>
  BasicContext<R> context(int pe);
  const JobOptions& options() const { return options_; }

  /// Adds a grid of PE `pe`; its host's thread; both before sim.run().
  void launch(int pe, const simt::LaneGrid& grid, std::function<void()> kernel);
  void launch_host(int pe, std::function<void()> body);

  /// Object number `index` of type T from `offset` on, in the heap of `pe`.
  template <class T>
  T* at(int pe, size_t offset, size_t index = 0) {
    return reinterpret_cast<T*>(heap(pe) + offset) + index;
  }
  std::byte* heap(int pe);
  const ContextFields& fields(int pe);
  SendQueue& queue(int pe, int peer, uint32_t number = 0);
  WindowTable& windows(int pe);
  uint32_t* stop_word(int pe);
  /// Key table of the PE's NIC; entry i has number i << 8.
  softnic::Key& key(int pe, uint32_t index);
  const NicKey* rkeys(int pe, uint32_t number);
  /// Registers `bytes` of the host's memory of the PE: window 1, by NIC, with a key like that of
  /// number `like`. Before sim.run().
  std::byte* add_host_window(int pe, size_t bytes, uint32_t like = kPayloadKey);
  /// What a NIC writes into the PE's heap and landing cells is seen late, and the context says so.
  void put_on_host(int pe);
  /// The PE's queue pairs become ready, for jobs that begin unconnected.
  void connect(int pe);
  /// Misuse that the NICs counted, and queues in error; empty when there is none.
  std::string complaints();

 private:
  struct Pe;
  class Nic;
  bool mapped(int pe, int peer) const {
    return options_.direct || (options_.map != nullptr && options_.map(pe, peer));
  }
  void make_pe(int pe);
  void fill_in(Pe& pe, ContextFields& ctx);
  void make_queue(Pe& pe, uint32_t index);
  void make_qp(Pe& pe, uint32_t index);
  size_t bytes_needed() const;
  /// True where a fence waits: what is ahead of it in its queue need not be seen before it.
  bool unordered() const { return options_.relaxed || !options_.placed_in_order; }
  bool loose_atomics() const { return options_.loose_atomics && unordered(); }

  simt::Simulation& sim_;
  const JobOptions options_;
  Network network_;
  std::vector<std::unique_ptr<Pe>> pes_;
};

template <Reach R>
BasicContext<R> Job::context(int pe) {
  BasicContext<R> ctx{};
  static_cast<ContextFields&>(ctx) = fields(pe);
  return ctx;
}

}  // namespace peal::sim
