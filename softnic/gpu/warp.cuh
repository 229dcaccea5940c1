// SPDX-License-Identifier: Apache-2.0
//
// One warp of the NIC's kernel and the queue pairs it serves, in its slots.
//
//   doorbell records, one a lane (acquire)
//     -> many queue pairs with a request or two: a lane each, one fence for all      (abreast)
//     -> one with many: 32 blocks at once, a run of plain requests lane by lane      (along)
//     -> anything else: the exact step, by lane 0
//   payload -> fence -> completions, last words together
//   nothing new: a part of another warp's long copy                               (jobs.cuh)
//
// All lanes enter every call together; a slot is changed by one lane between two meetings of all.
#pragma once

#include <cstdint>

#include "device/base/order.h"
#include "softnic/gpu/batch.h"
#include "softnic/gpu/copy.cuh"
#include "softnic/gpu/jobs.cuh"
#include "softnic/gpu/kernel.h"
#include "softnic/gpu/run.cuh"
#include "softnic/gpu/slot.cuh"
#include "softnic/gpu/spread.cuh"

namespace peal::softnic::gpu {

inline constexpr uint32_t kFewWaiting = 4;  // a queue pair with more is served by all lanes
inline constexpr uint32_t kRunsATurn = 4;   // of one queue pair, before others get a turn

__device__ inline uint64_t clock_ns() {
  uint64_t ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

/// One step as the CPU's engine does it; true when it did anything. Apart, so that its registers
/// and stack are not the fast path's.
__device__ __noinline__ bool exact_step(DirectWire wire, Watch* watch, Port* port, QueuePair* qp) {
  const bool worked = advance(*port, wire, *qp, clock_ns(), 1);
  if (volatile_load(&port->events.count) != 0) store_relaxed<uint32_t>(&watch->attention, 1);
  return worked;
}

class EngineWarp {
 public:
  /// `count` queue pairs, from work[first] on, every `step`th.
  __device__ EngineWarp(const EngineArguments& a, EngineSlot* slots, uint32_t lane, uint32_t worker)
      : a_(a), slots_(slots), lane_(lane), jobs_(*a.board, lane, worker) {}

  __device__ void load(uint32_t first, uint32_t step, uint32_t count) {
    count_ = count;
    if (lane_ < count_) {
      const Assignment& work = a_.work[first + lane_ * step];
      slots_[lane_].port = work.port;
      slots_[lane_].qp = work.qp;
      slots_[lane_].view = {};
      load_slot(a_, slots_[lane_]);
    }
    __syncwarp();
  }

  __device__ void save() {
    if (lane_ < count_) save_slot(slots_[lane_]);
    __syncwarp();
  }

  /// Does what there is to do, or only what is half done: the moment to stop comes even while
  /// queues are never empty. True when there was anything.
  __device__ bool turn(bool finishing) {
    finishing_ = finishing;
    DoorbellLook look = {0, false};
    // On its way together with the doorbell records.
    const uint64_t open = finishing ? 0 : jobs_.look();
    if (lane_ < count_ && (!finishing || slots_[lane_].moving != 0)) look = look_at(slots_[lane_]);
    const uint32_t waiting = __ballot_sync(kAll, look.waiting != 0);
    uint32_t odd = __ballot_sync(kAll, look.odd);
    if ((waiting | odd) == 0) {
      return jobs_.help(open);
    }
    const uint32_t few = __ballot_sync(kAll, look.waiting != 0 && look.waiting <= kFewWaiting);
    // One lane is quicker with one request than all of them.
    const bool single = few == waiting && __any_sync(kAll, look.waiting == 1);
    const uint32_t side = (few & (few - 1)) != 0 || single ? few : 0;
    uint32_t alone = waiting ^ side;
    bool worked = false;
    if (side != 0) {
      const uint32_t left = abreast((side >> lane_ & 1) != 0, look.waiting);
      worked = left != side;
      alone |= left;
    }
    for (; alone != 0; alone &= alone - 1) {
      const uint32_t of = lowest_bit(alone);
      const bool plain = along(slots_[of], __shfl_sync(kAll, look.waiting, static_cast<int>(of)));
      worked |= plain;
      if (!plain) odd |= 1u << of;
    }
    for (; odd != 0; odd &= odd - 1) worked |= exact(slots_[lowest_bit(odd)]);
    return worked;
  }

  /// True when a request is half done: not the moment to stop.
  __device__ bool busy() const {
    return __any_sync(kAll, lane_ < count_ && slots_[lane_].moving != 0);
  }

 private:
  /// The exact step by lane 0. What it does not do now it is asked again.
  __device__ bool exact(EngineSlot& s) {
    bool worked = false;
    jobs_.drain(s);
    if (lane_ == 0) {
      save_slot(s);
      if (rung(*s.port, *s.qp) || unsettled(*s.qp)) {
        // What other lanes have stored precedes what the step does.
        if (s.unfenced) fence_direct_stores();
        worked = exact_step({a_.ports, a_.lids}, a_.watch, s.port, s.qp);
        load_slot(a_, s);
      }
    }
    __syncwarp();
    return __any_sync(kAll, worked);
  }

  __device__ static bool strange(const View& view, const Shot& shot) {
    return (shot.home != nullptr && !view.home.hold(shot.home)) ||
           (shot.away != nullptr && !view.away.hold(shot.away));
  }

  /// Keeps the keys of a shot at hand; by one lane, the slot's owner for now.
  __device__ static void keep(View& view, const Shot& shot) {
    if (shot.home != nullptr && !view.home.hold(shot.home)) view.home.keep(*shot.home);
    if (shot.away != nullptr && !view.away.hold(shot.away)) view.away.keep(*shot.away);
  }

  /// `now` is read early: the clock takes its time, and so do the loads that follow.
  __device__ static CqeWords cqe_of(const CqePlace& place, const Shot& shot, uint64_t index,
                                    uint64_t now) {
    return cqe_words(place,
                     {.kind = mlx5::CqeOpcode::kRequester,
                      .syndrome = mlx5::Syndrome::kNone,
                      .opcode = shot.opcode,
                      .counter = static_cast<uint16_t>(index),
                      .bytes = shot.fetches() ? shot.bytes : 0,
                      .immediate = 0},
                     now);
  }

  __device__ static CqePlace place_in(const EngineSlot& s, uint64_t entry) {
    CqePlace place = s.place;
    place.at += (entry & ((1ull << s.log_entries) - 1)) * s.cqe_bytes;
    place.owner = static_cast<uint32_t>(entry >> s.log_entries) & 1;
    return place;
  }

  /// All but the last word, whose store releases everything before it.
  __device__ static void store_body(std::byte* at, const CqeWords& words) {
#pragma unroll
    for (uint32_t i = 0; i < 3; ++i) {
      store_line(at + 16 * i, {{words.word[2 * i], words.word[2 * i + 1]}});
    }
    store_relaxed<uint64_t>(at + 48, words.word[6]);
  }

  // ---- many queue pairs, a lane each

  /// The first request of each lane's slot where `takes`. Answers the lanes whose request has to be
  /// looked at by all.
  __device__ uint32_t abreast(bool takes, uint32_t waiting) {
    EngineSlot& s = slots_[lane_ < count_ ? lane_ : 0];
    const uint64_t now = clock_ns();
    Shot shot;
    FetchedBlock block;
    Behind behind;
    if (takes) {
      s.posted = s.next + waiting;
      // Both loads are on their way at once.
      const QpState peer_state = state_of(s.peer);
      fetch(s, s.next, block);
      behind.blocks = waiting - 1;
      if (waiting > 1) fetch(s, s.next, behind.tail);
      if (responds(peer_state)) shot = decode_shot(s.view, block, s.next, behind);
    }
    const bool mine = shot.kind != Shot::Kind::kNone && !is_large(shot);
    const bool ordered = shot.strict || shot.kind == Shot::Kind::kRead;
    if (__any_sync(kAll, mine && ordered && s.unfenced)) fence_all();
    CqeWords words;
    CqePlace place;
    const bool speaks = mine && shot.signalled;
    if (mine) {
      if (shot.strict) {
        execute_last(shot, block);
      } else {
        execute_loose(shot, block);
      }
      keep(s.view, shot);
      if (shot.kind == Shot::Kind::kWrite) s.unfenced = true;
      if (speaks) {
        place = place_in(s, s.produced++);
        words = cqe_of(place, shot, s.next, now);
        store_relaxed<uint64_t>(&s.cq->produced, s.produced);
        store_body(place.at, words);
      }
      s.next += shot.blocks();
      s.psn = (s.psn + 1) & kPsnMask;
      s.moved = true;
    }
    if (speaks) {
      // Released together: one fence instruction for all that speak.
      store<uint64_t>(place.at + 56, words.word[7]);
      s.unfenced = false;
    }
    __syncwarp();
    return __ballot_sync(kAll, takes && !mine);
  }

  /// Each lane orders what it has stored, and what the warp stored before it last met.
  __device__ void fence_all() {
    fence_direct_stores();
    if (lane_ < count_) slots_[lane_].unfenced = false;
    __syncwarp();
  }

  /// By one lane, at most kSmallBytes, in any order.
  __device__ static void execute_loose(const Shot& shot, const FetchedBlock& block) {
    if (shot.kind == Shot::Kind::kNop) return;
    if (shot.from == nullptr) return store_inline(shot.to, block, shot.bytes);
    copy_alone(shot.to, shot.from, shot.bytes);
  }

  /// A strict one by one lane, at most kSmallBytes. Everything before it is visible.
  __device__ static void execute_last(const Shot& shot, const FetchedBlock& block) {
    if (shot.kind == Shot::Kind::kAtomic) return store_old_value(shot, run_atomic(shot, block));
    if (shot.from == nullptr) return store_inline_word(shot.to, block, shot.bytes);
    place(shot.to, shot.from, shot.bytes);
  }

  // ---- one queue pair, a request a lane

  /// What `along_run` did.
  enum class Along { kNothingPlain, kPartly, kDone };

  /// Some runs of what waits; false when it does not begin with anything plain.
  __device__ bool along(EngineSlot& s, uint32_t waiting) {
    const bool any = along_runs(s, waiting);
    tell(s);
    return any;
  }

  __device__ bool along_runs(EngineSlot& s, uint32_t waiting) {
    FetchedBlock block;
    // Both loads are on their way at once.
    const QpState peer_state = state_of(s.peer);
    if (lane_ < waiting) fetch(s, s.next + lane_, block);
    if (!responds(peer_state)) return false;
    const uint64_t end = s.next + waiting;
#pragma unroll 1
    for (uint32_t run = 0; run < kRunsATurn; ++run) {
      // What will most likely be next is on its way while this is done.
      const uint64_t after = s.next + kLanes;
      FetchedBlock ahead;
      if (after + lane_ < end) fetch(s, after + lane_, ahead);
      const Along did = along_run(s, static_cast<uint32_t>(end - s.next), block);
      if (did == Along::kNothingPlain) return run != 0;
      if (did == Along::kPartly || s.next == end) return true;
      if (s.next == after) {
        block = ahead;
      } else if (s.next + lane_ < end) {
        fetch(s, s.next + lane_, block);
      }
    }
    return true;
  }

  /// A run of what waits, whose blocks the lanes have fetched.
  __device__ Along along_run(EngineSlot& s, uint32_t waiting, const FetchedBlock& block) {
    Shot shot;
    const uint64_t now = clock_ns();
    const uint64_t next = s.next;
    const uint32_t ready = waiting < kLanes ? waiting : kLanes;
    Behind behind;
    const bool longer =
        __any_sync(kAll, lane_ < ready && units_of(block) > kUnitsPerBlock);  // some request
    if (longer) behind = look_behind(s, next + lane_, block, ready, lane_);
    if (lane_ < ready) shot = decode_shot(s.view, block, next + lane_, behind);
    if (longer) {
      // What is copied from the queue has to lie in one piece.
      if (shot.inlined_far() && !may_spread(shot) &&
          !in_one_piece(s, next + lane_, shot.blocks())) {
        shot = {};
      }
      skip_insides(shot, lane_);
    }
    uint32_t job = kNoJob;
    const Shot left = after_jobs(s, shot, next, &job);
    const Run run = choose_run(left, lane_);
    keep_one(s.view, shot, lane_ < run.length || (lane_ == 0 && is_long(shot)));
    if (run.length == 0) return wait_for_jobs(s, shot, next + waiting);
    bool unfenced = s.unfenced || __any_sync(kAll, lane_ < run.length && job != kNoJob);
    for (uint32_t begin = 0; begin < run.length;) {
      const uint32_t end = segment_end(run.strict, begin, run.length);
      execute(left, block, run, begin, end, &unfenced);
      begin = end;
    }
    __syncwarp();
    jobs_.end(s, lane_ < run.length ? job : kNoJob);
    unfenced = report(s, shot, run.length, now) ? false : unfenced;
    __syncwarp();
    if (lane_ == 0) {
      s.posted = next + waiting;
      s.next = next + run.length;
      s.psn = (s.psn + run.length) & kPsnMask;  // both ends count blocks here
      s.unfenced = unfenced;
      s.moved = true;
    }
    __syncwarp();
    return Along::kDone;
  }

  /// The lane's request as it is to be executed: what is long has become a job, or is left as it is
  /// by kNone, or is where it belongs, and has `job`.
  __device__ Shot after_jobs(EngineSlot& s, const Shot& shot, uint64_t next, uint32_t* job) {
    if (!__any_sync(kAll, is_long(shot))) return shot;
    const uint32_t known = jobs_.of(s, next + lane_);
    const uint32_t wanted = movable(shot, lane_) & ~__ballot_sync(kAll, known != kNoJob);
    if (wanted != 0 && !finishing_ && s.moving < kMoves) {
      fence_before_jobs(s, shot, wanted);
      jobs_.begin(s, shot, wanted, next + lane_);
    }
    if (!is_long(shot)) return shot;
    if (!jobs_.is_done(known)) return {};
    *job = known;
    return left_of(shot);
  }

  /// What others read for a READ, or store for a strict WRITE, comes behind what this warp has
  /// stored.
  __device__ void fence_before_jobs(EngineSlot& s, const Shot& shot, uint32_t wanted) {
    const bool ordered = shot.strict || shot.kind == Shot::Kind::kRead;
    if (!s.unfenced || !__any_sync(kAll, (wanted >> lane_ & 1) != 0 && ordered)) return;
    fence_direct_stores();
    __syncwarp();
    if (lane_ == 0) s.unfenced = false;
    __syncwarp();
  }

  /// Nothing can be executed: the first request is long and under way, or not plain.
  __device__ Along wait_for_jobs(EngineSlot& s, const Shot& shot, uint64_t posted) {
    if (!__shfl_sync(kAll, is_long(shot), 0)) return Along::kNothingPlain;
    if (lane_ == 0) s.posted = posted;
    __syncwarp();
    tell(s);
    if (!jobs_.copy_own(s)) jobs_.help(jobs_.look());
    return Along::kPartly;
  }

  /// Keeps the keys of one of the lanes whose keys are not at hand yet.
  __device__ void keep_one(View& view, const Shot& shot, bool in) const {
    const uint32_t lanes = __ballot_sync(kAll, in && strange(view, shot));
    if (lanes != 0 && lane_ == lowest_bit(lanes)) keep(view, shot);
  }

  /// Requests [begin, end) of the run: one segment.
  __device__ void execute(const Shot& shot, const FetchedBlock& block, const Run& run,
                          uint32_t begin, uint32_t end, bool* unfenced) {
    const uint32_t segment = bits_from(begin) & bits_below(end);
    const uint32_t relaxed = segment & ~run.strict;
    const bool mine = (relaxed >> lane_ & 1) != 0;
    // A READ sees what was written before it.
    if (*unfenced && run.reads) {
      fence_direct_stores();
      __syncwarp();
      *unfenced = false;
    }
    if (mine && (run.large >> lane_ & 1) == 0) execute_loose(shot, block);
    const uint32_t spread = relaxed & run.spread;
    if (spread != 0) spread_words<Words::kAll>(shot, block, spread);
    for (uint32_t left = relaxed & run.large & ~spread; left != 0; left &= left - 1) {
      const uint32_t of = lowest_bit(left);
      copy_together(broadcast(shot.to, of), broadcast(shot.from, of),
                    __shfl_sync(kAll, shot.bytes, static_cast<int>(of)), lane_);
    }
    if ((relaxed & run.writes) != 0) *unfenced = true;
    if ((segment & run.strict) != 0) {
      __syncwarp();
      execute_strict(shot, block, run, end - 1, unfenced);
      __syncwarp();
    }
  }

  /// The data of requests of several blocks, by the lanes that have them. By all lanes.
  template <Words kWhich>
  __device__ void spread_words(const Shot& shot, const FetchedBlock& block, uint32_t heads) const {
    const uint32_t next_word = __shfl_down_sync(kAll, block.word[0], 1);
    store_spread<kWhich>(spread_of(shot, heads, lane_), block, next_word);
  }

  /// The strict request of lane `of`, after everything before it.
  __device__ void execute_strict(const Shot& shot, const FetchedBlock& block, const Run& run,
                                 uint32_t of, bool* unfenced) {
    if ((run.large >> of & 1) != 0) {
      if (*unfenced) {
        fence_direct_stores();
        __syncwarp();
      }
      *unfenced = true;
      // Its last word after its other bytes.
      if ((run.spread >> of & 1) != 0) {
        spread_words<Words::kAllButLast>(shot, block, 1u << of);
        __syncwarp();
        spread_words<Words::kLast>(shot, block, 1u << of);
        return;
      }
      std::byte* to = broadcast(shot.to, of);
      const std::byte* from = broadcast(shot.from, of);
      const uint32_t bytes = __shfl_sync(kAll, shot.bytes, static_cast<int>(of));
      const uint32_t tail = last_word(to, bytes);
      copy_together(to, from, bytes - tail, lane_);
      __syncwarp();
      if (lane_ == of) place(to + (bytes - tail), from + (bytes - tail), tail);
      return;
    }
    if (lane_ == of) {
      if (*unfenced) fence_direct_stores();
      execute_last(shot, block);
    }
    // An atomic is done when it has answered, and its answer was waited for.
    *unfenced = (run.writes >> of & 1) != 0;
  }

  /// Completions of the run; true when there were any, and with them a fence. Of a collapsed CQ
  /// only the newest can be read: tell() stores it, once for several runs.
  __device__ bool report(EngineSlot& s, const Shot& shot, uint32_t run, uint64_t now) {
    const uint32_t signalled = __ballot_sync(kAll, lane_ < run && shot.signalled);
    if (signalled == 0) return false;
    const auto count = static_cast<uint32_t>(__popc(signalled));
    const uint32_t newest = 31 - static_cast<uint32_t>(__clz(static_cast<int>(signalled)));
    const bool collapsed = s.cqe_bytes == 0;
    if (collapsed) {
      if (lane_ == newest) {
        s.untold = {now, s.next + lane_, shot.fetches() ? shot.bytes : 0, shot.opcode, true};
      }
    } else if ((signalled >> lane_ & 1) != 0) {
      const uint64_t before =
          s.produced + static_cast<uint32_t>(__popc(signalled & ((1u << lane_) - 1)));
      const CqePlace place = place_in(s, before);
      const CqeWords words = cqe_of(place, shot, s.next + lane_, now);
      if (lane_ == newest) store_relaxed<uint64_t>(&s.cq->produced, before + 1);
      store_body(place.at, words);
      store<uint64_t>(place.at + 56, words.word[7]);
    }
    __syncwarp();
    if (lane_ == newest) s.produced += count;
    return !collapsed;
  }

  /// Stores the completion that report() has left, and with it orders what the warp has stored.
  __device__ void tell(EngineSlot& s) {
    if (lane_ == 0 && s.untold.any) {
      Shot shot;
      shot.kind = s.untold.bytes != 0 ? Shot::Kind::kRead : Shot::Kind::kNop;
      shot.bytes = s.untold.bytes;
      shot.opcode = s.untold.opcode;
      const CqePlace place = place_in(s, s.produced - 1);
      const CqeWords words = cqe_of(place, shot, s.untold.index, s.untold.now);
      store_relaxed<uint64_t>(&s.cq->produced, s.produced);
      store_body(place.at, words);
      store<uint64_t>(place.at + 56, words.word[7]);
      s.untold.any = false;
      s.unfenced = false;
    }
    __syncwarp();
  }

  const EngineArguments& a_;
  EngineSlot* slots_;
  uint32_t lane_;
  Jobs jobs_;
  uint32_t count_ = 0;
  bool finishing_ = false;
};

}  // namespace peal::softnic::gpu
