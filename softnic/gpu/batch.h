// SPDX-License-Identifier: Apache-2.0
//
// Which work requests the lanes of a warp may execute side by side, and which are left to the exact
// step of engine.h, one at a time.
//
//   lane i: block next + i -> Shot (NOP, WRITE or READ with valid keys, or kNone)
//   warp:   run_length() of them from the first on
//
// A WRITE to memory registered with relaxed ordering may overtake its neighbours until the next
// completion or strict access; any other ends its run and waits for everything before it. READs go
// with READs. Nothing here knows of lanes: a run is what masks say.
#pragma once

#include <cstdint>

#include "softnic/decode.h"
#include "softnic/objects.h"

namespace peal::softnic::gpu {

/// One block of a send queue, as fetched.
struct Block {
  uint32_t word[mlx5::kWqebbBytes / 4];  // big-endian
};

/// What decoding needs to know of a connected queue pair; constant while the kernel runs.
struct View {
  uint32_t qpn;
  uint32_t pd;
  const Key* keys;
  uint32_t key_count;
  uint32_t peer_key_count;
  const Key* peer_keys;
  uint32_t peer_pd;
  uint32_t peer_access;  // what the peer's queue pair allows, as Access bits
  uint8_t log_max_message;
};

/// A request that can do without the exact step.
struct Shot {
  enum class Kind : uint8_t { kNone, kNop, kWrite, kRead };
  Kind kind = Kind::kNone;
  bool strict = false;     // after everything before it
  bool signalled = false;  //
  uint32_t bytes = 0;
  std::byte* to = nullptr;
  std::byte* from = nullptr;  // null: inline, from word kInlineWord on
};

inline constexpr uint32_t kInlineWord = 9;  // after control, remote address and inline header

/// True when [to, to + bytes) is one word that a store writes whole.
PEAL_HD bool single_word(const std::byte* to, uint32_t bytes) {
  return (bytes == 8 || bytes == 4) && aligned(to, bytes);
}

/// Memory of a WRITE or READ at home: fills in where and how much. False when it is not plain.
PEAL_HD bool decode_home(const View& view, const Block& block, uint32_t units, Shot& shot) {
  const bool reads = shot.kind == Shot::Kind::kRead;
  const uint32_t count = Be32::from_raw(block.word[8]).host();
  shot.bytes = count & ~mlx5::kInlineFlag;
  if (shot.bytes == 0 || shot.bytes > 1ull << view.log_max_message) return false;
  if ((count & mlx5::kInlineFlag) != 0) return !reads && (shot.bytes + 4 + 15) / 16 == units - 2;
  if (units != 3) return false;
  const Key* key = find_key(view.keys, view.key_count, Be32::from_raw(block.word[9]).host());
  if (key == nullptr || key->pd != view.pd) return false;
  if (reads && (key->access & kLocalWrite) == 0) return false;
  const uint64_t address =
      uint64_t{Be32::from_raw(block.word[10]).host()} << 32 | Be32::from_raw(block.word[11]).host();
  std::byte* memory = locate(*key, address, shot.bytes);
  (reads ? shot.to : shot.from) = memory;
  return memory != nullptr;
}

/// Memory at the peer.
PEAL_HD bool decode_away(const View& view, const Block& block, Shot& shot) {
  const bool reads = shot.kind == Shot::Kind::kRead;
  const uint32_t right = reads ? kRemoteRead : kRemoteWrite;
  const Key* key =
      find_key(view.peer_keys, view.peer_key_count, Be32::from_raw(block.word[6]).host());
  if (key == nullptr || key->pd != view.peer_pd) return false;
  if ((key->access & view.peer_access & right) == 0) return false;
  const uint64_t address =
      uint64_t{Be32::from_raw(block.word[4]).host()} << 32 | Be32::from_raw(block.word[5]).host();
  std::byte* memory = locate(*key, address, shot.bytes);
  (reads ? shot.from : shot.to) = memory;
  shot.strict = !reads && (key->access & kRelaxedOrdering) == 0;
  return memory != nullptr;
}

/// Decodes the block at `index` of the send queue. Whatever is not exactly plain is kNone: the
/// exact step finds out what it is.
PEAL_HD Shot decode_shot(const View& view, const Block& block, uint64_t index) {
  Shot shot;
  const uint32_t head = Be32::from_raw(block.word[0]).host();
  const uint32_t qpn_ds = Be32::from_raw(block.word[1]).host();
  const uint32_t modes = Be32::from_raw(block.word[2]).host();
  const uint32_t units = qpn_ds & 0x3f;
  if (((head >> 8) & 0xffff) != (index & 0xffff) || qpn_ds >> 8 != view.qpn) return shot;
  // READs and atomics are never outstanding here, so the fences that wait for them are satisfied.
  const uint32_t fence = modes & 0xe0;
  if (units == 0 || units > kUnitsPerBlock ||
      fence == static_cast<uint32_t>(mlx5::Fence::kStrong) ||
      fence > static_cast<uint32_t>(mlx5::Fence::kFenceAndSmall)) {
    return shot;
  }
  shot.signalled = (modes & static_cast<uint32_t>(mlx5::Completion::kAlways)) != 0;
  switch (static_cast<mlx5::Opcode>(head & 0xff)) {
    case mlx5::Opcode::kNop:
      shot.kind = Shot::Kind::kNop;
      return shot;
    case mlx5::Opcode::kRdmaWrite:
      shot.kind = Shot::Kind::kWrite;
      break;
    case mlx5::Opcode::kRdmaRead:
      shot.kind = Shot::Kind::kRead;
      break;
    default:
      return shot;
  }
  bool plain =
      units >= 3 && decode_home(view, block, units, shot) && decode_away(view, block, shot);
  // The exact step stores scattered inline bytes so that the last of them appears last.
  if (shot.strict && shot.from == nullptr) plain = plain && single_word(shot.to, shot.bytes);
  if (!plain) shot.kind = Shot::Kind::kNone;
  return shot;
}

/// True when two requests write a byte in common: the later must win. A NOP's `to` is null.
PEAL_HD bool clash(const Shot& a, const Shot& b) {
  return a.to < b.to + b.bytes && b.to < a.to + a.bytes;
}

/// True when a request may be in a run that begins with one of kind `first`.
PEAL_HD bool joins(Shot::Kind first, Shot::Kind kind) {
  return kind == Shot::Kind::kNop || (kind == Shot::Kind::kRead) == (first == Shot::Kind::kRead);
}

PEAL_HD uint32_t lowest_bit(uint32_t mask) {
#if PEAL_ON_GPU
  return mask == 0 ? 32 : static_cast<uint32_t>(__ffs(static_cast<int>(mask)) - 1);
#else
  return mask == 0 ? 32 : static_cast<uint32_t>(__builtin_ctz(mask));
#endif
}

/// How many requests from lane 0 on go together. Bit i of each mask speaks of lane i: it has a
/// shot; its shot is strict; it clashes with one of an earlier lane. A strict one may only be the
/// last.
PEAL_HD uint32_t run_length(uint32_t plain, uint32_t strict, uint32_t clashing) {
  const uint32_t end = lowest_bit(~plain);
  const uint32_t after_strict = lowest_bit(strict) + 1;
  const uint32_t before_clash = lowest_bit(clashing);
  const uint32_t length = end < after_strict ? end : after_strict;
  return length < before_clash ? length : before_clash;
}

}  // namespace peal::softnic::gpu
