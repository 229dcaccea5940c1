// SPDX-License-Identifier: Apache-2.0
//
// A NIC for the fuzz targets: a port, its keys and queues, each in an allocation of exactly its
// size, so that AddressSanitizer sees a step beyond any of them. Some memory must never change,
// whatever the queues of this NIC are asked: it belongs to another domain, or may only be read.
//
//   queue pairs:  1 to the peer's 1   2 to itself   3 DC initiator   4 DC target
//   receives:     a ring of each, or the one shared queue
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "softnic/engine/engine.h"
#include "tests/fuzz/input.h"

namespace peal::fuzz {

using namespace peal::softnic;

/// Memory of exactly `bytes` bytes, aligned as queues need it.
class Exact {
 public:
  explicit Exact(size_t bytes, int fill = 0)
      : bytes_(bytes),
        memory_(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{64}))) {
    std::memset(memory_.get(), fill, bytes);
  }
  std::byte* data() const { return memory_.get(); }
  size_t bytes() const { return bytes_; }
  bool holds_only(int fill) const {
    return std::all_of(data(), data() + bytes_,
                       [fill](std::byte b) { return b == std::byte(fill); });
  }

 private:
  struct Free {
    void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{64}); }
  };
  size_t bytes_;
  std::unique_ptr<std::byte, Free> memory_;
};

inline constexpr uint32_t kQps = 5;  // number 0 stays empty
inline constexpr uint32_t kCqs = 3;
inline constexpr uint32_t kKeys = 8;
inline constexpr uint64_t kDcKey = 0x1122334455667788;
inline constexpr uint32_t kEverything = kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic;
inline constexpr int kCanary = 0x5a;

class Station {
 public:
  /// `config` decides about queue sizes, rights and retries.
  Station(Input& config, uint16_t lid, uint16_t peer)
      : log_blocks(2 + config.below(4)),
        log_cqes(config.below(5)),
        foreign(128, kCanary),
        read_only(64, kCanary) {
    port->lid = lid;
    port->keys = keys.get();
    port->cqs = cqs.get();
    port->qps = qps.get();
    port->dc_connections = connections.get();
    port->key_count = kKeys;
    port->cq_count = kCqs;
    port->qp_count = kQps;
    port->srqs = srqs.get();
    port->srq_count = 2;
    port->dc_connection_count = 4;
    make_cqs(config);
    make_keys();
    make_srq();
    for (uint32_t qpn = 1; qpn < kQps; ++qpn) make_qp(config, qpn, qpn == 2 ? lid : peer);
  }

  QueuePair& qp(uint32_t qpn) { return qps[qpn]; }
  /// Number of key `i`; some were never given, or are no longer valid.
  uint32_t key(uint32_t i) const { return i < kKeys ? keys[i].number : i << 8 | 1; }
  /// Takes a key's memory away and gives its index to a new registration of the same memory.
  void renew(uint32_t i) {
    if (i > 0 && i < kKeys)
      keys[i].number = (keys[i].number & ~0xffu) | ((keys[i].number + 1) & 0xff);
  }
  void set_doorbell(uint32_t qpn, uint32_t value) {
    store<uint32_t>(&qps[qpn].doorbell->send, Be32(value & 0xffff).raw);
  }
  /// One entry of a shared queue changes too: its link, which may lead out of the queue, and its
  /// list.
  void post_receives(uint32_t qpn, uint32_t value) {
    if (qps[qpn].shared_receive_queue != 0) {
      const uint32_t place = value % srqs[1].entries;
      LinkSegment link = {};
      link.next[0] = static_cast<uint8_t>(value == 0xff);
      link.next[1] = static_cast<uint8_t>((value >> 3) % 9);
      const uint32_t i = value % (kKeys + 1);
      const uint64_t where = i < kKeys ? keys[i].iova : 0;
      const mlx5::DataSegment segment{Be32(value), Be32(key(i)), Be64(where)};
      std::memcpy(shared_entry(srqs[1], place), &link, sizeof(link));
      std::memcpy(shared_entry(srqs[1], place) + sizeof(link), &segment, sizeof(segment));
      store<uint32_t>(&srqs[1].doorbell->receive, Be32(value & 0xffff).raw);
    }
    store<uint32_t>(&qps[qpn].doorbell->receive, Be32(value & 0xffff).raw);
  }
  void consume_cqes(uint32_t cqn, uint32_t value) {
    store<uint32_t>(cqs[cqn].doorbell, Be32(value & 0xffffff).raw);
  }
  /// Copies bytes into the send ring from block `index` on.
  void put(uint32_t qpn, uint64_t index, const void* from, size_t bytes) {
    const size_t ring = size_t{qps[qpn].send_blocks} * 64;
    for (size_t i = 0; i < bytes; ++i) {
      qps[qpn].send_buffer[(index * 64 + i) % ring] = static_cast<const std::byte*>(from)[i];
    }
  }
  /// As a modify command does it.
  void reset(uint32_t qpn) {
    QueuePair& it = qps[qpn];
    const QueuePairAttributes attributes = it.attributes;
    lived += it.send.posted + it.receive.posted + 1;
    it.send = {};
    it.receive = {};
    it.doorbell->send = it.doorbell->receive = Be32(0u);
    it.attributes = attributes;
    it.state = it.service == Service::kDcTarget ? QpState::kReadyToReceive : QpState::kReadyToSend;
    it.send.acked_psn = kPsnMask;
  }

