// SPDX-License-Identifier: Apache-2.0
//
// A NIC small enough to check by eye: reads the doorbell record, decodes WQEs by its own
// arithmetic on bytes, executes them between memories it was told of, writes the one CQE of a
// collapsed queue, and remembers all it saw. It never looks at the doorbell register.
//
// Invariant: shares nothing with the code under test but the wire format. step() belongs to one
// thread at a time.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "device/mlx5/layout.h"

namespace peal::testing {

inline uint64_t big_endian(const uint8_t* bytes, unsigned count) {
  uint64_t value = 0;
  for (unsigned i = 0; i < count; ++i) value = (value << 8) | bytes[i];
  return value;
}

/// Bytes as hexadecimal words of four: what the tables of the wire format look like.
inline std::string hex(const void* start, size_t bytes) {
  const auto* at = static_cast<const uint8_t*>(start);
  std::string text;
  for (size_t i = 0; i < bytes; ++i) {
    char digits[4];
    std::snprintf(digits, sizeof digits, "%s%02x", i != 0 && i % 4 == 0 ? " " : "", at[i]);
    text += digits;
  }
  return text;
}

/// One work request as it lay in the queue.
struct SeenWqe {
  uint64_t index;  ///< free-running
  std::vector<uint8_t> bytes;

  uint8_t opmod() const { return bytes[0]; }
  uint32_t wire_index() const { return static_cast<uint32_t>(big_endian(&bytes[1], 2)); }
  uint8_t opcode() const { return bytes[3]; }
  uint32_t qpn() const { return static_cast<uint32_t>(big_endian(&bytes[4], 3)); }
  uint32_t segments() const { return bytes[7]; }
  bool signalled() const { return (bytes[11] & 0x0c) == 0x08; }
  uint8_t fence() const { return bytes[11] & 0xe0; }
  uint64_t remote_address() const { return big_endian(&bytes[16], 8); }
  uint32_t rkey() const { return static_cast<uint32_t>(big_endian(&bytes[24], 4)); }
  std::string text() const { return hex(bytes.data(), bytes.size()); }

  /// The data segment that closes a read, an atomic or a write that is not inline.
  const uint8_t* data() const { return &bytes[bytes.size() - 16]; }
  uint32_t data_bytes() const { return static_cast<uint32_t>(big_endian(data(), 4)); }
  uint32_t lkey() const { return static_cast<uint32_t>(big_endian(data() + 4, 4)); }
  uint64_t local_address() const { return big_endian(data() + 8, 8); }
};

/// The memory of one send queue, as the NIC was told of it.
struct QueuePlace {
  const uint8_t* blocks;
  uint32_t depth;
  const uint32_t* record;  ///< the send half of the doorbell record
  uint8_t* cqe;
  uint32_t qpn;
  uint64_t start;  ///< index of the first WQE
};

class FakeNic {
 public:
  explicit FakeNic(const QueuePlace& place)
      : place_(place), head_(place.start), announced_(place.start) {}

  /// Makes memory reachable under a key, by offset from `base`. WQEs with other keys move no data.
  void know(uint32_t key, void* base) { memory_[key] = static_cast<uint8_t*>(base); }

  /// The WQE at `index` fails; those behind it are flushed.
  void fail(uint64_t index, mlx5::Syndrome syndrome, uint8_t vendor) {
    failure_ = Failure{index, static_cast<uint8_t>(syndrome), vendor};
  }

  /// Executes up to `limit` WQEs that the doorbell record announces; returns how many.
  size_t step(size_t limit = std::numeric_limits<size_t>::max()) {
    look_at_record();
    size_t done = 0;
    for (; done < limit && head_ != announced_; ++done) execute_next();
    return done;
  }

  const std::vector<SeenWqe>& seen() const { return seen_; }
  /// What a real NIC would have stumbled over; empty when all is well.
  const std::string& complaints() const { return complaints_; }

