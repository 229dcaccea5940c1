// SPDX-License-Identifier: Apache-2.0
//
// The tables of a simulated PE, and the loop of its NIC.
#include "tests/sim/job.h"

#include <cstring>

namespace peal::sim {
namespace {

constexpr uint32_t kEverything =
    softnic::kLocalWrite | softnic::kRemoteWrite | softnic::kRemoteRead | softnic::kRemoteAtomic;
constexpr uint32_t kPd = 1;
constexpr uint32_t kKeys = 8;
constexpr uint32_t kPage = 1;
constexpr uint32_t kRkeyTables = 4;
constexpr size_t kSyncBytes = 1024;
constexpr size_t kLandingBytes = (kLandingCells + 1) * sizeof(LandingCell);

}  // namespace

JobOptions any_options(simt::Random& random) {
  JobOptions options;
  options.start = uint64_t{random.below(3)} << 15;
  options.relaxed = random.one_in(2);
  constexpr Hears kHears[] = {Hears::kRecords, Hears::kRing, Hears::kValue};
  options.hears = kHears[random.below(3)];
  options.fence = random.one_in(2) ? NicFence::kGpu : NicFence::kSystem;
  options.placed_in_order = random.one_in(2);
  options.loose_atomics = random.one_in(2);
  options.wire_faults.delay_ns = 20u << random.below(9);
  options.wire_faults.segment_bytes = 32u << random.below(4);
  return options;
}

/// One PE: what its host would have made.
struct Job::Pe {
  int number = 0;
  std::byte* heap = nullptr;
  SendQueue* queues = nullptr;
  uint64_t* marks = nullptr;
  std::byte* landing = nullptr;  // of all queues that are used
  size_t used = 0;               // queues so far
  WindowTable* windows = nullptr;
  ContextState* state = nullptr;
  uint32_t* stop = nullptr;
  uint64_t* uar = nullptr;
  std::byte* rings = nullptr;
  uint32_t* ready = nullptr;
  mlx5::Cqe* cqes = nullptr;
  mlx5::DoorbellRecord* records = nullptr;
  std::vector<const NicKey*> rkeys;
  std::vector<std::byte*> direct;

  std::vector<softnic::Key> keys = std::vector<softnic::Key>(kKeys);
  std::vector<softnic::CompletionQueue> cqs;
  std::unique_ptr<softnic::QueuePair[]> qps;
  std::vector<bool> awake;  // by queue pair number
  softnic::DoorbellPage pages[2];
  std::unique_ptr<softnic::Faults> faults;
  softnic::Port port;
};

/// The engine's driver.
class Job::Nic {
 public:
  Nic(Job& job, Pe& pe) : job_(job), sim_(job.sim_), pe_(pe), me_(static_cast<size_t>(pe.number)) {}

  void run() {
    sim_.memory().set_on_bus(simt::agent());
    for (;;) {
      if (pe_.faults != nullptr) softnic::release_late(pe_.port, sim_.now_ns());
      hear_doorbells();
      receive();
      advance_all();
      simt::yield();
    }
  }

 private:
  void hear_doorbells() {
    uint64_t value = 0;
    while (sim_.memory().collect(simt::agent(), pe_.uar, &value)) {
      const uint32_t qpn = swap_bytes(static_cast<uint32_t>(value >> 32)) >> 8;
      if (qpn >= pe_.port.qp_count) continue;
      pe_.awake[qpn] = true;
      if (job_.options_.hears != Hears::kValue) continue;
      if (sim_.random().one_in(4)) {  // lost: there was one, and the record says the rest
        softnic::QueuePair& qp = pe_.qps[qpn];
        softnic::tell(qp.send, softnic::record_of(qp));
      } else {
        softnic::hear(pe_.port, kPage, value);
      }
    }
  }

