// SPDX-License-Identifier: Apache-2.0
//
// Which work requests the lanes of a warp may execute side by side, and which are left to the exact
// step of engine.h, one at a time.
//
//   lane i: block next + i -> Shot (NOP, WRITE, READ or atomic with valid keys, or kNone)
//   warp:   run_length() of them from the first on, in segments: relaxed ones, then a strict one
//
// A request of several blocks is its first lane's; the lanes of the others do nothing (insides()).
// WRITEs to memory registered with relaxed ordering may overtake their neighbours until the next
// completion or strict access; a strict one (a WRITE to other memory, an atomic) waits for
// everything before it. READs go with READs. Nothing here knows of lanes: a run is what masks say.
#pragma once

#include <cstdint>

#include "softnic/engine/decode.h"
#include "softnic/engine/objects.h"
#include "softnic/engine/responder.h"

namespace peal::softnic::gpu {

/// One block of a send queue, as fetched.
struct FetchedBlock {
  uint32_t word[mlx5::kWqebbBytes / 4];  // big-endian
};

/// First segment of the block after it.
struct Tail {
  uint32_t word[mlx5::kSegmentBytes / 4];
};

/// What is known of the blocks after one, for a request of several.
struct Behind {
  uint32_t blocks = 0;           // how many there are
  Tail tail = {};                //
  std::byte* inlined = nullptr;  // the request's inline bytes in the queue; null: not in a row
};

/// Keys that were found before, one of each ordering, so that the next request which names one
/// finds it nearby.
struct HotKeys {
  Key strict;  // number 0: none yet
  Key relaxed;

  /// The one that `number` names, if either does.
  PEAL_HD const Key& likely(uint32_t number) const {
    return number == strict.number ? strict : relaxed;
  }
  PEAL_HD const Key* find(const Key* keys, uint32_t count, uint32_t number) const {
    const Key& key = likely(number);
    return number == key.number && number != 0 ? &key : find_key(keys, count, number);
  }
  PEAL_HD bool hold(const Key* key) const { return key == &strict || key == &relaxed; }
  PEAL_HD void keep(const Key& key) {
    ((key.access & kRelaxedOrdering) != 0 ? relaxed : strict) = key;
  }
};

/// What decoding needs to know of a connected queue pair; constant while the kernel runs, but for
/// the keys it keeps at hand.
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
  bool any_placement;  // no WRITE waits for another
  HotKeys home;
  HotKeys away;
};

/// A request that can do without the exact step.
struct Shot {
  enum class Kind : uint8_t { kNone, kNop, kWrite, kRead, kAtomic };
  Kind kind = Kind::kNone;
  mlx5::Opcode opcode = mlx5::Opcode::kNop;
  bool strict = false;     // after everything before it
  bool fenced = false;     // after READs and atomics before it
  bool signalled = false;  //
  uint8_t units = 0;       // 16-byte segments of the request; 0: they fit a block
  uint32_t bytes = 0;
  std::byte* to = nullptr;
  std::byte* from = nullptr;  // null: inline, from word kInlineWord on; atomic: of the old value
  const Key* home = nullptr;
  const Key* away = nullptr;

  PEAL_HD bool fetches() const { return kind == Kind::kRead || kind == Kind::kAtomic; }
  PEAL_HD uint32_t blocks() const { return units > kUnitsPerBlock ? blocks_of(units) : 1; }
  /// Inline bytes that lie in several blocks, and are taken from there.
  PEAL_HD bool inlined_far() const { return kind == Kind::kWrite && units > kUnitsPerBlock; }
};

inline constexpr uint32_t kInlineWord = 9;  // after control, remote address and inline header
inline constexpr uint32_t kOperandUnit = 2;

/// True when [to, to + bytes) is one word that a store writes whole.
PEAL_HD bool single_word(const std::byte* to, uint32_t bytes) {
  return (bytes == 8 || bytes == 4) && aligned(to, bytes);
}

/// Segments of the request that begins with the block.
PEAL_HD uint32_t units_of(const FetchedBlock& block) {
  return Be32::from_raw(block.word[1]).host() & 0x3f;
}