  void write_cqe(const SeenWqe& wqe, mlx5::CqeOpcode opcode, uint8_t syndrome = 0,
                 uint8_t vendor = 0) {
    const uint32_t syndromes = static_cast<uint32_t>(vendor) << 8 | syndrome;
    __atomic_store_n(reinterpret_cast<uint32_t*>(place_.cqe) + 13, __builtin_bswap32(syndromes),
                     __ATOMIC_RELAXED);
    const uint64_t last = static_cast<uint64_t>(wqe.opcode()) << 56 | uint64_t{wqe.qpn()} << 32 |
                          wqe.wire_index() << 16 | static_cast<uint64_t>(opcode) << 4;
    __atomic_store_n(reinterpret_cast<uint64_t*>(place_.cqe) + 7, __builtin_bswap64(last),
                     __ATOMIC_RELEASE);
  }

 private:
  struct Failure {
    uint64_t index;
    uint8_t syndrome;
    uint8_t vendor;
  };

  void complain(const std::string& what) {
    complaints_ += "WQE " + std::to_string(head_) + ": " + what + "\n";
  }

  void look_at_record() {
    const uint32_t record = __builtin_bswap32(__atomic_load_n(place_.record, __ATOMIC_ACQUIRE));
    if (record > 0xffff) complain("doorbell record over 16 bits");
    const uint64_t news = (record - announced_) & 0xffff;
    if (announced_ + news - head_ > place_.depth) {
      complain("doorbell record went back, or more is posted than fits");
      return;
    }
    announced_ += news;
  }

  void execute_next() {
    const SeenWqe wqe = fetch();
    const uint64_t blocks = (wqe.bytes.size() + 63) / 64;
    if (wqe.wire_index() != (head_ & 0xffff)) complain("index is not the slot's");
    if (wqe.qpn() != place_.qpn) complain("names another queue pair");
    if (head_ + blocks - 1 - place_.start >= announced_ - place_.start) {
      complain("is longer than what was announced");
      head_ = announced_;
      return;
    }
    seen_.push_back(wqe);
    head_ += blocks;
    if (failure_ && wqe.index >= failure_->index) {
      const bool first = wqe.index == failure_->index;
      write_cqe(wqe, mlx5::CqeOpcode::kRequesterError, first ? failure_->syndrome : 0x05,
                first ? failure_->vendor : 0);
      return;
    }
    perform(wqe);
    if (wqe.signalled()) write_cqe(wqe, mlx5::CqeOpcode::kRequester);
  }

  SeenWqe fetch() const {
    const uint8_t* first = place_.blocks + (head_ & (place_.depth - 1)) * 64;
    const uint32_t segments = first[7] & 0x3f;
    SeenWqe wqe{head_, std::vector<uint8_t>(size_t{segments < 1 ? 1 : segments} * 16)};
    for (size_t at = 0; at < wqe.bytes.size(); at += 16) {
      const uint64_t slot = (head_ + at / 64) & (place_.depth - 1);
      std::memcpy(&wqe.bytes[at], place_.blocks + slot * 64 + at % 64, 16);
    }
    return wqe;
  }

  uint8_t* at(uint32_t key, uint64_t offset) const {
    const auto found = memory_.find(key);
    return found == memory_.end() ? nullptr : found->second + offset;
  }

  void perform(const SeenWqe& wqe) {
    switch (wqe.opcode()) {
      case 0x00:
      case 0x23:  // DUMP: reads and forgets
        return;
      case 0x08:
        return write(wqe);
      case 0x10:
        return copy(at(wqe.lkey(), wqe.local_address()), at(wqe.rkey(), wqe.remote_address()),
                    wqe.data_bytes());
      case 0x11:
      case 0x12:
      case 0x14:
      case 0x15:
        return wqe.opmod() == 0x08 ? atomic4(wqe) : atomic8(wqe);
      default:
        complain("opcode " + std::to_string(wqe.opcode()));
    }
  }

  void write(const SeenWqe& wqe) {
    uint8_t* to = at(wqe.rkey(), wqe.remote_address());
    const auto head = static_cast<uint32_t>(big_endian(&wqe.bytes[32], 4));
    if ((head & 0x80000000u) != 0) return copy(to, &wqe.bytes[36], head & 0x7fffffffu);
    copy(to, at(wqe.lkey(), wqe.local_address()), head);
  }

