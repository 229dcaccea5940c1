// SPDX-License-Identifier: Apache-2.0
//
// One PE's device state, built by hand: queues with a fake NIC behind each, a heap window, the
// heaps of the peers, a stop word, a context.
//
//   DeviceRig rig({.n_pes = 2});  put(rig.context(), ...);  rig.nic(1).step();  rig.nic(1).seen()
//   NicThread nics(rig);          // or let a thread drive all NICs while kernels wait
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "device/api.h"
#include "device/base/launch.h"
#include "device/mlx5/nic.h"
#include "tests/support/fake_nic.h"

namespace peal::testing {

inline constexpr uint64_t kSecond = 1'000'000'000;
inline constexpr uint64_t kMillisecond = 1'000'000;

// Where tests have what they send and what they receive: offsets in a heap.
inline constexpr size_t kSource = 0x100;
inline constexpr size_t kTarget = 0x2000;

struct RigOptions {
  int pe = 0;
  int n_pes = 2;
  uint32_t queues_per_peer = 1;
  uint32_t rails = 1;
  bool settle = false;  ///< as the host says of jobs with two ways to one memory; so with rails
  uint32_t depth = 128;
  uint64_t start = 0;                  ///< index of every queue's first WQE
  uint64_t timeout_ns = 60 * kSecond;  ///< so that a bug fails a test instead of stopping it
};

/// One send queue and all memory it points at.
class QueueRig {
 public:
  QueueRig(const RigOptions& options, uint32_t peer, uint32_t number, const uint32_t* stop)
      : blocks_(options.depth),
        landing_(kLandingCells + 1),
        ready_(options.depth),
        nic_({.blocks = reinterpret_cast<const uint8_t*>(blocks_.data()),
              .depth = options.depth,
              .record = &record_.send.raw,
              .cqe = reinterpret_cast<uint8_t*>(&cqe_),
              .qpn = 0xABC000 + number,
              .start = options.start}) {
    std::memset(static_cast<void*>(&cqe_), 0xff, sizeof cqe_);
    record_.send = Be32{static_cast<uint32_t>(options.start & 0xffff)};
    queue.nic.blocks = blocks_.data();
    queue.nic.doorbell_record = &record_;
    queue.nic.doorbell = &doorbell;
    queue.nic.cqe = &cqe_;
    queue.landing = landing_.data();
    queue.stop = stop;
    queue.landing_address = kLandingAddress;
    queue.landing_key = mlx5::key(0x77000000 + number);
    queue.mask = options.depth - 1;
    queue.nic.qpn_shifted = Be32{(0xABC000 + number) << 8};
    queue.peer = peer;
    queue.timeout_ns = options.timeout_ns;
    queue.reserved = queue.rung = queue.completed = queue.settled = options.start;
    queue.posted = posted_word(options.start, 1);
    queue.looked = options.start - 1;
    queue.ready = ready_.data();
    nic_.know(0x77000000 + number, reinterpret_cast<std::byte*>(landing_.data()) - kLandingAddress);
  }
  QueueRig(const QueueRig&) = delete;
  QueueRig& operator=(const QueueRig&) = delete;

  /// Where landing cell 0 is on the wire.
  static constexpr uint64_t kLandingAddress = 0x40;

  FakeNic& nic() { return nic_; }
  mlx5::Cqe& cqe() { return cqe_; }
  /// The send half of the doorbell record, as a number.
  uint32_t record() const { return record_.send.host(); }
  const LandingCell& landing(size_t index) const { return landing_[index]; }

  SendQueue queue{};
  uint64_t doorbell = 0;  ///< the register