/// A segment of the block; `unit` must be a constant for the block to stay in registers.
template <class Segment>
PEAL_HD Segment segment_of(const FetchedBlock& block, uint32_t unit) {
  static_assert(sizeof(Segment) == mlx5::kSegmentBytes);
  Segment segment;
  memcpy(&segment, &block.word[unit * (mlx5::kSegmentBytes / 4)], sizeof(segment));
  return segment;
}

/// What an atomic does, and to how many bytes: 0 when it is no such atomic.
struct AtomicRequest {
  AtomicOperands operands;
  uint32_t bytes;
  uint32_t data_unit;  // of the answer's segment
};
PEAL_HD AtomicRequest operation_of(const FetchedBlock& block, uint32_t units) {
  Request request = {};
  const uint32_t head = Be32::from_raw(block.word[0]).host();
  request.opcode = static_cast<mlx5::Opcode>(head & 0xff);
  request.opmod = static_cast<uint8_t>(head >> 24);
  request.units = static_cast<uint8_t>(units);
  const auto read = [&]<class Segment>(uint32_t unit) { return segment_of<Segment>(block, unit); };
  const uint32_t bytes = read_operands(read, kOperandUnit, request);
  return {request.operands, bytes, request.data_unit};
}

PEAL_HD uint64_t address_at(const FetchedBlock& block, uint32_t word) {
  return uint64_t{Be32::from_raw(block.word[word]).host()} << 32 |
         Be32::from_raw(block.word[word + 1]).host();
}

/// Memory at home: fills in where and how much. False when it is not plain.
PEAL_HD bool decode_home(const View& view, const mlx5::DataSegment& segment, Shot& shot) {
  shot.bytes = segment.byte_count.host();
  if (shot.bytes == 0 || shot.bytes > 1ull << view.log_max_message) return false;
  shot.home = view.home.find(view.keys, view.key_count, segment.lkey.host());
  if (!grants(shot.home, view.pd, shot.fetches() ? uint32_t{kLocalWrite} : 0)) return false;
  std::byte* memory = locate(*shot.home, segment.address.host(), shot.bytes);
  (shot.kind == Shot::Kind::kRead ? shot.to : shot.from) = memory;
  return memory != nullptr;
}

/// An atomic and where its answer goes: the last segment, which may be the tail.
PEAL_HD bool decode_atomic(const View& view, const FetchedBlock& block, const Tail& tail,
                           Shot& shot) {
  const AtomicRequest operation = operation_of(block, shot.units);
  if (operation.bytes == 0 || shot.units != operation.data_unit + 1) return false;
  auto segment = segment_of<mlx5::DataSegment>(block, kOperandUnit + 1);
  if (operation.data_unit == kUnitsPerBlock) memcpy(&segment, &tail, sizeof(segment));
  return decode_home(view, segment, shot) && shot.bytes == operation.bytes &&
         aligned(shot.from, shot.bytes);
}

/// What is written or read at home. False when it is not plain.
PEAL_HD bool decode_data(const View& view, const FetchedBlock& block, std::byte* inlined,
                         Shot& shot) {
  const uint32_t units = shot.units;
  const uint32_t count = Be32::from_raw(block.word[8]).host();
  if ((count & mlx5::kInlineFlag) == 0) {
    return units == 3 && decode_home(view, segment_of<mlx5::DataSegment>(block, 2), shot);
  }
  shot.bytes = count & ~mlx5::kInlineFlag;
  if (units > kUnitsPerBlock) {
    shot.from = inlined;
    if (inlined == nullptr || shot.bytes > 1ull << view.log_max_message) return false;
  }
  return shot.kind == Shot::Kind::kWrite && shot.bytes != 0 &&
         (shot.bytes + 4 + 15) / 16 == units - 2;
}

/// True when a WRITE to memory of that key comes after everything before it.
PEAL_HD bool waits(const View& view, const Key& away) {
  return (away.access & kRelaxedOrdering) == 0 && !view.any_placement;
}

