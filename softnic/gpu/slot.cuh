// SPDX-License-Identifier: Apache-2.0
//
// What a warp knows of one of the queue pairs it serves, in shared memory: any lane finds it there,
// so a turn may go to one queue pair with all lanes or to many with one lane each.
//
//   table (GPU memory)  --load-->  Slot: posted, next, psn, keys at hand ...  --save-->  table
//
// The tables do not change while the kernel runs, except for states; a slot that was moved on is
// saved before anybody else looks at its table.
#pragma once

#include <cstdint>

#include "device/base/order.h"
#include "softnic/engine/completion.h"
#include "softnic/gpu/batch.h"
#include "softnic/gpu/copy.cuh"
#include "softnic/gpu/copy_board.h"
#include "softnic/gpu/kernel.h"

namespace peal::softnic::gpu {

/// A long request that is under way.
struct Move {
  uint16_t index;  // of its block, the low bits
  uint16_t job;    // on the board
};

/// A completion that is still to be told.
struct Untold {
  uint64_t now;    // its time stamp
  uint64_t index;  // of its block
  uint32_t bytes;  // as the CQE says
  mlx5::Opcode opcode;
  bool any;
};

struct EngineSlot {
  Port* port;
  QueuePair* qp;
  QueuePair* peer;
  CompletionQueue* cq;
  mlx5::DoorbellRecord* doorbell;
  std::byte* ring;
  View view;
  CqePlace place;      // of entry 0
  uint64_t posted;     //
  uint64_t next;       //
  uint64_t produced;   // CQEs
  uint32_t psn;        //
  uint32_t mask;       // of the ring
  uint32_t cqe_bytes;  // 0: collapsed
  uint32_t log_entries;
  uint32_t moving;     // long requests that are under way, the first ones
  Move moves[kMoves];  // those
  Untold untold;       // where the CQ is collapsed: the newest
  bool smooth;         // the fast path knows all it must know
  bool unfenced;       // has effects that a fence must order before a strict one
  bool moved;          // since it was loaded
};

__device__ inline QpState state_of(const QueuePair* qp) {
  return static_cast<QpState>(
      *static_cast<const volatile uint8_t*>(reinterpret_cast<const uint8_t*>(&qp->state)));
}

/// The queue pair at the other end; null when the exact step must look for itself.
__device__ inline QueuePair* find_peer(const EngineArguments& a, const EngineSlot& s, View* view) {
  const QueuePairAttributes& mine = s.qp->attributes;
  const Port* port = mine.remote_lid < a.lids ? a.ports[mine.remote_lid] : nullptr;
  QueuePair* peer = port == nullptr ? nullptr : find_qp(*port, mine.remote_qpn);
  if (peer == nullptr || peer->service != Service::kReliable) return nullptr;
  const QueuePairAttributes& theirs = peer->attributes;
  if (!hears(theirs, s.qp->qpn, s.port->lid, mine.network, mine.pkey) || theirs.mtu != mine.mtu ||
      peer->receive.expected_psn != s.psn) {
    return nullptr;
  }
  view->qpn = s.qp->qpn;
  view->pd = s.qp->pd;
  view->keys = s.port->keys;
  view->key_count = s.port->key_count;
  view->peer_keys = port->keys;
  view->peer_key_count = port->key_count;
  view->peer_pd = peer->pd;
  view->peer_access = (allows(theirs, kRemoteWrite) ? uint32_t{kRemoteWrite} : 0) |
                      (allows(theirs, kRemoteRead) ? uint32_t{kRemoteRead} : 0) |
                      (allows(theirs, kRemoteAtomic) ? uint32_t{kRemoteAtomic} : 0);
  view->log_max_message = mine.log_max_message;
  view->any_placement = peer != s.qp && !placed_in_order(*port, *peer);
  return peer;
}

/// Fills in all but port and qp, from the tables; by one lane.
__device__ __noinline__ void load_slot(const EngineArguments& a, EngineSlot& s) {
  const QueuePair& qp = *s.qp;
  const Sender& send = qp.send;
  s.posted = send.posted;
  s.next = send.next;
  s.psn = send.psn;
  s.doorbell = qp.doorbell;
  s.mask = qp.send_blocks - 1;
  s.ring = qp.send_buffer;
  s.cq = find_cq(*s.port, qp.send_cq);
  s.moving = 0;
  s.untold = {};
  s.unfenced = true;
  s.moved = false;
  s.peer = nullptr;
  s.smooth = s.ring != nullptr && s.doorbell != nullptr && qp.service == Service::kReliable &&
             send.drained() && send.phase == Sender::Phase::kIdle && !send.doorbell_fault &&
             send.paused_until == 0 && send.give_up_at == 0 && send.resend_at == 0 &&
             s.cq != nullptr && s.cq->writers == 1 && s.cq->ignore_overrun;
  if (s.smooth) s.peer = find_peer(a, s, &s.view);
  s.smooth = s.peer != nullptr;
  if (!s.smooth) return;
  s.produced = s.cq->produced;
  s.place = place_of(*s.cq, 0, qp);
  s.cqe_bytes = s.cq->collapsed ? 0 : s.cq->cqe_bytes;
  s.log_entries = s.cq->log_entries;
}

/// Makes the tables say what the slot knows; by one lane.
__device__ inline void save_slot(EngineSlot& s) {
  if (!s.moved) return;
  s.moved = false;
  s.qp->send.posted = s.posted;
  s.qp->send.next = s.qp->send.retired = s.next;
  s.qp->send.psn = s.psn;
  s.peer->receive.expected_psn = s.psn;
}

/// Whether there is anything new in a slot, as its doorbell record says.
struct DoorbellLook {
  uint32_t waiting;  // blocks the fast path may look at
  bool odd;          // for the exact step to judge
};

__device__ inline DoorbellLook look_at(EngineSlot& s) {
  if (!s.smooth) return {0, true};
  // Both loads are on their way at once.
  const QpState state = state_of(s.qp);
  const uint32_t record = Be32::from_raw(load<uint32_t>(&s.doorbell->send)).host();
  const auto fresh = static_cast<uint16_t>(record - static_cast<uint32_t>(s.posted));
  const uint64_t waiting = s.posted - s.next + fresh;
  if (state != QpState::kReadyToSend || waiting > uint64_t{s.mask} + 1) return {0, true};
  return {static_cast<uint32_t>(waiting), false};
}

// ---- blocks of its send queue in the registers of lanes: lane i has block next + i, and of a
// request of several blocks what lane i + 1 has of it

__device__ inline void fetch(const EngineSlot& s, uint64_t index, FetchedBlock& block) {
  const std::byte* at = s.ring + (index & s.mask) * mlx5::kWqebbBytes;
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i) {
    const Line line = load_line_direct(at + 16 * i);
    block.word[4 * i] = static_cast<uint32_t>(line.word[0]);
    block.word[4 * i + 1] = static_cast<uint32_t>(line.word[0] >> 32);
    block.word[4 * i + 2] = static_cast<uint32_t>(line.word[1]);
    block.word[4 * i + 3] = static_cast<uint32_t>(line.word[1] >> 32);
  }
}

