// SPDX-License-Identifier: Apache-2.0
//
// A client of the software NIC in a few lines: memory, keys, completion queues, queue pairs, and
// work requests written by hand into the send queue, byte for byte as the manual says.
//
//   Client client(nic);  auto a = client.connect_to_self();  a.post(write_inline(...));  a.ring();
//   Cqe cqe = a.cq.await();
#pragma once

#include <atomic>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "device/mlx5/layout.h"
#include "gtest/gtest.h"
#include "softnic/nic.h"

namespace peal::softnic::testing {

using mlx5::Completion;
using mlx5::CqeOpcode;
using mlx5::Fence;
using mlx5::Opcode;
using mlx5::Syndrome;

inline constexpr uint32_t kEverything = kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic;
inline constexpr auto kPatience = std::chrono::seconds(60);

/// Repeats `done` until it holds; false when the deadline passed first.
template <class Condition>
bool eventually(Condition done, std::chrono::nanoseconds patience = kPatience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

/// Zeroed memory aligned as queues need it.
class Pages {
 public:
  explicit Pages(size_t bytes)
      : bytes_(bytes),
        memory_(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{4096}))) {
    std::memset(memory_.get(), 0, bytes);
  }
  std::byte* data() const { return memory_.get(); }
  size_t bytes() const { return bytes_; }
  template <class T>
  T* as(size_t offset = 0) const {
    return reinterpret_cast<T*>(data() + offset);
  }
  uint64_t address(size_t offset = 0) const { return reinterpret_cast<uint64_t>(data()) + offset; }

 private:
  struct Free {
    void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{4096}); }
  };
  size_t bytes_;
  std::unique_ptr<std::byte, Free> memory_;
};

/// Memory of the host that counts as a GPU's (tests/support/gpu_memory.sh): an engine that touches
/// it but by this copier faults. The bytes of one copy come in any order: here the last ones first.
struct HostCopier : GpuCopier {
  void copy(void* to, const void* from, size_t bytes, bool) override {
    const size_t last = bytes < 8 ? bytes : 8;
    const size_t first = bytes - last;
    place(without_mark(to) + first, without_mark(from) + first, last);
    place(without_mark(to), without_mark(from), first);
  }
};

/// `memory`, as a GPU's where the variable says so.
template <class T>
T* as_variable_says(const char* variable, T* memory) {
  const char* const set = std::getenv(variable);
  if (set == nullptr || std::string_view(set) != "gpu") return memory;
  static HostCopier copier;
  gpu_copier = &copier;
  return reinterpret_cast<T*>(with_mark(reinterpret_cast<std::byte*>(memory)));
}
/// What a key names; what is a queue, a CQ, a doorbell record.
inline std::byte* as_registered(std::byte* memory) {
  return as_variable_says("PEAL_TEST_REGIONS", memory);
}
template <class T>
T* as_queue(T* memory) {
  return as_variable_says("PEAL_TEST_QUEUES", memory);
}

/// What a completion says.
struct SeenCqe {
  CqeOpcode kind = CqeOpcode::kInvalid;
  Syndrome syndrome = Syndrome::kNone;
  uint8_t wqe_opcode = 0;
  uint32_t qpn = 0;
  uint16_t counter = 0;
  uint32_t bytes = 0;
  uint32_t immediate = 0;  // host order
  uint32_t user_index = 0;
  uint32_t owner = 0;
};