/// Memory at the peer.
PEAL_HD bool decode_away(const View& view, const FetchedBlock& block, Shot& shot) {
  const uint32_t right = right_for(shot.opcode);
  shot.away =
      view.away.find(view.peer_keys, view.peer_key_count, Be32::from_raw(block.word[6]).host());
  if (!grants(shot.away, view.peer_pd, right) || (view.peer_access & right) == 0) return false;
  const uint64_t address = address_at(block, 4);
  std::byte* memory = locate(*shot.away, address, shot.bytes);
  (shot.kind == Shot::Kind::kRead ? shot.from : shot.to) = memory;
  if (shot.kind == Shot::Kind::kAtomic) {
    shot.strict = true;
    return memory != nullptr && aligned(memory, shot.bytes) && (address & (shot.bytes - 1)) == 0;
  }
  shot.strict = shot.kind == Shot::Kind::kWrite && waits(view, *shot.away);
  return memory != nullptr;
}

PEAL_HD Shot::Kind kind_of(mlx5::Opcode opcode) {
  if (opcode == mlx5::Opcode::kNop) return Shot::Kind::kNop;
  if (opcode == mlx5::Opcode::kRdmaWriteImm) return Shot::Kind::kNone;  // takes a receive entry
  const uint32_t right = right_for(opcode);
  return right == kRemoteWrite    ? Shot::Kind::kWrite
         : right == kRemoteRead   ? Shot::Kind::kRead
         : right == kRemoteAtomic ? Shot::Kind::kAtomic
                                  : Shot::Kind::kNone;
}

/// The measured fast path: decode_shot() for a WRITE of one block without fence whose keys are at
/// hand, the same answer with one branch, because a lane that decodes alone waits for every one. It
/// says again what grants() and locate() say; gpu_batch_test compares it with them and with the
/// engine. False for anything else.
PEAL_HD bool decode_usual(const View& view, const FetchedBlock& block, uint64_t index, Shot& shot) {
  const auto word = [&block](uint32_t at) { return Be32::from_raw(block.word[at]).host(); };
  const uint32_t units = word(1) & 0x3f;
  const uint32_t count = word(8);
  const uint32_t bytes = count & ~mlx5::kInlineFlag;
  const Key& away = view.away.likely(word(6));
  const Key& home = view.home.likely(word(9));
  const uint64_t to = address_at(block, 4) - away.iova;
  const uint64_t from = address_at(block, 10) - home.iova;
  const bool inlined = (count & mlx5::kInlineFlag) != 0;
  const bool write = ((word(0) ^ (static_cast<uint32_t>(index) << 8)) & 0xffffff) ==
                     static_cast<uint32_t>(mlx5::Opcode::kRdmaWrite);
  const bool ours = (word(1) >> 8 == view.qpn) & ((word(2) & 0xe0) == 0) & (bytes != 0);
  const bool lands = (word(6) == away.number) & (away.number != 0) & (away.pd == view.peer_pd) &
                     ((away.access & view.peer_access & kRemoteWrite) != 0) & (to <= away.bytes) &
                     (bytes <= away.bytes - to);
  const bool fits = (units <= kUnitsPerBlock) & ((bytes + 4 + 15) / 16 + 2 == units);
  const bool gathers = (units == 3) & (word(9) == home.number) & (home.number != 0) &
                       (home.pd == view.pd) & (bytes <= 1ull << view.log_max_message) &
                       (from <= home.bytes) & (bytes <= home.bytes - from);
  const bool strict = waits(view, away);
  const bool word_sized = (bytes == 8) | (bytes == 4);
  const uint64_t place = reinterpret_cast<uint64_t>(away.memory) + to;
  const bool loose = !strict | !inlined;
  const bool whole = loose | (word_sized & ((place & (bytes - 1)) == 0));
  if (!(write & ours & lands & (inlined ? fits : gathers) & whole)) return false;
  shot.kind = Shot::Kind::kWrite;
  shot.opcode = mlx5::Opcode::kRdmaWrite;
  shot.strict = strict;
  shot.signalled = (word(2) & static_cast<uint32_t>(mlx5::Completion::kAlways)) != 0;
  shot.bytes = bytes;
  shot.to = away.memory + to;
  shot.from = inlined ? nullptr : home.memory + from;
  shot.away = &away;
  shot.home = inlined ? nullptr : &home;
  return true;
}