 private:
  std::vector<mlx5::Wqebb> blocks_;
  mlx5::DoorbellRecord record_{};
  mlx5::Cqe cqe_{};
  std::vector<LandingCell> landing_;
  std::vector<uint32_t> ready_;
  FakeNic nic_;
};

/// The context of one PE.
class DeviceRig {
 public:
  static constexpr size_t kHeapBytes = 64 << 10;
  static constexpr uint32_t kHeapLkey = 0x0a0b0c0d;
  /// Key of window `window` at `pe` for rail `rail`: no byte like another, so that a wrong swap
  /// shows.
  static constexpr uint32_t rkey(uint32_t window, int pe, uint32_t rail = 0) {
    return 0x11223300u + (rail << 24) + (window << 16) + static_cast<uint32_t>(pe);
  }
  /// The key of this PE's own heap for rail `rail`.
  static constexpr uint32_t lkey(uint32_t rail) { return kHeapLkey + (rail << 24); }

  explicit DeviceRig(const RigOptions& options = {}) : options_(options) {
    for (int pe = 0; pe < options.n_pes; ++pe) {
      heaps_.push_back(std::make_unique<Heap>());
    }
    Window& window = windows_.window[0];
    window = {heap(), kHeapBytes, {}, nullptr, nullptr, nullptr};
    for (uint32_t rail = 0; rail < options.rails; ++rail) {
      window.lkeys[rail] = mlx5::key(lkey(rail));
      for (int pe = 0; pe < options.n_pes; ++pe) rkeys_.push_back(mlx5::key(rkey(0, pe, rail)));
    }
    window.rkeys = window.word_rkeys = rkeys_.data();
    windows_.count = 1;
    const uint32_t total = options.queues_per_peer * static_cast<uint32_t>(options.n_pes);
    for (uint32_t i = 0; i < total; ++i) {
      const auto peer = static_cast<int>(i % static_cast<uint32_t>(options.n_pes));
      queues_.push_back(
          std::make_unique<QueueRig>(options, static_cast<uint32_t>(peer), i, &stop_));
      // Its own NIC's keys and no others.
      const uint32_t rail = i / static_cast<uint32_t>(options.n_pes) % options.rails;
      queues_[i]->queue.rail = rail;
      queues_[i]->nic().know(rkey(0, peer, rail), heap_of(peer));
      queues_[i]->nic().know(lkey(rail), heap());
    }
    place_queues();
  }
  DeviceRig(const DeviceRig&) = delete;
  DeviceRig& operator=(const DeviceRig&) = delete;

  /// Writes what kernels find behind it (`state().fields`): for the thread that launches them.
  template <Reach R = Reach::kGpu>
  BasicContext<R> context() {
    BasicContext<R> ctx{};
    ctx.version = kContextVersion;
    ctx.bytes = sizeof(ContextFields);
    ctx.pe = options_.pe;
    ctx.n_pes = options_.n_pes;
    ctx.queues_per_peer = options_.queues_per_peer;
    ctx.sync_rounds = sync_rounds(options_.n_pes);
    ctx.rails = options_.rails;
    ctx.settle = options_.settle || options_.rails > 1 ? 1 : 0;
    ctx.heap = windows_.window[0];
    for (int pe = 0; ctx.heap.direct != nullptr && pe < options_.n_pes; ++pe) {
      ctx.near[pe] = ctx.heap.direct[pe];
    }
    ctx.windows = &windows_;
    ctx.queues = reinterpret_cast<std::byte*>(placed_.get());
    ctx.queue_stride = sizeof(SendQueue);
    if (marked_for_ != R) lay_marks(R);
    ctx.marks = marks_.data();
    ctx.state = &state_;
    ctx.stop = &stop_;
    ctx.sync_flags = reinterpret_cast<uint64_t*>(heap() + kHeapBytes - 1024);
    ctx.timeout_ns = options_.timeout_ns;
    state_.fields = ctx;
    return ctx;
  }

  /// This PE's heap, and what it looks like at a peer.
  std::byte* heap() { return heap_of(options_.pe); }
  std::byte* heap_of(int pe) { return heaps_[static_cast<size_t>(pe)]->bytes; }
  template <class T>
  T* local(size_t offset) {
    return reinterpret_cast<T*>(heap() + offset);
  }
  template <class T>
  T* remote(int pe, size_t offset) {
    return reinterpret_cast<T*>(heap_of(pe) + offset);
  }