/// A completion queue read as libmlx5 reads it: slot n mod entries, owner bit against the lap.
class Cq {
 public:
  struct Options {
    uint32_t log_entries = 8;
    uint32_t cqe_bytes = 64;
    bool collapsed = false;
    bool ignore_overrun = true;
    uint8_t fill = 0xf0;
  };
  Cq(SoftwareNic& nic, Options options)
      : nic_(nic),
        options_(options),
        buffer_((size_t{options.cqe_bytes} << options.log_entries) + 4096),
        doorbell_(4096) {
    std::memset(buffer_.data(), options.fill, size_t{options.cqe_bytes} << options.log_entries);
    const Created created = nic.create_cq({.buffer = as_queue(buffer_.data()),
                                           .doorbell = as_queue(doorbell_.data()),
                                           .log_entries = options.log_entries,
                                           .cqe_bytes = options.cqe_bytes,
                                           .collapsed = options.collapsed,
                                           .ignore_overrun = options.ignore_overrun});
    EXPECT_FALSE(created.refusal.refused()) << created.refusal.reason;
    cqn = created.number;
  }
  ~Cq() { nic_.destroy_cq(cqn); }
  Cq(const Cq&) = delete;
  Cq& operator=(const Cq&) = delete;

  std::byte* slot(uint64_t n) const {
    const uint64_t at = options_.collapsed ? 0 : n & ((1ull << options_.log_entries) - 1);
    return buffer_.data() + at * options_.cqe_bytes + options_.cqe_bytes - 64;
  }
  /// The last word of a slot, with acquire.
  uint64_t last_word(uint64_t n) const {
    return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(slot(n) + 56))
        .load(std::memory_order_acquire);
  }
  bool ready() const {
    const auto op_own = static_cast<uint8_t>(last_word(next_) >> 56);
    const uint32_t lap = static_cast<uint32_t>(next_ >> options_.log_entries) & 1;
    return (op_own >> 4) != 0xf && (op_own & 1u) == lap;
  }
  std::optional<SeenCqe> poll() {
    if (!ready()) return std::nullopt;
    const SeenCqe cqe = decode(slot(next_));
    ++next_;
    return cqe;
  }
  SeenCqe await() {
    if (!eventually([&] { return ready(); })) {
      ADD_FAILURE() << "no completion " << next_;
      return {};
    }
    return *poll();
  }
  /// True when nothing more arrived, judged by the NIC's own count.
  bool quiet() const { return nic_.cq_produced(cqn) == next_; }
  void consume(uint32_t index) {
    std::atomic_ref<uint32_t>(*doorbell_.as<uint32_t>())
        .store(Be32(index & 0xffffff).raw, std::memory_order_release);
  }
  static SeenCqe decode(const std::byte* at) {
    mlx5::Cqe raw;
    for (uint32_t i = 0; i < 8; ++i) {
      const uint64_t word = std::atomic_ref<uint64_t>(
                                *reinterpret_cast<uint64_t*>(const_cast<std::byte*>(at) + i * 8))
                                .load(std::memory_order_relaxed);
      std::memcpy(reinterpret_cast<std::byte*>(&raw) + i * 8, &word, 8);
    }
    SeenCqe cqe;
    const uint32_t last = raw.counter_sig_op_own.host();
    cqe.kind = static_cast<CqeOpcode>(last >> 4 & 0xf);
    cqe.owner = last & 1;
    cqe.counter = static_cast<uint16_t>(last >> 16);
    if (cqe.kind == CqeOpcode::kRequesterError || cqe.kind == CqeOpcode::kResponderError) {
      cqe.syndrome =
          static_cast<Syndrome>(reinterpret_cast<const uint8_t*>(&raw)[mlx5::kCqeSyndromeByte]);
    }
    cqe.wqe_opcode = static_cast<uint8_t>(raw.opcode_qpn.host() >> 24);
    cqe.qpn = raw.opcode_qpn.host() & 0xffffff;
    cqe.bytes = raw.byte_count.host();
    cqe.immediate = raw.imm.host();
    cqe.user_index = raw.srqn_user_index.host();
    return cqe;
  }

  uint32_t cqn = 0;

 private:
  SoftwareNic& nic_;
  Options options_;
  Pages buffer_;
  Pages doorbell_;
  uint64_t next_ = 0;
};