/// What a request that runs past the block at `index` has in the next one.
__device__ inline void fetch(const EngineSlot& s, uint64_t index, Tail& tail) {
  const Line line = load_line_direct(s.ring + ((index + 1) & s.mask) * mlx5::kWqebbBytes);
  tail.word[0] = static_cast<uint32_t>(line.word[0]);
  tail.word[1] = static_cast<uint32_t>(line.word[0] >> 32);
  tail.word[2] = static_cast<uint32_t>(line.word[1]);
  tail.word[3] = static_cast<uint32_t>(line.word[1] >> 32);
}

/// True where the ring's end is not among the blocks of a request.
__device__ inline bool in_one_piece(const EngineSlot& s, uint64_t index, uint32_t blocks) {
  return (index & s.mask) + blocks <= uint64_t{s.mask} + 1;
}

/// What follows the lane's block among the `ready` ones fetched; `inlined` also where the ring's
/// end is between.
__device__ inline Behind look_behind(const EngineSlot& s, uint64_t index, const FetchedBlock& block,
                                     uint32_t ready, uint32_t lane) {
  Behind behind;
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i) {
    behind.tail.word[i] = __shfl_down_sync(kAll, block.word[i], 1);
  }
  if (lane >= ready) return behind;
  behind.blocks = ready - 1 - lane;
  behind.inlined = s.ring + (index & s.mask) * mlx5::kWqebbBytes + 4 * kInlineWord;
  return behind;
}

/// Lanes whose blocks are inside a request do nothing.
__device__ inline void skip_insides(Shot& shot, uint32_t lane) {
  const uint32_t blocks = shot.kind == Shot::Kind::kNone ? 1 : shot.blocks();
  const uint32_t inside = insides(__ballot_sync(kAll, blocks > 1), [&](uint32_t first) {
    return __shfl_sync(kAll, blocks, static_cast<int>(first));
  });
  if ((inside >> lane & 1) == 0) return;
  shot = {};
  shot.kind = Shot::Kind::kNop;
}

}  // namespace peal::softnic::gpu
