// SPDX-License-Identifier: Apache-2.0
//
// Two ports in one thread and a wire between them that loses what a seed tells it to lose; the test
// sets the time.
//
//   Pair pair(loss);  pair.a.post(...);  pair.step() or run_until(completions)
#pragma once

#include <deque>
#include <random>

#include "softnic/engine/engine.h"
#include "softnic/engine/serve.h"
#include "tests/support/parcel.h"
#include "tests/unit/softnic/support.h"

namespace peal::softnic::testing {

/// Loses packets of either direction with a probability.
struct LossyWire {
  static constexpr uint32_t kSegment = 256;
  std::mt19937 random;
  double loss = 0;
  bool gone = false;
  std::deque<Parcel> requests = {};
  std::deque<Parcel> answers = {};
  uint64_t sent = 0;

  bool loses() { return std::uniform_real_distribution<>(0, 1)(random) < loss; }
  Port* direct(uint16_t) { return nullptr; }
  SendStatus open(uint16_t, uint64_t& generation) {
    generation = 1;
    return gone ? SendStatus::kLost : SendStatus::kSent;
  }
  uint32_t segment_bytes(uint16_t) { return kSegment; }
  SendStatus send(uint16_t, const Packet& packet, const Payload& payload) {
    if (requests.size() >= 64) return SendStatus::kFull;
    ++sent;
    if (!loses()) requests.emplace_back(packet, payload);
    return SendStatus::kSent;
  }
  uint64_t position(uint16_t) { return sent; }
  uint64_t consumed(uint16_t) { return sent; }
  bool lost(uint16_t, uint64_t) { return gone; }

  void acknowledge(const Packet& packet) { answer(packet, Payload{0, 0, {}}); }
  void answer(const Packet& packet, const Payload& payload) {
    if (!loses()) answers.emplace_back(packet, payload);
  }
};
static_assert(PacketWire<LossyWire> && Replies<LossyWire>);

/// A port with one queue pair and one region, all plain memory.
struct Side {
  static constexpr uint32_t kQpn = 1;
  static constexpr uint32_t kKey = 1 << 8;
  static constexpr uint32_t kBlocks = 64;

  Pages queue{kBlocks * 64};
  Pages cqes{64 * 1024};
  Pages memory{1 << 16};
  Pages doorbell{4096};
  std::vector<Key> keys = std::vector<Key>(2);
  std::vector<CompletionQueue> cqs = std::vector<CompletionQueue>(2);
  std::unique_ptr<QueuePair[]> qps = std::make_unique<QueuePair[]>(2);
  std::unique_ptr<Port> port = std::make_unique<Port>();
  std::vector<std::byte> fetched = std::vector<std::byte>(kBlocks * 64);
  uint64_t posted = 0;
  uint64_t seen = 0;

  explicit Side(uint16_t lid, uint16_t peer, uint32_t psn = 0) {
    keys[1] = {.number = kKey,
               .pd = 1,
               .access = kEverything,
               .bytes = memory.bytes(),
               .memory = as_registered(memory.data())};
    cqs[1].exists = cqs[1].ignore_overrun = true;
    cqs[1].cqn = 1;
    cqs[1].log_entries = 10;
    cqs[1].buffer = as_queue(cqes.data());
    std::memset(cqes.data(), 0xf0, cqes.bytes());
    QueuePair& qp = qps[1];
    qp.exists = true;
    qp.state = QpState::kReadyToSend;
    qp.qpn = kQpn;
    qp.pd = qp.send_cq = qp.receive_cq = 1;
    qp.send_buffer = as_queue(queue.data());
    qp.fetched = fetched.data();
    qp.send_blocks = kBlocks;
    qp.receive_buffer = as_queue(memory.data());
    qp.receive_entries = 1u << 15;
    qp.doorbell = as_queue(doorbell.as<mlx5::DoorbellRecord>());
    qp.attributes.access = kEverything;
    qp.attributes.atomic_mode = 3;
    qp.attributes.remote_qpn = kQpn;
    qp.attributes.remote_lid = peer;
    qp.attributes.log_initiator_depth = 2;
    qp.attributes.ack_timeout = 8;
    qp.attributes.retry_count = 7;
    qp.attributes.rnr_retry = 7;
    qp.attributes.min_rnr_timer = 1;
    qp.send.psn = qp.receive.expected_psn = psn & kPsnMask;
    qp.send.acked_psn = (psn - 1) & kPsnMask;
    port->lid = lid;
    port->keys = keys.data();
    port->cqs = cqs.data();
    port->qps = qps.get();
    port->key_count = port->cq_count = port->qp_count = 2;
  }
  QueuePair& qp() { return qps[1]; }
  mlx5::DoorbellRecord& record() { return *doorbell.as<mlx5::DoorbellRecord>(); }

  /// Starts all running counts at `index`, as after that many blocks.
  void start_at(uint64_t index) {
    posted = index;
    qp().send.posted = qp().send.next = qp().send.retired = index;
    publish();
  }
  void post(const Wqe& wqe) {
    mlx5::ControlSegment control;
    control.opmod_idx_opcode =
        Be32(uint32_t{wqe.opmod} << 24 | (static_cast<uint32_t>(posted) & 0xffff) << 8 |
             static_cast<uint32_t>(wqe.opcode));
    control.qpn_ds = Be32(kQpn << 8 | wqe.units());
    control.signature_fm_ce_se =
        Be32(static_cast<uint32_t>(wqe.fence) | static_cast<uint32_t>(wqe.completion));
    control.imm = Be32(wqe.immediate);
    std::vector<std::byte> bytes(16);
    std::memcpy(bytes.data(), &control, 16);
    bytes.insert(bytes.end(), wqe.body.begin(), wqe.body.end());
    for (size_t i = 0; i < bytes.size(); ++i) {
      queue.data()[(posted * 64 + i) % queue.bytes()] = bytes[i];
    }
    posted += (wqe.units() + 3) / 4;
    publish();
  }
  void publish() {
    store<uint32_t>(&record().send, Be32(static_cast<uint32_t>(posted) & 0xffff).raw);
  }
  bool room() { return posted - qp().send.retired + 4 <= kBlocks; }
  uint64_t completions() { return cqs[1].produced; }
  SeenCqe cqe(uint64_t n) { return Cq::decode(cqes.data() + (n % 1024) * 64); }
};

/// Two sides and the wire from `a` to `b`, stepped by hand.
struct Pair {
  explicit Pair(double loss, uint32_t seed = 1, uint32_t psn = 0)
      : a(1, 2, psn), b(2, 1, psn), wire{.random = std::mt19937(seed), .loss = loss} {}

  void step() {
    advance(*a.port, wire, a.qp(), now, 16);
    RequestServer<LossyWire> server(*b.port, 1, wire, now);
    for (int i = 0; i < 8 && !wire.requests.empty(); ++i) {
      const Parcel parcel = wire.requests.front();
      wire.requests.pop_front();
      server.serve(parcel.packet, parcel.payload());
    }
    while (!wire.answers.empty()) {
      const Parcel parcel = wire.answers.front();
      wire.answers.pop_front();
      take_answer(*a.port, parcel.packet, parcel.payload(), now);
    }
    now += 200'000;
  }
  /// Steps until `n` completions; false after too many steps.
  bool run_until(uint64_t n) {
    for (int i = 0; i < 200'000 && a.completions() < n; ++i) step();
    return a.completions() >= n;
  }
  Side a;
  Side b;
  LossyWire wire;
  uint64_t now = 1;
};

}  // namespace peal::softnic::testing