/// Memory with a key on it; addresses are offsets unless `iova` says otherwise.
struct Region {
  Region(SoftwareNic& nic, uint32_t pd, size_t bytes, uint32_t access = kEverything,
         uint64_t iova = 0)
      : nic_(nic), pages(bytes) {
    const Created created = nic.register_memory({.pd = pd,
                                                 .access = access,
                                                 .iova = iova,
                                                 .bytes = bytes,
                                                 .memory = as_registered(pages.data())});
    EXPECT_FALSE(created.refusal.refused()) << created.refusal.reason;
    key = created.number;
  }
  ~Region() {
    if (key != 0) nic_.deregister_memory(key);
  }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  template <class T>
  T load(size_t offset) const {
    return std::atomic_ref<T>(*pages.as<T>(offset)).load(std::memory_order_acquire);
  }
  template <class T>
  void store(size_t offset, T value) const {
    std::atomic_ref<T>(*pages.as<T>(offset)).store(value, std::memory_order_release);
  }

 private:
  SoftwareNic& nic_;

 public:
  Pages pages;
  uint32_t key = 0;
};

/// A WQE as a list of 16-byte segments; control is filled in when it is posted.
struct Wqe {
  Opcode opcode = Opcode::kNop;
  uint8_t opmod = 0;
  Completion completion = Completion::kAlways;
  Fence fence = Fence::kNone;
  uint32_t immediate = 0;
  std::vector<std::byte> body = {};  // after the control segment

  // What a broken client would write instead.
  std::optional<uint32_t> ds = std::nullopt;
  std::optional<uint32_t> qpn = std::nullopt;
  uint16_t index_error = 0;

  template <class Segment>
  Wqe& add(const Segment& segment) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&segment);
    body.insert(body.end(), bytes, bytes + sizeof(segment));
    return *this;
  }
  Wqe& with(Completion mode) {
    completion = mode;
    return *this;
  }
  Wqe& with(Fence mode) {
    fence = mode;
    return *this;
  }
  Wqe& remote(uint64_t address, uint32_t rkey) {
    return add(mlx5::RemoteAddressSegment{Be64(address), Be32(rkey), Be32(0xdeadbeef)});
  }
  Wqe& data(uint32_t bytes, uint32_t lkey, uint64_t address) {
    return add(mlx5::DataSegment{Be32(bytes), Be32(lkey), Be64(address)});
  }
  Wqe& inline_data(const void* from, uint32_t bytes) {
    const size_t start = body.size();
    add(Be32(bytes | mlx5::kInlineFlag));
    const auto* first = static_cast<const std::byte*>(from);
    body.insert(body.end(), first, first + bytes);
    while ((body.size() - start) % 16 != 0) body.push_back(std::byte{0xee});
    return *this;
  }
  uint32_t units() const { return 1 + static_cast<uint32_t>((body.size() + 15) / 16); }
};

inline Wqe nop() { return {}; }
template <class T>
Wqe write_inline(uint64_t address, uint32_t rkey, T value) {
  Wqe wqe{.opcode = Opcode::kRdmaWrite};
  return wqe.remote(address, rkey).inline_data(&value, sizeof(value));
}
inline Wqe write_from(uint64_t address, uint32_t rkey, uint32_t bytes, uint32_t lkey,
                      uint64_t local) {
  Wqe wqe{.opcode = Opcode::kRdmaWrite};
  return wqe.remote(address, rkey).data(bytes, lkey, local);
}
inline Wqe read_into(uint64_t address, uint32_t rkey, uint32_t bytes, uint32_t lkey,
                     uint64_t local) {
  Wqe wqe{.opcode = Opcode::kRdmaRead};
  return wqe.remote(address, rkey).data(bytes, lkey, local);
}
inline Wqe fetch_add(uint64_t address, uint32_t rkey, uint64_t value, uint32_t lkey,
                     uint64_t local) {
  Wqe wqe{.opcode = Opcode::kAtomicFetchAdd};
  return wqe.remote(address, rkey)
      .add(mlx5::AtomicSegment{Be64(value), Be64(0)})
      .data(8, lkey, local);
}
inline Wqe wait_for(uint32_t cqn, uint32_t index) {
  Wqe wqe{.opcode = Opcode::kWait};
  return wqe.add(mlx5::WaitSegment{Be64(0x1122334455667788), Be32(index), Be32(cqn)});
}