/// Decodes the block at `index` of the send queue, and what is behind it when that belongs to it.
/// Whatever is not exactly plain is kNone: the exact step finds out what it is.
PEAL_HD Shot decode_shot(const View& view, const FetchedBlock& block, uint64_t index,
                         const Behind& behind = {}) {
  Shot shot;
  if (decode_usual(view, block, index, shot)) return shot;
  const uint32_t head = Be32::from_raw(block.word[0]).host();
  const uint32_t qpn_ds = Be32::from_raw(block.word[1]).host();
  const uint32_t modes = Be32::from_raw(block.word[2]).host();
  const uint32_t units = qpn_ds & 0x3f;
  if (((head >> 8) & 0xffff) != (index & 0xffff) || qpn_ds >> 8 != view.qpn) return shot;
  // READs and atomics are not outstanding here, but for long READs, so the fences that wait for
  // them are satisfied where requests execute in order. Long ones begin early (run.cuh).
  const uint32_t fence = modes & 0xe0;
  if (units == 0 || blocks_of(units) > behind.blocks + 1 ||
      fence == static_cast<uint32_t>(mlx5::Fence::kStrong) ||
      fence > static_cast<uint32_t>(mlx5::Fence::kFenceAndSmall)) {
    return shot;
  }
  shot.fenced = fence != 0;
  shot.signalled = (modes & static_cast<uint32_t>(mlx5::Completion::kAlways)) != 0;
  shot.opcode = static_cast<mlx5::Opcode>(head & 0xff);
  shot.kind = kind_of(shot.opcode);
  shot.units = static_cast<uint8_t>(units);
  const bool atomic = shot.kind == Shot::Kind::kAtomic;
  if (shot.kind == Shot::Kind::kNop || shot.kind == Shot::Kind::kNone) return shot;
  bool plain = units >= 3 &&
               (atomic ? decode_atomic(view, block, behind.tail, shot)
                       : decode_data(view, block, behind.inlined, shot)) &&
               decode_away(view, block, shot);
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

/// Bits from `first` up.
PEAL_HD uint32_t bits_from(uint32_t first) { return first < 32 ? ~0u << first : 0; }

/// Bits below `end`.
PEAL_HD uint32_t bits_below(uint32_t end) { return ~bits_from(end); }

/// The lanes whose blocks are inside a request, behind its first. Bit i of `longer`: if lane i's
/// block begins a request, it is one of blocks_at(i) > 1 blocks. What is inside may look like
/// anything.
template <class BlocksAt>
PEAL_HD uint32_t insides(uint32_t longer, const BlocksAt& blocks_at) {
  uint32_t inside = 0;
  while (longer != 0) {
    const uint32_t first = lowest_bit(longer);
    const uint32_t behind = bits_from(first + 1);
    const uint32_t own = behind & bits_below(first + blocks_at(first));
    inside |= own;
    longer &= behind & ~own;
  }
  return inside;
}

/// How many requests from lane 0 on go together. Bit i of each mask speaks of lane i: it has a
/// shot; it clashes with one of an earlier lane of its segment.
PEAL_HD uint32_t run_length(uint32_t plain, uint32_t clashing) {
  const uint32_t end = lowest_bit(~plain);
  const uint32_t before_clash = lowest_bit(clashing);
  return end < before_clash ? end : before_clash;
}

/// End of the segment of a run of `run` that begins with request `begin`: behind the next strict
/// one, or the run's end.
PEAL_HD uint32_t segment_end(uint32_t strict, uint32_t begin, uint32_t run) {
  const uint32_t after_strict = lowest_bit(strict & bits_from(begin)) + 1;
  return after_strict < run ? after_strict : run;
}

}  // namespace peal::softnic::gpu
