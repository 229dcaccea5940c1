// SPDX-License-Identifier: Apache-2.0
//
// The fast path of the GPU's engine against the engine, on random requests.
#include <memory>

#include "softnic/engine/engine.h"
#include "softnic/gpu/kernel.h"
#include "tests/unit/softnic/gpu_batch.h"

namespace peal::softnic::gpu {
namespace {

/// A request as the engine executes it, between two ports of this process.
struct Exact {
  explicit Exact(Key* home_keys, Key* away_keys) {
    for (Port* port : {&mine, &theirs}) {
      port->cqs = cqs;
      port->cq_count = port->qp_count = 2;
    }
    mine.lid = 1;
    mine.keys = home_keys;
    mine.key_count = 4;
    mine.qps = senders.get();
    mine.qp_count = kQpn + 1;
    theirs.lid = 2;
    theirs.keys = away_keys;
    theirs.key_count = 5;
    theirs.qps = receivers.get();
    cqs[1].exists = cqs[1].ignore_overrun = cqs[1].collapsed = true;
    cqs[1].buffer = cqe;
    prepare(senders[kQpn], kQpn, kPd, 1, theirs.lid);
    prepare(receivers[1], 1, kPeerPd, kQpn, mine.lid);
    QueuePair& qp = senders[kQpn];
    qp.send_buffer = ring;
    qp.send_blocks = 8;
    qp.doorbell = &record;
    qp.send_cq = 1;
  }
  static void prepare(QueuePair& qp, uint32_t qpn, uint32_t pd, uint32_t peer, uint16_t lid) {
    qp.exists = true;
    qp.qpn = qpn;
    qp.pd = pd;
    qp.state = QpState::kReadyToSend;
    qp.attributes.remote_qpn = peer;
    qp.attributes.remote_lid = lid;
    qp.attributes.access = kRemoteWrite | kRemoteRead | kRemoteAtomic;
    qp.attributes.atomic_mode = 3;
  }
  /// True when the request completes without an error.
  bool executes(const FetchedBlock& block, uint64_t index) {
    QueuePair& qp = senders[kQpn];
    memcpy(ring + (index & 7) * sizeof(block), &block, sizeof(block));
    record.send = Be32(static_cast<uint32_t>(index + 1) & 0xffff);
    qp.send.posted = qp.send.next = qp.send.retired = index;
    qp.send.psn = receivers[1].receive.expected_psn = 0;
    Port* ports[] = {nullptr, &mine, &theirs};
    DirectWire wire{ports, 3};
    for (int i = 0; i < 4; ++i) advance(mine, wire, qp, 1, 1);
    return qp.state == QpState::kReadyToSend && qp.send.retired == index + 1;
  }

  alignas(64) std::byte ring[8 * 64] = {};
  alignas(64) std::byte cqe[64] = {};
  mlx5::DoorbellRecord record = {};
  CompletionQueue cqs[2];
  std::unique_ptr<QueuePair[]> senders = std::make_unique<QueuePair[]>(kQpn + 1);
  std::unique_ptr<QueuePair[]> receivers = std::make_unique<QueuePair[]>(2);
  Port mine, theirs;
};

// The fast path says again what the engine's rules are. What it takes the engine executes, and it
// moves the same bytes to the same place.
TEST_F(Batch, TakesWhatTheEngineExecutesAlike) {
  Exact exact(keys, away_keys);
  uint32_t seed = 7;
  const auto random = [&seed] { return (seed = seed * 1664525 + 1013904223) >> 8; };
  uint32_t taken[5] = {};
  for (uint32_t round = 0; round < 40000; ++round) {
    const uint32_t rkeys[] = {kStrict, kRelaxed, kReadOnly, kAtomic};
    const Opcode atomics[] = {Opcode::kAtomicCompareSwap, Opcode::kAtomicFetchAdd,
                              Opcode::kAtomicMaskedFetchAdd, Opcode::kAtomicMaskedCompareSwap};
    const uint32_t lkey = random() % 2 != 0 ? kHome : kWritable;
    for (uint32_t& word : block.word) word = random();
    block.word[3] = 0;
    switch (random() % 4) {
      case 0:
        write_inline(rkeys[random() % 4], random() % 30);
        break;
      case 1:
        transfer(Opcode::kRdmaRead, rkeys[random() % 4], lkey, random() % 200);
        break;
      case 2:
        atomic(atomics[random() % 4], rkeys[random() % 4], lkey, random() % 2 != 0 ? 8 : 4,
               random() % 4 == 0 ? mlx5::kOpmodAtomic4 : random() % 2 * mlx5::kOpmodAtomic8);
        break;
      default:
        transfer(Opcode::kRdmaWrite, rkeys[random() % 4], lkey, random() % 200);
    }
    if (random() % 3 == 0) block.word[random() % 16] ^= 1u << random() % 32;
    if (random() % 4 == 0) set(5, random() % 4200);
    const Shot shot = decoded();
    if (shot.kind == Kind::kNone) continue;
    ++taken[static_cast<int>(shot.kind)];
    for (size_t i = 0; i < sizeof home; ++i) home[i] = away[i] = static_cast<std::byte>(random());
    std::byte bytes[sizeof home] = {};
    const bool moves = shot.kind == Kind::kWrite || shot.kind == Kind::kRead;
    if (moves) {
      const void* from = shot.from != nullptr ? shot.from : static_cast<void*>(&block.word[9]);
      memcpy(bytes, from, shot.bytes);
    }
    const uint64_t index = 0x10005;
    ASSERT_TRUE(exact.executes(block, index)) << round;
    if (moves) {
      ASSERT_EQ(memcmp(shot.to, bytes, shot.bytes), 0) << round;
    }
  }
  for (const Kind kind : {Kind::kWrite, Kind::kRead, Kind::kAtomic}) {
    EXPECT_GT(taken[static_cast<int>(kind)], 300u);
  }
}

}  // namespace
}  // namespace peal::softnic::gpu