/// A queue pair and its queues.
class Qp {
 public:
  struct Options {
    Service service = Service::kReliable;
    uint32_t log_blocks = 6;
    uint32_t log_receives = 4;
    bool receives = false;
    bool sends = true;
    uint32_t user_index = 0x123;
  };
  Qp(SoftwareNic& nic, uint32_t pd, Cq& send_cq, Cq& receive_cq, Options options)
      : nic_(nic),
        blocks_(1u << options.log_blocks),
        queue_(size_t{64} << options.log_blocks),
        receive_queue_(size_t{16} << options.log_receives),
        doorbell_(4096),
        page_(4096) {
    QueuePairConfig config;
    config.uar_page = uar = nic.attach_uar(page_.data()).number;
    config.service = options.service;
    config.pd = pd;
    config.user_index = options.user_index;
    config.send_cq = options.sends ? send_cq.cqn : 0;
    config.receive_cq = options.receives ? receive_cq.cqn : 0;
    if (options.sends) config.send_buffer = as_queue(queue_.data());
    config.log_send_blocks = options.log_blocks;
    if (options.receives) config.receive_buffer = as_queue(receive_queue_.data());
    config.log_receive_entries = options.log_receives;
    config.doorbell = as_queue(doorbell_.as<mlx5::DoorbellRecord>());
    const Created created = nic.create_qp(config);
    EXPECT_FALSE(created.refusal.refused()) << created.refusal.reason;
    qpn = created.number;
  }
  ~Qp() {
    if (qpn != 0) nic_.destroy_qp(qpn);
    nic_.detach_uar(uar);
  }
  Qp(const Qp&) = delete;
  Qp& operator=(const Qp&) = delete;

  QueuePairAttributes attributes = [] {
    QueuePairAttributes a;
    a.access = kRemoteWrite | kRemoteRead | kRemoteAtomic;
    a.atomic_mode = 3;
    a.mtu = 5;
    a.log_responder_depth = 4;
    a.log_initiator_depth = 4;
    a.ack_timeout = 14;
    a.retry_count = 3;
    a.rnr_retry = 3;
    a.min_rnr_timer = 1;
    return a;
  }();

  Refusal to(QpState state, QpState from) {
    attributes.state = state;
    return nic_.modify_qp(qpn, from, attributes);
  }
  void to_init() { EXPECT_FALSE(to(QpState::kInit, QpState::kReset).refused()); }
  void to_receive(uint16_t lid, uint32_t remote) {
    attributes.remote_lid = lid;
    attributes.remote_qpn = remote;
    const Refusal r = to(QpState::kReadyToReceive, QpState::kInit);
    EXPECT_FALSE(r.refused()) << r.reason;
  }
  void to_send() {
    const Refusal r = to(QpState::kReadyToSend, QpState::kReadyToReceive);
    EXPECT_FALSE(r.refused()) << r.reason;
  }
  void connect(uint16_t lid, uint32_t remote) {
    to_init();
    to_receive(lid, remote);
    to_send();
  }
  void reset() {
    EXPECT_FALSE(to(QpState::kReset, QpState::kError).refused());
    std::memset(doorbell_.data(), 0, 8);
    posted_ = received_ = 0;
  }
  QueuePairAttributes query() const {
    QueuePairAttributes answer;
    EXPECT_FALSE(nic_.query_qp(qpn, &answer).refused());
    return answer;
  }