  /// What holds whatever a client does.
  void check() {
    uint64_t could_complete = lived;
    for (uint32_t qpn = 1; qpn < kQps; ++qpn) {
      const Sender& send = qps[qpn].send;
      require(send.retired <= send.next && send.next <= send.posted);
      require(send.posted - send.retired <= qps[qpn].send_blocks);
      require(send.tail - send.head <= Sender::kWindow && send.reads <= send.tail - send.head);
      const Receiver& receive = qps[qpn].receive;
      require(receive.consumed <= receive.posted);
      could_complete += send.posted + receive.posted + 1;
    }
    const SharedReceiveQueue& srq = srqs[1];
    require(srq.taken <= srq.posted && srq.posted - srq.taken < srq.entries);
    require(srq.next < srq.entries);
    could_complete += srq.taken;
    require(cqs[1].produced + cqs[2].produced <= could_complete);
    require(foreign.holds_only(kCanary) && read_only.holds_only(kCanary));
  }

  uint32_t log_blocks;
  uint32_t log_cqes;
  std::unique_ptr<Port> port = std::make_unique<Port>();
  uint64_t lived = 0;  // what queue pairs had posted before they were reset

 private:
  std::byte* keep(size_t bytes, int fill = 0) { return kept_.emplace_back(bytes, fill).data(); }

  void make_cqs(Input& config) {
    for (uint32_t cqn = 1; cqn < kCqs; ++cqn) {
      CompletionQueue& cq = cqs[cqn];
      const uint8_t mode = config.byte();
      cq.exists = true;
      cq.cqn = cqn;
      cq.collapsed = (mode & 1) != 0;
      cq.ignore_overrun = (mode & 2) != 0;
      cq.cqe_bytes = (mode & 4) != 0 ? 128 : 64;
      cq.log_entries = log_cqes;
      cq.buffer = keep(size_t{cq.cqe_bytes} << (cq.collapsed ? 0 : log_cqes), 0xf0);
      cq.doorbell = keep(8);
      cq.writers = 2;
    }
  }
  void make_keys() {
    const auto add = [this](uint32_t i, uint32_t pd, uint32_t access, uint64_t iova,
                            std::byte* memory, size_t bytes) {
      keys[i] = {i << 8 | 0x11, pd, access, iova, bytes, memory};
    };
    add(1, 1, kEverything, 0, keep(1024), 1024);
    add(2, 1, kEverything, 0x10000, keep(99), 99);
    add(3, 1, kRemoteRead, 0, read_only.data(), read_only.bytes());
    add(4, 2, kEverything, 0, foreign.data(), foreign.bytes());
    add(5, 1, kLocalWrite, 0, keep(256), 256);
    add(6, 1, kEverything | kRelaxedOrdering, ~0ull - 63, keep(64), 64);
  }
  void make_srq() {
    SharedReceiveQueue& srq = srqs[1];
    srq.exists = true;
    srq.srqn = srq.pd = 1;
    srq.entries = 8;
    srq.stride = 32;
    srq.buffer = keep(8 * 32);
    srq.doorbell = reinterpret_cast<mlx5::DoorbellRecord*>(keep(8));
    srq.limit = 3;
    srq.users = 2;
  }
  void make_qp(Input& config, uint32_t qpn, uint16_t remote) {
    static constexpr uint8_t kTimeouts[] = {8, 14, 20, 0};
    QueuePair& it = qps[qpn];
    const uint8_t rights = config.byte();
    const uint8_t retries = config.byte();
    it.exists = true;
    it.service = qpn == 3   ? Service::kDcInitiator
                 : qpn == 4 ? Service::kDcTarget
                            : Service::kReliable;
    it.state = it.service == Service::kDcTarget ? QpState::kReadyToReceive : QpState::kReadyToSend;
    it.qpn = qpn;
    it.pd = 1;
    it.send_cq = 1;
    it.receive_cq = 2;
    it.user_index = 0xabcd00 + qpn;
    it.send_blocks = it.service == Service::kDcTarget ? 0 : 1u << log_blocks;
    if (it.send_blocks > 0) it.send_buffer = keep(size_t{64} << log_blocks);
    if (qpn == 2) {  // a ring that its own requests may write
      keys[7] = {7 << 8 | 0x11, 1, kEverything, 0, size_t{64} << log_blocks, it.send_buffer};
    }
    if ((rights & 0x40) != 0) {
      it.shared_receive_queue = 1;
    } else {
      it.receive_entries = 8;
      it.receive_buffer = keep(8 * 16);
    }
    it.doorbell = reinterpret_cast<mlx5::DoorbellRecord*>(keep(8));
    QueuePairAttributes& a = it.attributes;
    a.access = (rights & 1) != 0 ? kRemoteWrite : kRemoteWrite | kRemoteRead | kRemoteAtomic;
    a.atomic_mode = (rights & 2) != 0 ? 0 : 3;
    a.responder_depth_valid = (rights & 4) == 0;
    a.log_initiator_depth = rights >> 3 & 3;
    a.log_max_message = (rights & 0x20) != 0 ? 6 : 30;
    a.remote_qpn = qpn;
    a.remote_lid = remote;
    a.min_rnr_timer = 1;
    a.ack_timeout = kTimeouts[retries & 3];
    a.retry_count = retries >> 2 & 7;
    a.rnr_retry = retries >> 5 & 7;
    a.dc_access_key = kDcKey;
    it.send.acked_psn = kPsnMask;
  }

  std::vector<Exact> kept_;

 public:
  Exact foreign;
  Exact read_only;
  std::unique_ptr<Key[]> keys = std::make_unique<Key[]>(kKeys);
  std::unique_ptr<CompletionQueue[]> cqs = std::make_unique<CompletionQueue[]>(kCqs);
  std::unique_ptr<SharedReceiveQueue[]> srqs = std::make_unique<SharedReceiveQueue[]>(2);
  std::unique_ptr<QueuePair[]> qps = std::make_unique<QueuePair[]>(kQps);
  std::unique_ptr<DcConnection[]> connections = std::make_unique<DcConnection[]>(4);
};

}  // namespace peal::fuzz
