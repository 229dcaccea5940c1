// SPDX-License-Identifier: Apache-2.0
//
// How fast one engine thread decodes, executes and completes 8-byte inline WRITEs: one queue pair
// connected to itself, 64 WQEs a doorbell, the last one signalled.
//
//   EngineSteps     the engine called directly, WQEs composed by the same thread
//   EngineThread    a whole NIC with its own thread, doorbells by this one
//
// Counter "wqe" is WQEs a second; the bar is 10 M/s.
#include <benchmark/benchmark.h>

#include <cstring>
#include <memory>
#include <vector>

#include "device/mlx5/wqe.h"
#include "softnic/engine/engine.h"
#include "softnic/nic.h"

namespace peal::softnic {
namespace {

constexpr uint32_t kLogBlocks = 10;
constexpr uint32_t kBlocks = 1u << kLogBlocks;
constexpr uint32_t kBatch = 64;

struct alignas(64) Queues {
  std::byte send[kBlocks * 64];
  std::byte cqe[64];
  uint64_t memory[64];
  mlx5::DoorbellRecord doorbell;
  uint64_t cq_doorbell;
};

/// 8-byte inline WRITEs, each of its index to word index mod 64; the last one is signalled.
uint32_t post_batch(Queues& queues, uint32_t posted, uint32_t qpn, uint32_t rkey) {
  using enum mlx5::Completion;
  for (uint32_t i = 0; i < kBatch; ++i, ++posted) {
    const mlx5::Header header{.index = posted,
                              .qpn_shifted = Be32{qpn << 8},
                              .completion = i + 1 == kBatch ? kAlways : kOnError};
    const auto wqe =
        mlx5::compose(header, nic::WriteWord<8>{{posted % 64 * 8, mlx5::key(rkey)}, posted});
    std::memcpy(queues.send + (posted % kBlocks) * 64, &wqe, sizeof wqe);
  }
  store<uint32_t>(&queues.doorbell.send, Be32(posted & 0xffff).raw);
  return posted;
}

/// Index after the WQE that completed last, in 16 bits; all ones before the first.
uint16_t completed(const Queues& queues) {
  const uint64_t last = load<uint64_t>(queues.cqe + 56);
  return static_cast<uint16_t>(Be32::from_raw(static_cast<uint32_t>(last >> 32)).host() >> 16);
}

struct NoWire {
  Port* port;
  Port* direct(uint16_t) { return port; }
  SendStatus open(uint16_t, uint64_t&) { return SendStatus::kAbsent; }
  uint32_t segment_bytes(uint16_t) { return 1; }
  SendStatus send(uint16_t, const Packet&, const Payload&) { return SendStatus::kAbsent; }
  uint64_t position(uint16_t) { return 0; }
  uint64_t consumed(uint16_t) { return 0; }
  bool lost(uint16_t, uint64_t) { return false; }
};

void EngineSteps(benchmark::State& state) {
  auto queues = std::make_unique<Queues>();
  std::vector<Key> keys(2);
  std::vector<CompletionQueue> cqs(2);
  auto qps = std::make_unique<QueuePair[]>(2);
  constexpr uint32_t kKey = 1 << 8;
  keys[1] = {.number = kKey,
             .pd = 1,
             .access = kLocalWrite | kRemoteWrite,
             .bytes = sizeof(queues->memory),
             .memory = reinterpret_cast<std::byte*>(queues->memory)};
  cqs[1].exists = cqs[1].collapsed = cqs[1].ignore_overrun = true;
  cqs[1].buffer = queues->cqe;
  QueuePair& qp = qps[1];
  qp.exists = true;
  qp.state = QpState::kReadyToSend;
  qp.qpn = qp.pd = qp.send_cq = 1;
  qp.send_buffer = queues->send;
  qp.send_blocks = kBlocks;
  qp.doorbell = &queues->doorbell;
  qp.attributes.access = kRemoteWrite;
  qp.attributes.remote_qpn = qp.attributes.remote_lid = 1;
  Port port;
  port.lid = 1;
  port.keys = keys.data();
  port.key_count = 2;
  port.cqs = cqs.data();
  port.cq_count = 2;
  port.qps = qps.get();
  port.qp_count = 2;
  NoWire wire{&port};
  uint32_t posted = 0;
  for (auto _ : state) {
    posted = post_batch(*queues, posted, 1, kKey);
    advance(port, wire, qp, posted, kBatch);
    if (completed(*queues) != static_cast<uint16_t>(posted - 1)) {
      return state.SkipWithError("a batch did not complete");
    }
  }
  if (queues->memory[(posted - 1) % 64] != posted - 1) state.SkipWithError("wrong data");
  state.counters["wqe"] = benchmark::Counter(posted, benchmark::Counter::kIsRate);
}
BENCHMARK(EngineSteps);

void EngineThread(benchmark::State& state) {
  auto queues = std::make_unique<Queues>();
  std::memset(queues->cqe, 0xff, 64);
  const auto nic = SoftwareNic::open();
  const uint32_t pd = nic->allocate_pd().number;
  const uint32_t key =
      nic->register_memory({.pd = pd,
                            .access = kLocalWrite | kRemoteWrite,
                            .bytes = sizeof(queues->memory),
                            .memory = reinterpret_cast<std::byte*>(queues->memory)})
          .number;
  const uint32_t cqn =
      nic->create_cq(
             {.buffer = queues->cqe, .log_entries = 0, .collapsed = true, .ignore_overrun = true})
          .number;
  QueuePairConfig config;
  config.pd = pd;
  config.send_cq = cqn;
  config.send_buffer = queues->send;
  config.log_send_blocks = kLogBlocks;
  config.doorbell = &queues->doorbell;
  const uint32_t qpn = nic->create_qp(config).number;
  QueuePairAttributes attributes;
  attributes.access = kRemoteWrite;
  attributes.remote_qpn = qpn;
  attributes.remote_lid = nic->lid();
  QpState from = QpState::kReset;
  for (const QpState to : {QpState::kInit, QpState::kReadyToReceive, QpState::kReadyToSend}) {
    attributes.state = to;
    if (nic->modify_qp(qpn, from, attributes).refused()) return state.SkipWithError("modify_qp");
    from = to;
  }
  uint32_t posted = 0;
  uint16_t done = 0;
  for (auto _ : state) {
    while (static_cast<uint16_t>(posted - done) > kBlocks - kBatch) {
      done = static_cast<uint16_t>(completed(*queues) + 1);
    }
    posted = post_batch(*queues, posted, qpn, key);
  }
  while (completed(*queues) != static_cast<uint16_t>(posted - 1)) {
  }
  if (queues->memory[(posted - 1) % 64] != posted - 1) state.SkipWithError("wrong data");
  state.counters["wqe"] = benchmark::Counter(posted, benchmark::Counter::kIsRate);
  nic->destroy_qp(qpn);
}
BENCHMARK(EngineThread)->UseRealTime();

}  // namespace
}  // namespace peal::softnic

BENCHMARK_MAIN();