  /// Writes a WQE at the next free block; answers its index.
  uint16_t post(const Wqe& wqe) {
    const auto index = static_cast<uint16_t>(posted_);
    const uint32_t ds = wqe.ds.value_or(wqe.units());
    mlx5::ControlSegment control;
    const uint32_t shown = static_cast<uint16_t>(index + wqe.index_error);
    control.opmod_idx_opcode =
        Be32(uint32_t{wqe.opmod} << 24 | shown << 8 | static_cast<uint32_t>(wqe.opcode));
    control.qpn_ds = Be32(wqe.qpn.value_or(qpn) << 8 | ds);
    control.signature_fm_ce_se =
        Be32(0xaabbcc00 | static_cast<uint32_t>(wqe.fence) | static_cast<uint32_t>(wqe.completion));
    control.imm = Be32(wqe.immediate);
    put(0, &control, sizeof(control));
    put(16, wqe.body.data(), wqe.body.size());
    posted_ += std::max<uint32_t>(1, (wqe.units() + 3) / 4);
    return index;
  }
  void ring() { ring(posted_); }
  void ring(uint32_t count) {
    record(count);
    press({Be32((count & 0xffff) << 8), Be32(qpn << 8)});
  }
  /// The two halves of ringing.
  void record(uint32_t count) {
    std::atomic_ref<uint32_t>(doorbell_.as<uint32_t>()[1])
        .store(Be32(count & 0xffff).raw, std::memory_order_release);
  }
  struct Doorbell {
    Be32 index;
    Be32 qpn_ds;
  };
  void press(Doorbell value, size_t reg = 0x800) {
    std::atomic_ref<uint64_t>(*page_.as<uint64_t>(reg))
        .store(std::bit_cast<uint64_t>(value), std::memory_order_release);
  }
  void post_receives(uint32_t count) {
    received_ += count;
    std::atomic_ref<uint32_t>(doorbell_.as<uint32_t>()[0])
        .store(Be32(received_ & 0xffff).raw, std::memory_order_release);
  }
  uint32_t posted() const { return posted_; }
  uint32_t blocks() const { return blocks_; }
  std::byte* queue() const { return queue_.data(); }

  uint32_t qpn = 0;
  uint32_t uar = 0;

 private:
  void put(size_t offset, const void* from, size_t bytes) {
    const size_t ring = size_t{blocks_} * 64;
    for (size_t i = 0; i < bytes; ++i) {
      const size_t at = (size_t{posted_} * 64 + offset + i) % ring;
      queue_.data()[at] = static_cast<const std::byte*>(from)[i];
    }
  }
  SoftwareNic& nic_;
  uint32_t blocks_;
  Pages queue_;
  Pages receive_queue_;
  Pages doorbell_;
  Pages page_;
  uint32_t posted_ = 0;
  uint32_t received_ = 0;
};

/// One NIC with a domain and two queues; most tests connect queue pairs to each other on it.
class SoftNic : public ::testing::Test {
 protected:
  void SetUp() override {
    nic = SoftwareNic::open();
    pd = nic->allocate_pd().number;
    cq = std::make_unique<Cq>(*nic, Cq::Options{});
    receive_cq = std::make_unique<Cq>(*nic, Cq::Options{});
  }
  std::unique_ptr<Qp> make_qp(Qp::Options options = {}) {
    return std::make_unique<Qp>(*nic, pd, *cq, *receive_cq, options);
  }
  std::unique_ptr<Qp> make_loop(Qp::Options options = {}) {
    auto qp = make_qp(options);
    qp->connect(nic->lid(), qp->qpn);
    return qp;
  }
  /// Posts, rings, and answers the completion.
  SeenCqe run(Qp& qp, const Wqe& wqe) {
    qp.post(wqe);
    qp.ring();
    return cq->await();
  }

  std::shared_ptr<SoftwareNic> nic;
  uint32_t pd = 0;
  std::unique_ptr<Cq> cq;
  std::unique_ptr<Cq> receive_cq;
};

}  // namespace peal::softnic::testing
