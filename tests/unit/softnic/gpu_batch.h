// SPDX-License-Identifier: Apache-2.0
//
// A block of a send queue, written word by word, and the keys that it may name at both ends.
#pragma once

#include <cstring>

#include "gtest/gtest.h"
#include "softnic/gpu/batch.h"

namespace peal::softnic::gpu {

using mlx5::Completion;
using mlx5::Fence;
using mlx5::Opcode;
using Kind = Shot::Kind;

constexpr uint32_t kQpn = 0x123;
constexpr uint32_t kPd = 3;
constexpr uint32_t kPeerPd = 4;
constexpr uint32_t kHome = 1 << 8 | 7;      // readable only
constexpr uint32_t kWritable = 2 << 8 | 7;  // at home
constexpr uint32_t kStrict = 1 << 8 | 9;    // at the peer
constexpr uint32_t kRelaxed = 2 << 8 | 9;
constexpr uint32_t kReadOnly = 3 << 8 | 9;
constexpr uint32_t kAtomic = 4 << 8 | 9;

class Batch : public ::testing::Test {
 protected:
  Batch() {
    keys[1] = {.number = kHome, .pd = kPd, .access = 0, .bytes = 4096, .memory = home};
    keys[2] = {
        .number = kWritable, .pd = kPd, .access = kLocalWrite, .bytes = 4096, .memory = home};
    const uint32_t all = kLocalWrite | kRemoteWrite | kRemoteRead;
    away_keys[1] = {.number = kStrict, .pd = kPeerPd, .access = all, .bytes = 4096, .memory = away};
    away_keys[2] = away_keys[1];
    away_keys[2].number = kRelaxed;
    away_keys[2].access = all | kRelaxedOrdering;
    away_keys[3] = away_keys[1];
    away_keys[3].number = kReadOnly;
    away_keys[3].access = kRemoteRead;
    away_keys[4] = away_keys[2];
    away_keys[4].number = kAtomic;
    away_keys[4].access |= kRemoteAtomic;
    view = {.qpn = kQpn,
            .pd = kPd,
            .keys = keys,
            .key_count = 4,
            .peer_key_count = 5,
            .peer_keys = away_keys,
            .peer_pd = kPeerPd,
            .peer_access = kRemoteWrite | kRemoteRead | kRemoteAtomic,
            .log_max_message = 30,
            .any_placement = false,
            .home = {},
            .away = {}};
    write_inline(kRelaxed, 8);
  }

  void head(Opcode opcode, uint32_t units) {
    set(0, 5u << 8 | static_cast<uint32_t>(opcode));
    set(1, kQpn << 8 | units);
    set(2, static_cast<uint32_t>(Completion::kAlways));
    set(4, 0);
    set(5, 64);  // remote address
  }
  void write_inline(uint32_t rkey, uint32_t bytes) {
    head(Opcode::kRdmaWrite, 2 + (bytes + 4 + 15) / 16);
    set(6, rkey);
    set(8, bytes | mlx5::kInlineFlag);
  }
  void transfer(Opcode opcode, uint32_t rkey, uint32_t lkey, uint32_t bytes) {
    head(opcode, 3);
    set(6, rkey);
    set(8, bytes);
    set(9, lkey);
    set(10, 0);
    set(11, 128);  // local address
  }
  void atomic(Opcode opcode, uint32_t rkey, uint32_t lkey, uint32_t bytes, uint32_t opmod = 0) {
    head(opcode, 4);
    set(0, opmod << 24 | 5u << 8 | static_cast<uint32_t>(opcode));
    set(6, rkey);
    for (uint32_t i = 0; i < 4; ++i) set(8 + i, 0x100 + i);
    set(12, bytes);
    set(13, lkey);
    set(14, 0);
    set(15, 128);
  }
  void set(uint32_t word, uint32_t value) { block.word[word] = Be32(value).raw; }
  /// A masked compare-swap on 8 bytes; its answer's segment is what lies behind.
  Behind swap(uint32_t rkey, uint32_t lkey) {
    atomic(Opcode::kAtomicMaskedCompareSwap, rkey, lkey, 8, mlx5::kOpmodAtomic8);
    Behind behind = {.blocks = 1, .tail = {}, .inlined = nullptr};
    for (uint32_t i = 0; i < 4; ++i) behind.tail.word[i] = block.word[12 + i];
    for (uint32_t i = 0; i < 8; ++i) set(8 + i, 0x200 + i);
    set(1, kQpn << 8 | 5);
    return behind;
  }
  Shot decoded() const { return decode_shot(view, block, 0x10005); }

  alignas(64) std::byte home[4096];
  alignas(64) std::byte away[4096];
  Key keys[4];
  Key away_keys[5];
  View view = {};
  FetchedBlock block = {};
};

}  // namespace peal::softnic::gpu