  SendQueue& queue(int pe, uint32_t set = 0) { return placed_[index(pe, set)]; }
  QueueRig& rig(int pe, uint32_t set = 0) { return *queues_[index(pe, set)]; }
  FakeNic& nic(int pe, uint32_t set = 0) { return rig(pe, set).nic(); }
  const UsageError& usage() const { return state_.usage; }
  WindowTable& windows() { return windows_; }
  ContextState& state() { return state_; }
  /// Whether quiet looks at the queue. At first it looks at all, as if they had been posted to.
  bool marked(int pe, uint32_t set = 0) {
    const SendQueue& q = queue(pe, set);
    return (*q.marks & q.mark_bit) != 0;
  }

  void stop(Status why) { __atomic_store_n(&stop_, static_cast<uint32_t>(why), __ATOMIC_RELEASE); }

  /// One turn of every NIC; the number of WQEs they executed.
  size_t step_all() {
    size_t done = 0;
    for (auto& queue : queues_) done += queue->nic().step();
    return done;
  }
  std::string complaints() const {
    std::string all;
    for (const auto& queue : queues_) all += queue->nic().complaints();
    return all;
  }

 private:
  struct Heap {
    alignas(64) std::byte bytes[kHeapBytes]{};
  };

  size_t index(int pe, uint32_t set) const {
    return set * static_cast<size_t>(options_.n_pes) + static_cast<size_t>(pe);
  }

  // Kernels find queues at a stride, so the state lies in one array of its own.
  void place_queues() {
    placed_ = std::make_unique<SendQueue[]>(queues_.size());
    for (size_t i = 0; i < queues_.size(); ++i) placed_[i] = queues_[i]->queue;
  }

  // Marks lie otherwise where blocks own queues.
  void lay_marks(Reach reach) {
    const auto n_pes = static_cast<uint32_t>(options_.n_pes);
    marks_.assign(mark_words(options_.queues_per_peer, n_pes), 0);
    for (uint32_t i = 0; i < queues_.size(); ++i) {
      const uint32_t at = mark_index(i / n_pes, i % n_pes, n_pes, reach != Reach::kGpu);
      placed_[i].marks = &marks_[at / 64];
      placed_[i].mark_bit = uint64_t{1} << at % 64;
      marks_[at / 64] |= placed_[i].mark_bit;
    }
    marked_for_ = reach;
  }

  RigOptions options_;
  uint32_t stop_ = 0;
  std::vector<std::unique_ptr<Heap>> heaps_;
  std::vector<NicKey> rkeys_;
  WindowTable windows_{};
  ContextState state_{};
  std::vector<std::unique_ptr<QueueRig>> queues_;
  std::unique_ptr<SendQueue[]> placed_;
  std::vector<uint64_t> marks_;
  Reach marked_for_ = Reach::kSystem;  // no context yet
};

/// A thread that does what `turn` says until it goes out of scope.
class Background {
 public:
  template <class Turn>
  explicit Background(Turn turn)
      : thread_([this, turn] {
          while (!done_.load(std::memory_order_relaxed)) {
            if (turn() == 0) std::this_thread::yield();
          }
        }) {}
  ~Background() {
    done_.store(true, std::memory_order_relaxed);
    thread_.join();
  }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

 private:
  std::atomic<bool> done_{false};
  std::thread thread_;
};

/// Drives the NICs of a rig.
class NicThread : Background {
 public:
  explicit NicThread(DeviceRig& rig) : Background([&rig] { return rig.step_all(); }) {}
  explicit NicThread(QueueRig& rig) : Background([&rig] { return rig.nic().step(); }) {}
};

/// Opcodes as the manual numbers them.
inline constexpr uint8_t kWrite = 0x08, kRead = 0x10, kFetchAdd = 0x12, kDump = 0x23;
using Ops = std::vector<uint8_t>;

/// What the NIC of PE 1's queue has seen.
inline Ops opcodes(DeviceRig& rig, uint32_t queue = 0) {
  Ops all;
  for (const SeenWqe& wqe : rig.nic(1, queue).seen()) all.push_back(wqe.opcode());
  return all;
}

}  // namespace peal::testing