  // Aligned words arrive whole, as a waiting kernel expects.
  static void copy(uint8_t* to, const uint8_t* from, size_t bytes) {
    if (to == nullptr || from == nullptr) return;
    const auto place = reinterpret_cast<uintptr_t>(to);
    if (bytes == 8 && place % 8 == 0) {
      uint64_t word;
      std::memcpy(&word, from, 8);
      __atomic_store_n(reinterpret_cast<uint64_t*>(to), word, __ATOMIC_RELEASE);
    } else if (bytes == 4 && place % 4 == 0) {
      uint32_t word;
      std::memcpy(&word, from, 4);
      __atomic_store_n(reinterpret_cast<uint32_t*>(to), word, __ATOMIC_RELEASE);
    } else {
      std::memcpy(to, from, bytes);
    }
  }

  // Sum with the carry cut behind every bit of `boundary`.
  static uint64_t add_cut(uint64_t a, uint64_t b, uint64_t boundary) {
    uint64_t sum = 0;
    uint64_t carry = 0;
    for (unsigned bit = 0; bit < 64; ++bit) {
      const uint64_t ones = (a >> bit & 1) + (b >> bit & 1) + carry;
      sum |= (ones & 1) << bit;
      carry = (boundary >> bit & 1) != 0 ? 0 : ones >> 1;
    }
    return sum;
  }

  void atomic8(const SeenWqe& wqe) {
    auto* word = reinterpret_cast<uint64_t*>(at(wqe.rkey(), wqe.remote_address()));
    if (word == nullptr) return;
    const uint8_t* operands = &wqe.bytes[32];
    const uint64_t first = big_endian(operands, 8);
    const uint64_t second = big_endian(operands + 8, 8);
    const uint64_t old = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    uint64_t fresh = old;
    if (wqe.opcode() == 0x12) fresh = old + first;
    if (wqe.opcode() == 0x11 && old == second) fresh = first;
    if (wqe.opcode() == 0x15) fresh = add_cut(old, first, second);
    if (wqe.opcode() == 0x14) {
      const uint64_t swap_mask = big_endian(operands + 16, 8);
      const uint64_t compare_mask = big_endian(operands + 24, 8);
      if (((old ^ second) & compare_mask) == 0) fresh = (old & ~swap_mask) | (first & swap_mask);
    }
    __atomic_store_n(word, fresh, __ATOMIC_RELEASE);
    copy(at(wqe.lkey(), wqe.local_address()), reinterpret_cast<const uint8_t*>(&old), 8);
  }

  void atomic4(const SeenWqe& wqe) {
    auto* word = reinterpret_cast<uint32_t*>(at(wqe.rkey(), wqe.remote_address()));
    if (word == nullptr) return;
    const uint8_t* operands = &wqe.bytes[32];
    const auto first = static_cast<uint32_t>(big_endian(operands, 4));
    const auto second = static_cast<uint32_t>(big_endian(operands + 4, 4));
    const uint32_t old = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    uint32_t fresh = old;
    if (wqe.opcode() == 0x15) fresh = static_cast<uint32_t>(add_cut(old, first, second));
    if (wqe.opcode() == 0x14) {
      const auto swap_mask = static_cast<uint32_t>(big_endian(operands + 8, 4));
      const auto compare_mask = static_cast<uint32_t>(big_endian(operands + 12, 4));
      if (((old ^ second) & compare_mask) == 0) fresh = (old & ~swap_mask) | (first & swap_mask);
    }
    __atomic_store_n(word, fresh, __ATOMIC_RELEASE);
    const uint32_t answer = __builtin_bswap32(old);  // four-byte results arrive big-endian
    copy(at(wqe.lkey(), wqe.local_address()), reinterpret_cast<const uint8_t*>(&answer), 4);
  }

  QueuePlace place_;
  uint64_t head_;
  uint64_t announced_;
  std::map<uint32_t, uint8_t*> memory_;
  std::optional<Failure> failure_;
  std::vector<SeenWqe> seen_;
  std::string complaints_;
};

}  // namespace peal::testing