  void receive() {
    for (size_t peer = 0; peer < job_.pes_.size(); ++peer) {
      Parcel parcel;
      if (!job_.network_.receive(peer, me_, &parcel)) continue;
      if (parcel.packet.kind != softnic::PacketKind::kRequest) {
        softnic::take_answer(pe_.port, parcel.packet, parcel.payload(), sim_.now_ns());
        continue;
      }
      const softnic::Packet& packet = parcel.packet;
      const softnic::Key* key = softnic::find_key(pe_.port, packet.rkey);
      const bool writes = packet.opcode == mlx5::Opcode::kRdmaWrite;
      const bool brings = softnic::brings_data(packet.opcode);
      // A program's atomic: those that are signals go by the key of words.
      const bool atomic = !brings && packet.opcode != mlx5::Opcode::kRdmaRead;
      const bool loose = job_.loose_atomics() && atomic && packet.rkey == kPayloadKey;
      // What goes through a relaxed key may be overtaken, and so may any WRITE where packets are
      // placed as they arrive: it vouches for nothing before it that is still under way.
      const bool overtakes = (writes && !job_.options_.placed_in_order) || loose;
      const bool relaxed =
          !atomic && key != nullptr && (key->access & softnic::kRelaxedOrdering) != 0;
      const bool unordered = relaxed || (overtakes && follows(peer, packet));
      AnswersTo answers{job_.network_, me_, peer};
      // READs and atomics read, and that pushes what this NIC wrote before.
      if (!brings && !(loose && unordered)) sim_.memory().push(simt::agent());
      sim_.memory().set_unordered(simt::agent(), unordered);
      softnic::RequestServer<AnswersTo>(pe_.port, static_cast<uint16_t>(peer + 1), answers,
                                        sim_.now_ns())
          .serve(packet, parcel.payload());
      sim_.memory().set_unordered(simt::agent(), false);
    }
  }

  /// True where something that its queue pair sent before the packet is not acknowledged: else who
  /// sent it has waited, as a fence does.
  bool follows(size_t peer, const softnic::Packet& packet) const {
    const softnic::QueuePair& sender = job_.pes_[peer]->qps[packet.source];
    return softnic::psn_distance(packet.psn, sender.send.acked_psn) > 1;
  }

  void advance_all() {
    WireEnd wire{job_.network_, me_};
    for (uint32_t qpn = 1; qpn < pe_.port.qp_count; ++qpn) {
      softnic::QueuePair& qp = pe_.qps[qpn];
      if (job_.options_.hears != Hears::kRecords && !pe_.awake[qpn]) continue;
      const uint32_t budget = 1 + sim_.random().below(4);
      const bool worked = softnic::advance(pe_.port, wire, qp, sim_.now_ns(), budget);
      if (!worked && !softnic::unsettled(qp)) pe_.awake[qpn] = false;
    }
  }

