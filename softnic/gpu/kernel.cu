// SPDX-License-Identifier: Apache-2.0
//
// The NIC as a kernel. Warp 0 of each block watches for the order to stop; each other warp serves
// its queue pairs:
//
//   doorbell record (acquire) -> 32 blocks at once -> run of plain requests, lane by lane
//                                                  -> anything else: the exact step, by lane 0
//   payload -> fence -> one completion for the run (collapsed CQ), or one each, last words together
//
// The tables do not change while the kernel runs, so a warp keeps what it needs of its queue pair
// in registers (Session) and writes it back before the exact step and at the end.
#include <cuda_runtime.h>

#include "device/base/order.h"
#include "softnic/gpu/batch.h"
#include "softnic/gpu/kernel.h"
#include "softnic/gpu/wire_direct.h"

namespace peal::softnic::gpu {

namespace {

constexpr uint32_t kLanes = 32;
constexpr uint32_t kAll = ~0u;
constexpr uint32_t kMaxWarps = 16;     // of a block, the watching one among them
constexpr uint32_t kSmallBytes = 64;   // a lane copies alone up to here
constexpr uint32_t kIdleTurns = 4096;  // until a warp polls less often
constexpr uint32_t kIdleSleepNs = 500;
constexpr uint32_t kWatchSleepNs = 1000;

__device__ uint64_t clock_ns() {
  uint64_t ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

template <class T>
__device__ T volatile_load(const T* at) {
  return *static_cast<const volatile T*>(at);
}

// ---- copies

template <class T>
__device__ void copy_units(std::byte* to, const std::byte* from, uint64_t units, uint32_t first,
                           uint32_t step) {
  for (uint64_t i = first; i < units; i += step) {
    reinterpret_cast<T*>(to)[i] = volatile_load(reinterpret_cast<const T*>(from) + i);
  }
}

/// 16 bytes at a time, many in flight: what a load costs over a link is its latency.
__device__ void copy_lines(std::byte* to, const std::byte* from, uint64_t lines, uint32_t lane) {
  constexpr uint32_t kDeep = 8;
  uint64_t i = lane;
  for (; i + (kDeep - 1) * kLanes < lines; i += kDeep * kLanes) {
    Line line[kDeep];
#pragma unroll
    for (uint32_t k = 0; k < kDeep; ++k) line[k] = load_line_direct(from + 16 * (i + k * kLanes));
#pragma unroll
    for (uint32_t k = 0; k < kDeep; ++k) store_line(to + 16 * (i + k * kLanes), line[k]);
  }
  for (; i < lines; i += kLanes) store_line(to + 16 * i, load_line_direct(from + 16 * i));
}

/// By a whole warp. Nothing is promised about the order in which the bytes appear.
__device__ void copy_together(std::byte* to, const std::byte* from, uint64_t bytes, uint32_t lane) {
  const auto skew = (reinterpret_cast<uint64_t>(to) ^ reinterpret_cast<uint64_t>(from)) & 15;
  if (skew != 0) {
    if (skew % 8 == 0 && aligned(to, 8) && bytes % 8 == 0) {
      return copy_units<uint64_t>(to, from, bytes / 8, lane, kLanes);
    }
    if (skew % 4 == 0 && aligned(to, 4) && bytes % 4 == 0) {
      return copy_units<uint32_t>(to, from, bytes / 4, lane, kLanes);
    }
    return copy_units<uint8_t>(to, from, bytes, lane, kLanes);
  }
  const uint64_t misaligned = -reinterpret_cast<uint64_t>(to) & 15;
  const uint64_t head = misaligned < bytes ? misaligned : bytes;
  copy_units<uint8_t>(to, from, head, lane, kLanes);
  const uint64_t lines = (bytes - head) / 16;
  copy_lines(to + head, from + head, lines, lane);
  const uint64_t done = head + 16 * lines;
  copy_units<uint8_t>(to + done, from + done, bytes - done, lane, kLanes);
}

/// By one lane: at most kSmallBytes.
__device__ void copy_alone(std::byte* to, const std::byte* from, uint32_t bytes) {
  const uint64_t both = reinterpret_cast<uint64_t>(to) | reinterpret_cast<uint64_t>(from) | bytes;
  if (both % 8 == 0) return copy_units<uint64_t>(to, from, bytes / 8, 0, 1);
  if (both % 4 == 0) return copy_units<uint32_t>(to, from, bytes / 4, 0, 1);
  copy_units<uint8_t>(to, from, bytes, 0, 1);
}

/// Inline bytes, out of registers.
__device__ void store_inline(std::byte* to, const Block& block, uint32_t bytes) {
  if (bytes == 8 && aligned(to, 8)) {
    const uint64_t low = block.word[kInlineWord];
    store_relaxed<uint64_t>(to, low | uint64_t{block.word[kInlineWord + 1]} << 32);
    return;
  }
  const bool words = aligned(to, 4);
#pragma unroll
  for (uint32_t i = 0; i < mlx5::kMaxInlineBytes / 4; ++i) {
    const uint32_t word = block.word[kInlineWord + i];
    if (words && i * 4 + 4 <= bytes) {
      store_relaxed<uint32_t>(to + i * 4, word);
      continue;
    }
#pragma unroll
    for (uint32_t k = 0; k < 4; ++k) {
      if (i * 4 + k < bytes) to[i * 4 + k] = static_cast<std::byte>(word >> (8 * k));
    }
  }
}

__device__ mlx5::Opcode opcode_of(Shot::Kind kind) {
  return kind == Shot::Kind::kWrite  ? mlx5::Opcode::kRdmaWrite
         : kind == Shot::Kind::kRead ? mlx5::Opcode::kRdmaRead
                                     : mlx5::Opcode::kNop;
}

template <class T>
__device__ T* broadcast(T* pointer, uint32_t lane) {
  return reinterpret_cast<T*>(
      __shfl_sync(kAll, reinterpret_cast<unsigned long long>(pointer), static_cast<int>(lane)));
}

// ---- one queue pair

/// One step as the CPU's engine does it; true when it did anything. Apart, so that its registers
/// and stack are not the fast path's.
__device__ __noinline__ bool exact_step(DirectWire wire, Watch* watch, Port* port, QueuePair* qp) {
  if (!rung(*qp) && !unsettled(*qp)) return false;
  const bool worked = advance(*port, wire, *qp, clock_ns(), 1);
  if (volatile_load(&port->events.count) != 0) store_relaxed<uint32_t>(&watch->attention, 1);
  return worked;
}

/// A warp's view of the queue pair it serves; the same in all lanes.
class Session {
 public:
  __device__ Session(const EngineArguments& a, const Assignment& work, uint32_t lane)
      : a_(a), port_(work.port), qp_(work.qp), lane_(lane) {
    load_state();
  }

  /// Does what there is to do; true when there was anything.
  __device__ bool turn() {
    const QpState state = state_of(qp_);
    const uint32_t record = Be32::from_raw(load<uint32_t>(&doorbell_->send)).host();
    const auto fresh = static_cast<uint16_t>(record - static_cast<uint32_t>(posted_));
    const bool plain = smooth_ && state == QpState::kReadyToSend;
    if (plain && fresh == 0 && next_ == posted_) return false;
    uint32_t run = 0;
    Shot shot;
    Block block;
    if (plain && posted_ + fresh - next_ <= mask_ + 1) {
      posted_ += fresh;
      run = aim(shot, block);
    }
    if (run == 0) return exact();
    execute(shot, block, run);
    report(shot, run);
    next_ += run;
    psn_ = (psn_ + run) & kPsnMask;
    return true;
  }

  /// Makes the tables say what the registers know.
  __device__ void save() {
    if (lane_ == 0) {
      qp_->send.posted = posted_;
      qp_->send.next = qp_->send.retired = next_;
      qp_->send.psn = psn_;
      if (smooth_) peer_->receive.expected_psn = psn_;
    }
    __syncwarp();
  }

 private:
  __device__ void load_state() {
    const Sender& send = qp_->send;
    posted_ = send.posted;
    next_ = send.next;
    psn_ = send.psn;
    doorbell_ = qp_->doorbell;
    mask_ = qp_->send_blocks - 1;
    ring_ = qp_->send_buffer;
    cq_ = find_cq(*port_, qp_->send_cq);
    smooth_ = ring_ != nullptr && qp_->service == Service::kReliable && send.drained() &&
              send.phase == Sender::Phase::kIdle && !send.doorbell_fault &&
              send.paused_until == 0 && send.give_up_at == 0 && send.resend_at == 0 &&
              find_peer() && cq_ != nullptr && cq_->writers == 1 && cq_->ignore_overrun;
    if (!smooth_) return;
    produced_ = cq_->produced;
    place_ = place_of(*cq_, 0, *qp_);
    cqe_bytes_ = cq_->collapsed ? 0 : cq_->cqe_bytes;
    log_entries_ = cq_->log_entries;
  }

  __device__ static QpState state_of(const QueuePair* qp) {
    return static_cast<QpState>(volatile_load(reinterpret_cast<const uint8_t*>(&qp->state)));
  }

  __device__ bool find_peer() {
    const QueuePairAttributes& mine = qp_->attributes;
    const Port* peer = mine.remote_lid < a_.lids ? a_.ports[mine.remote_lid] : nullptr;
    peer_ = peer == nullptr ? nullptr : find_qp(*peer, mine.remote_qpn);
    if (peer_ == nullptr || peer_->service != Service::kReliable) return false;
    const QueuePairAttributes& theirs = peer_->attributes;
    view_ = {.qpn = qp_->qpn,
             .pd = qp_->pd,
             .keys = port_->keys,
             .key_count = port_->key_count,
             .peer_key_count = peer->key_count,
             .peer_keys = peer->keys,
             .peer_pd = peer_->pd,
             .peer_access = theirs.responder_depth_valid ? theirs.access
                                                         : theirs.access & ~uint32_t{kRemoteRead},
             .log_max_message = mine.log_max_message};
    return theirs.remote_qpn == qp_->qpn && theirs.remote_lid == port_->lid &&
           peer_->receive.expected_psn == psn_;
  }

  /// The exact step by lane 0. What it does not do now it is asked again.
  __device__ bool exact() {
    save();
    bool worked = false;
    if (lane_ == 0) {
      // What other lanes have stored precedes what the step does.
      if (unfenced_) fence_direct_stores();
      worked = exact_step({a_.ports, a_.lids}, a_.watch, port_, qp_);
    }
    unfenced_ = true;
    worked = __any_sync(kAll, worked);
    load_state();
    return worked;
  }

  /// Fetches what is posted and decodes it; answers the length of the run it begins with.
  __device__ uint32_t aim(Shot& shot, Block& block) const {
    const uint64_t waiting = posted_ - next_;
    const uint32_t ready = waiting < kLanes ? static_cast<uint32_t>(waiting) : kLanes;
    // Both loads are on their way at once.
    const QpState peer_state = state_of(peer_);
    if (lane_ < ready) fetch(block);
    if (peer_state != QpState::kReadyToReceive && peer_state != QpState::kReadyToSend) return 0;
    if (lane_ < ready) shot = decode_shot(view_, block, next_ + lane_);
    return choose(shot);
  }

  __device__ void fetch(Block& block) const {
    const std::byte* at = ring_ + ((next_ + lane_) & mask_) * mlx5::kWqebbBytes;
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      const Line line = load_line_direct(at + 16 * i);
      block.word[4 * i] = static_cast<uint32_t>(line.word[0]);
      block.word[4 * i + 1] = static_cast<uint32_t>(line.word[0] >> 32);
      block.word[4 * i + 2] = static_cast<uint32_t>(line.word[1]);
      block.word[4 * i + 3] = static_cast<uint32_t>(line.word[1] >> 32);
    }
  }

  __device__ uint32_t choose(const Shot& shot) const {
    const auto first =
        static_cast<Shot::Kind>(__shfl_sync(kAll, static_cast<uint32_t>(shot.kind), 0));
    const bool fits = shot.kind != Shot::Kind::kNone && joins(first, shot.kind);
    const uint32_t plain = __ballot_sync(kAll, fits);
    const uint32_t strict = __ballot_sync(kAll, shot.strict);
    const uint32_t longest = run_length(plain, strict, 0);
    bool clashes = false;
    for (uint32_t earlier = 0; earlier + 1 < longest; ++earlier) {
      Shot other;
      other.to = broadcast(shot.to, earlier);
      other.bytes = __shfl_sync(kAll, shot.bytes, static_cast<int>(earlier));
      clashes = clashes || (lane_ > earlier && clash(other, shot));
    }
    return run_length(plain, strict, __ballot_sync(kAll, clashes));
  }

  __device__ void execute(const Shot& shot, const Block& block, uint32_t run) {
    const bool mine = lane_ < run && shot.kind != Shot::Kind::kNop && !shot.strict;
    // A READ sees what was written before it.
    const bool reads = __any_sync(kAll, mine && shot.kind == Shot::Kind::kRead);
    if (reads && unfenced_) {
      fence_direct_stores();
      __syncwarp();
    }
    const bool large = mine && shot.from != nullptr && shot.bytes > kSmallBytes;
    if (mine && shot.from == nullptr) store_inline(shot.to, block, shot.bytes);
    if (mine && shot.from != nullptr && !large) copy_alone(shot.to, shot.from, shot.bytes);
    for (uint32_t left = __ballot_sync(kAll, large); left != 0; left &= left - 1) {
      const uint32_t of = lowest_bit(left);
      copy_together(broadcast(shot.to, of), broadcast(shot.from, of),
                    __shfl_sync(kAll, shot.bytes, static_cast<int>(of)), lane_);
    }
    unfenced_ = unfenced_ || __any_sync(kAll, mine);
    const uint32_t last = run - 1;
    if (__shfl_sync(kAll, shot.strict ? 1u : 0u, static_cast<int>(last)) != 0) {
      execute_strict(shot, block, last);
    }
    __syncwarp();
  }

  /// After everything before it, its last word after its other bytes; by lane 0, whose fences count
  /// for the warp.
  __device__ void execute_strict(const Shot& shot, const Block& block, uint32_t of) {
    std::byte* to = broadcast(shot.to, of);
    const std::byte* from = broadcast(shot.from, of);
    const uint32_t bytes = __shfl_sync(kAll, shot.bytes, static_cast<int>(of));
    if (unfenced_) {
      __syncwarp();
      if (lane_ == 0) fence_direct_stores();
      __syncwarp();
    }
    unfenced_ = true;
    if (from == nullptr) {
      Block inlined = {};
      inlined.word[kInlineWord] = __shfl_sync(kAll, block.word[kInlineWord], static_cast<int>(of));
      inlined.word[kInlineWord + 1] =
          __shfl_sync(kAll, block.word[kInlineWord + 1], static_cast<int>(of));
      if (lane_ == 0) store_inline(to, inlined, bytes);
      return;
    }
    uint32_t tail = 8;
    while (tail > bytes || !aligned(to + bytes, tail)) tail /= 2;
    copy_together(to, from, bytes - tail, lane_);
    __syncwarp();
    if (lane_ == 0) place(to + (bytes - tail), from + (bytes - tail), tail);
  }

  /// Completions of the run; the store of a last word releases what the warp has stored.
  __device__ void report(const Shot& shot, uint32_t run) {
    const uint32_t signalled = __ballot_sync(kAll, lane_ < run && shot.signalled);
    if (signalled == 0) return;
    const auto count = static_cast<uint32_t>(__popc(signalled));
    const bool collapsed = cqe_bytes_ == 0;
    // Of a collapsed queue only the newest CQE can be read: lane 0 writes it for the lane whose it
    // is.
    const uint32_t newest = 31 - static_cast<uint32_t>(__clz(static_cast<int>(signalled)));
    const uint32_t speaks_for = collapsed ? newest : lane_;
    const auto kind = static_cast<Shot::Kind>(
        __shfl_sync(kAll, static_cast<uint32_t>(shot.kind), static_cast<int>(speaks_for)));
    const uint32_t bytes = __shfl_sync(kAll, shot.bytes, static_cast<int>(speaks_for));
    if (lane_ == 0) store_relaxed<uint64_t>(&cq_->produced, produced_ + count);
    __syncwarp();
    const bool speaks = collapsed ? lane_ == 0 : (signalled >> lane_ & 1) != 0;
    if (speaks) {
      const auto before = static_cast<uint32_t>(__popc(signalled & ((1u << lane_) - 1)));
      const uint64_t entry = produced_ + (collapsed ? count - 1 : before);
      CqePlace place = place_;
      place.at += (entry & ((1ull << log_entries_) - 1)) * cqe_bytes_;
      place.owner = static_cast<uint32_t>(entry >> log_entries_) & 1;
      write_cqe(place,
                {.kind = mlx5::CqeOpcode::kRequester,
                 .syndrome = mlx5::Syndrome::kNone,
                 .opcode = opcode_of(kind),
                 .counter = static_cast<uint16_t>(next_ + speaks_for),
                 .bytes = kind == Shot::Kind::kRead ? bytes : 0,
                 .immediate = 0},
                clock_ns());
    }
    produced_ += count;
    unfenced_ = !collapsed;  // otherwise lane 0 has fenced for all
    __syncwarp();
  }

  const EngineArguments& a_;
  Port* port_;
  QueuePair* qp_;
  QueuePair* peer_ = nullptr;
  CompletionQueue* cq_ = nullptr;
  mlx5::DoorbellRecord* doorbell_ = nullptr;
  const std::byte* ring_ = nullptr;
  View view_ = {};
  CqePlace place_ = {};
  uint64_t posted_ = 0;
  uint64_t next_ = 0;
  uint64_t produced_ = 0;
  uint32_t psn_ = 0;
  uint32_t mask_ = 0;
  uint32_t cqe_bytes_ = 0;  // 0: collapsed
  uint32_t log_entries_ = 0;
  uint32_t lane_;
  bool smooth_ = false;    // the fast path knows all it must know
  bool unfenced_ = false;  // stores since the last fence
};

// ---- the kernel

/// Passes the order to stop on: host -> block 0 -> GPU memory -> every block. The host also counts
/// beats; when they cease, block 0 gives the order itself.
__device__ void watch(const EngineArguments& a, volatile uint32_t* stop) {
  uint32_t beat = 0;
  uint64_t heard = clock_ns();
  for (;;) {
    if (blockIdx.x == 0) {
      const uint32_t now_beat = volatile_load(&a.watch->beat);
      if (now_beat != beat) heard = clock_ns();
      beat = now_beat;
      const bool deserted = clock_ns() - heard > a.patience_ns;
      if (volatile_load(&a.watch->stop) != 0 || deserted) store_relaxed<uint32_t>(a.order, 1);
    }
    if (volatile_load(a.order) != 0) break;
    __nanosleep(kWatchSleepNs);
  }
  *stop = 1;
}

__device__ void serve(const EngineArguments& a, uint32_t worker, uint32_t workers,
                      const volatile uint32_t* stop) {
  const uint32_t lane = threadIdx.x % kLanes;
  const bool alone = worker + workers >= a.work_count;
  for (uint32_t i = worker; i < a.work_count && *stop == 0;) {
    Session session(a, a.work[i], lane);
    uint32_t idle = 0;
    do {
      idle = session.turn() ? 0 : idle + 1;
      if (alone && idle > kIdleTurns) __nanosleep(kIdleSleepNs);
    } while (alone && __shfl_sync(kAll, *stop, 0) == 0);
    session.save();
    i += workers;
    if (i >= a.work_count) i = worker;
  }
}

__global__ void __launch_bounds__(kMaxWarps* kLanes, 1) engine_kernel(EngineArguments a) {
  __shared__ uint32_t stop;
  if (threadIdx.x == 0) stop = 0;
  __syncthreads();
  const uint32_t warp = threadIdx.x / kLanes;
  if (warp == 0) {
    if (threadIdx.x == 0) watch(a, &stop);
    return;
  }
  // Neighbours in the list go to different multiprocessors first.
  const uint32_t worker = (warp - 1) * gridDim.x + blockIdx.x;
  serve(a, worker, (blockDim.x / kLanes - 1) * gridDim.x, &stop);
}

}  // namespace

const char* launch_engine(const EngineArguments& arguments, uint32_t multiprocessors,
                          void* stream) {
  const uint32_t work = arguments.work_count;
  const uint32_t blocks = work < multiprocessors ? work : multiprocessors;
  const uint32_t wanted = (work + blocks - 1) / blocks;
  const uint32_t warps = 1 + (wanted < kMaxWarps - 1 ? wanted : kMaxWarps - 1);
  engine_kernel<<<blocks, warps * kLanes, 0, static_cast<cudaStream_t>(stream)>>>(arguments);
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

}  // namespace peal::softnic::gpu