  Job& job_;
  simt::Simulation& sim_;
  Pe& pe_;
  size_t me_;
};

Job::Job(simt::Simulation& sim, const JobOptions& options)
    : sim_(sim),
      options_(options),
      network_(sim, options.direct ? 0 : options.n_pes, options.wire_faults) {
  if (loose_atomics()) sim.weaken(static_cast<unsigned>(Edge::kDataBeforeAtomic));
  for (int pe = 0; pe < options.n_pes; ++pe) {
    pes_.push_back(std::make_unique<Pe>());
    pes_.back()->number = pe;
    const std::string name = "heap of pe " + std::to_string(pe);
    pes_.back()->heap = static_cast<std::byte*>(sim.memory().allocate(options.heap_bytes, name));
  }
  for (int pe = 0; pe < options.n_pes; ++pe) make_pe(pe);
  if (options.direct) return;
  for (int pe = 0; pe < options.n_pes; ++pe) {
    const simt::Identity who{"nic " + std::to_string(pe), options.n_pes + pe};
    sim.serve(who, [this, pe] { Nic(*this, *pes_[static_cast<size_t>(pe)]).run(); });
  }
}

Job::~Job() = default;

void Job::make_pe(int number) {
  Pe& pe = *pes_[static_cast<size_t>(number)];
  simt::WeakMemory& memory = sim_.memory();
  const std::string of = " of pe " + std::to_string(number);
  const auto n = static_cast<uint32_t>(options_.n_pes);
  const uint32_t total = options_.direct ? 0 : n * options_.queues_per_peer;
  size_t used =
      0;  // queues to peers that are not mapped: the others have no memory but their state
  // No more entries than workloads have windows: all that a model knows of takes time.
  constexpr size_t kWindows = 4;
  pe.windows = static_cast<WindowTable*>(
      memory.allocate(offsetof(WindowTable, window) + kWindows * sizeof(Window), "windows" + of));
  pe.state = static_cast<ContextState*>(memory.allocate(sizeof(ContextState), "context" + of));
  pe.stop = static_cast<uint32_t*>(memory.allocate(64, "stop word" + of));
  pe.uar = static_cast<uint64_t*>(memory.allocate(64, "register" + of));
  for (uint32_t table = 0; table < kRkeyTables && !options_.direct; ++table) {
    auto* const keys = static_cast<NicKey*>(memory.allocate(n * sizeof(NicKey), "keys" + of));
    for (uint32_t peer = 0; peer < n; ++peer) keys[peer] = mlx5::key((table + 1) << 8);
    pe.rkeys.push_back(keys);
  }
  for (int peer = 0; peer < options_.n_pes; ++peer) {
    pe.direct.push_back(mapped(number, peer) ? heap(peer) : nullptr);
    if (!mapped(number, peer)) used += options_.queues_per_peer;
  }
  const bool routes = !options_.direct;
  pe.windows->window[0] = {pe.heap,
                           options_.heap_bytes,
                           {mlx5::key(kPayloadKey)},
                           routes ? rkeys(number, kPayloadKey) : nullptr,
                           routes ? rkeys(number, kWordKey) : nullptr,
                           routes && options_.map == nullptr ? nullptr : pe.direct.data()};
  pe.windows->count = 1;
  const uint32_t relaxed = options_.relaxed ? softnic::kRelaxedOrdering : 0u;
  key(number, 1) = {kPayloadKey, kPd, kEverything | relaxed, 0, options_.heap_bytes, pe.heap};
  key(number, 2) = {kWordKey, kPd, kEverything, 0, options_.heap_bytes, pe.heap};

  if (total != 0) {
    pe.queues =
        static_cast<SendQueue*>(memory.allocate(total * sizeof(SendQueue), "queues" + of, 128));
    const size_t words = mark_words(options_.queues_per_peer, n);
    pe.marks = static_cast<uint64_t*>(memory.allocate(words * 8, "marks" + of));
    pe.landing =
        static_cast<std::byte*>(memory.allocate(used * kLandingBytes, "landing cells" + of));
    pe.rings = static_cast<std::byte*>(
        memory.allocate(used * options_.depth * mlx5::kWqebbBytes, "rings" + of));
    pe.ready = static_cast<uint32_t*>(
        memory.allocate(used * options_.depth * sizeof(uint32_t), "ready" + of));
    pe.cqes = static_cast<mlx5::Cqe*>(memory.allocate(total * 64, "completions" + of));
    pe.records = static_cast<mlx5::DoorbellRecord*>(
        memory.allocate(total * sizeof(mlx5::DoorbellRecord), "doorbell records" + of));
    key(number, 3) = {kQueueKey, kPd, kEverything, 0, used * kLandingBytes, pe.landing};
  }
  pe.cqs.resize(total + 1);
  pe.qps = std::make_unique<softnic::QueuePair[]>(total + 1);
  pe.awake.resize(total + 1);
  pe.port.lid = static_cast<uint16_t>(number + 1);
  pe.port.keys = pe.keys.data();
  pe.port.key_count = kKeys;
  pe.port.cqs = pe.cqs.data();
  pe.port.qps = pe.qps.get();
  pe.port.cq_count = pe.port.qp_count = total + 1;
  pe.port.pages = pe.pages;  // whose registers are the simulation's
  pe.port.by_value = options_.hears == Hears::kValue;
  for (uint32_t i = 0; i < total; ++i) make_queue(pe, i);
  if (options_.faults.count != 0) {
    pe.faults = std::make_unique<softnic::Faults>();
    pe.faults->begin(options_.faults);
    pe.port.faults = pe.faults.get();
  }

  fill_in(pe, pe.state->fields);
}

void Job::fill_in(Pe& pe, ContextFields& ctx) {
  ctx.version = kContextVersion;
  ctx.bytes = sizeof(ContextFields);
  ctx.rails = 1;
  ctx.settle = options_.settle ? 1 : 0;
  ctx.pe = pe.number;
  ctx.n_pes = options_.n_pes;
  ctx.queues_per_peer = options_.direct ? 0 : options_.queues_per_peer;
  ctx.sync_rounds = sync_rounds(options_.n_pes);
  ctx.relaxed = unordered() ? 1 : 0;
  ctx.stores_stay = !options_.direct && options_.map == nullptr && !options_.settle ? 1 : 0;
  ctx.signals = options_.placed_in_order ? 0 : kSignalsSwap;
  ctx.heap = pe.windows->window[0];
  ctx.windows = pe.windows;
  ctx.queues = reinterpret_cast<std::byte*>(pe.queues);
  ctx.queue_stride = sizeof(SendQueue);
  ctx.marks = pe.marks;
  ctx.state = pe.state;
  ctx.stop = pe.stop;
  ctx.sync_flags = reinterpret_cast<uint64_t*>(pe.heap + options_.heap_bytes - kSyncBytes);
  ctx.timeout_ns = options_.timeout_ns;
  for (size_t i = 0; i < kNearPes && i < pe.direct.size(); ++i) ctx.near[i] = pe.direct[i];
}

void Job::make_queue(Pe& pe, uint32_t index) {
  SendQueue& q = pe.queues[index];
  q.stop = pe.stop;
  q.timeout_ns = options_.timeout_ns;
  q.rung = q.completed = q.settled = q.looked = options_.start;
  q.posted = posted_word(options_.start, 1);
  q.reserved = options_.start | kUnmarked;
  const auto n = static_cast<uint32_t>(options_.n_pes);
  q.peer = index % n;
  const uint32_t mark = mark_index(index / n, q.peer, n, options_.owned);
  q.marks = pe.marks + mark / 64;
  q.mark_bit = uint64_t{1} << mark % 64;
  if (mapped(pe.number, static_cast<int>(q.peer))) return;
  const size_t place = pe.used++;
  std::byte* const ring = pe.rings + place * options_.depth * mlx5::kWqebbBytes;
  q.nic.blocks = reinterpret_cast<mlx5::Wqebb*>(ring);
  q.nic.doorbell_record = &pe.records[index];
  q.nic.doorbell_record->send = Be32{static_cast<uint32_t>(options_.start & 0xffff)};
  q.nic.doorbell = pe.uar;
  q.nic.cqe = &pe.cqes[index];
  std::memset(static_cast<void*>(q.nic.cqe), 0xff, sizeof(mlx5::Cqe));
  q.ready = pe.ready + place * options_.depth;
  q.landing = reinterpret_cast<LandingCell*>(pe.landing + place * kLandingBytes);
  q.landing_address = place * kLandingBytes;
  q.landing_key = mlx5::key(kQueueKey);
  q.mask = options_.depth - 1;
  q.nic.qpn_shifted = Be32{(index + 1) << 8};
  q.nic.ring_twice = options_.hears != Hears::kRecords ? 1 : 0;
  q.fence = options_.fence;
  sim_.memory().guard(ring, size_t{options_.depth} * mlx5::kWqebbBytes);
  for (uint32_t cell = 0; cell < kLandingCells; ++cell) {
    sim_.memory().guard(&q.landing[cell].value, 8);
  }
  make_qp(pe, index);
}

void Job::make_qp(Pe& pe, uint32_t index) {
  const auto n = static_cast<uint32_t>(options_.n_pes);
  const uint32_t qpn = index + 1;
  const SendQueue& q = pe.queues[index];
  softnic::CompletionQueue& cq = pe.cqs[qpn];
  cq.exists = cq.collapsed = cq.ignore_overrun = true;
  cq.cqn = qpn;
  cq.buffer = reinterpret_cast<std::byte*>(q.nic.cqe);
  cq.writers = 1;

  softnic::QueuePair& qp = pe.qps[qpn];
  qp.exists = true;
  qp.qpn = qpn;
  qp.pd = kPd;
  qp.uar_page = kPage;
  qp.send_cq = qpn;
  qp.send_buffer = reinterpret_cast<std::byte*>(q.nic.blocks);
  qp.send_blocks = options_.depth;
  qp.doorbell = q.nic.doorbell_record;
  qp.attributes.access = kEverything;
  qp.attributes.atomic_mode = 3;
  qp.attributes.remote_qpn = index / n * n + static_cast<uint32_t>(pe.number) + 1;
  qp.attributes.remote_lid = static_cast<uint16_t>(q.peer + 1);
  qp.attributes.log_responder_depth = qp.attributes.log_initiator_depth = 4;
  qp.attributes.rnr_retry = 7;
  qp.send.acked_psn = softnic::kPsnMask;
  qp.send.posted = qp.send.next = qp.send.retired = options_.start;
  qp.send.told = static_cast<uint16_t>(options_.start);
  qp.state = options_.connected ? softnic::QpState::kReadyToSend : softnic::QpState::kInit;
}

void Job::launch(int pe, const simt::LaneGrid& grid, std::function<void()> kernel) {
  sim_.launch({"pe " + std::to_string(pe), pe}, grid, std::move(kernel));
}

void Job::launch_host(int pe, std::function<void()> body) {
  // A device of its own: nothing that stays on the GPU reaches it.
  sim_.launch({"host " + std::to_string(pe), 2 * options_.n_pes + pe}, {1, 1}, std::move(body));
}

std::byte* Job::heap(int pe) { return pes_[static_cast<size_t>(pe)]->heap; }

const ContextFields& Job::fields(int pe) { return pes_[static_cast<size_t>(pe)]->state->fields; }

SendQueue& Job::queue(int pe, int peer, uint32_t number) {
  return pes_[static_cast<size_t>(pe)]
      ->queues[number * static_cast<uint32_t>(options_.n_pes) + static_cast<uint32_t>(peer)];
}

WindowTable& Job::windows(int pe) { return *pes_[static_cast<size_t>(pe)]->windows; }
uint32_t* Job::stop_word(int pe) { return pes_[static_cast<size_t>(pe)]->stop; }
softnic::Key& Job::key(int pe, uint32_t index) {
  return pes_[static_cast<size_t>(pe)]->keys[index];
}
const NicKey* Job::rkeys(int pe, uint32_t number) {
  return pes_[static_cast<size_t>(pe)]->rkeys[(number >> 8) - 1];
}

std::byte* Job::add_host_window(int pe, size_t bytes, uint32_t like) {
  auto* const memory = static_cast<std::byte*>(
      sim_.memory().allocate(bytes, "host memory of pe " + std::to_string(pe)));
  sim_.memory().set_host_memory(memory, bytes);
  softnic::Key own = key(pe, like >> 8);
  own.number = kSecondKey;
  own.bytes = bytes;
  own.memory = memory;
  key(pe, 4) = own;
  const NicKey* const keys = rkeys(pe, kSecondKey);
  Window window{memory, bytes, {mlx5::key(kSecondKey)}, keys, keys, nullptr};
  window.off_gpu = window.dumped = 1;
  WindowTable& table = windows(pe);
  table.off_gpu = 1;
  table.window[1] = window;
  table.count = 2;
  return memory;
}

void Job::put_on_host(int pe) {
  Pe& own = *pes_[static_cast<size_t>(pe)];
  sim_.memory().set_host_memory(own.heap, options_.heap_bytes);
  sim_.memory().set_host_memory(own.landing, own.used * kLandingBytes);
  own.windows->off_gpu = 1;
  own.windows->window[0].dumped = own.state->fields.heap.dumped = 1;
}

void Job::connect(int pe) {
  Pe& own = *pes_[static_cast<size_t>(pe)];
  for (uint32_t qpn = 1; qpn < own.port.qp_count; ++qpn) {
    own.qps[qpn].state = softnic::QpState::kReadyToSend;
  }
}

std::string Job::complaints() {
  std::string text;
  const auto count = [&](uint64_t number, const std::string& what) {
    if (number != 0) text += what + " " + std::to_string(number) + ", ";
  };
  for (const std::unique_ptr<Pe>& pe : pes_) {
    const std::string nic = "nic " + std::to_string(pe->number) + ": ";
    const softnic::Violations& v = pe->port.violations;
    count(v.doorbell, nic + "doorbell record");
    count(v.index, nic + "wqe index");
    count(v.foreign_qpn, nic + "foreign qpn");
    count(v.truncated, nic + "truncated");
    count(v.malformed, nic + "malformed");
    for (uint32_t qpn = 1; qpn < pe->port.qp_count; ++qpn) {
      const bool failed = pe->qps[qpn].state == softnic::QpState::kError;
      if (failed) text += nic + "queue pair " + std::to_string(qpn) + " in error, ";
    }
  }
  return text;
}

}  // namespace peal::sim
