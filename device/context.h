// SPDX-License-Identifier: Apache-2.0
//
// What a kernel is given: a Context, by value. It holds no queue and no key itself, it points at
// the tables that do, so it stays valid while windows are registered and costs a kernel a few
// registers.
//
//   put(ctx, dst, src, n, pe):   dst -> window, offset, rkey of pe      block -> queue of pe
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "device/base/endian.h"
#include "device/base/order.h"
#include "device/base/scope.h"
#include "device/base/spin.h"
#include "device/status.h"
#include "device/transport/ibgda.h"

namespace peal {

inline constexpr uint32_t kContextVersion = 1;
inline constexpr uint32_t kMaxWindows = 64;

/// Memory the NIC knows: registered once with iova 0, so an address on the wire is an offset from
/// `base`.
struct Window {
  std::byte* base;
  uint64_t bytes;
  Be32 lkey;
  uint32_t reserved;
  const Be32*
      rkeys;  // [n_pes]; null: this PE alone registered it, good as a source or destination at home
  std::byte* const* direct;  // [n_pes]: where the peer's copy is mapped here, or null
};

/// Window 0 is the symmetric heap. Grows while contexts exist; `count` is published last.
struct WindowTable {
  uint32_t count;
  uint32_t reserved;
  Window window[kMaxWindows];
};

/// The first call that could not be carried out because of its arguments. `status` is written last.
struct UsageError {
  uint32_t status;
  uint32_t claimed;
  int32_t pe;
  uint32_t block;
  uint64_t address;
  uint64_t bytes;
};

/// What the lanes of all kernels on one context share beside its queues.
struct ContextState {
  UsageError usage;
  alignas(64) uint64_t sync_epoch;  // barriers entered by this PE
};

/// The fields of a context; BasicContext adds the type of ownership.
struct ContextFields {
  uint32_t version;
  uint32_t bytes;  // of this struct, for a host library newer than the kernel
  int32_t pe;
  int32_t n_pes;
  uint32_t queues_per_peer;
  uint32_t sync_rounds;  // ceil(log2(n_pes))
  const WindowTable* windows;
  mlx5::SendQueue* queues;  // [queues_per_peer][n_pes]
  ContextState* state;
  const uint32_t* stop;  // the runtime's stop word
  uint64_t* sync_flags;  // [sync_rounds], symmetric; written by the peers
  uint64_t timeout_ns;   // of every wait; 0 = none
};

/// Ownership R: Exclusive contexts are used by one thread, warp or block per queue at a time and
/// need no atomics; shared ones by any lane of a block (kBlock) or of the GPU (kGpu).
template <Reach R>
struct BasicContext : ContextFields {
  static constexpr Reach kReach = R;
};

using Context = BasicContext<Reach::kGpu>;
using BlockContext = BasicContext<Reach::kBlock>;
using ExclusiveContext = BasicContext<Reach::kLane>;

static_assert(std::is_trivially_copyable_v<Context> && sizeof(Context) <= 256);

/// This PE's number and how many there are.
PEAL_HD int my_pe(const ContextFields& ctx) { return ctx.pe; }
PEAL_HD int n_pes(const ContextFields& ctx) { return ctx.n_pes; }

namespace detail {

/// Latches the first usage error of a context and returns `status`.
PEAL_DEVICE Status refuse(const ContextFields& ctx, Status status, const UsageError& what) {
  UsageError& usage = ctx.state->usage;
  if (compare_exchange<Reach::kGpu>(&usage.claimed, 0u, 1u)) {
    usage.pe = what.pe;
    usage.block = block_in_grid();
    usage.address = what.address;
    usage.bytes = what.bytes;
    store_release<Reach::kSystem>(&usage.status, static_cast<uint32_t>(status));
  }
  return status;
}

PEAL_HD Status usage_status(const ContextFields& ctx) {
  return static_cast<Status>(load_relaxed<Reach::kGpu>(&ctx.state->usage.status));
}

/// The window that holds [address, address + bytes), or null.
PEAL_HD const Window* find_window(const ContextFields& ctx, const void* address, uint64_t bytes) {
  const uint32_t count = load_acquire<Reach::kSystem>(&ctx.windows->count);
  for (uint32_t i = 0; i < count; ++i) {
    const Window& w = ctx.windows->window[i];
    const auto offset = static_cast<uint64_t>(static_cast<const std::byte*>(address) - w.base);
    if (offset < w.bytes && bytes <= w.bytes - offset) return &w;
  }
  return nullptr;
}

PEAL_HD uint64_t offset_in(const Window& w, const void* address) {
  return static_cast<uint64_t>(static_cast<const std::byte*>(address) - w.base);
}

/// A remote range made concrete: which queue, which offset, which key.
struct Destination {
  mlx5::SendQueue* queue;
  mlx5::Remote remote;
  Status status;
};

/// Checks pe and range, and picks the queue of the calling block.
template <Reach R>
PEAL_DEVICE Destination resolve(const BasicContext<R>& ctx, const void* address, uint64_t bytes,
                                int pe) {
  Destination d{};
  const UsageError what{.status = 0,
                        .claimed = 0,
                        .pe = pe,
                        .block = 0,
                        .address = reinterpret_cast<uint64_t>(address),
                        .bytes = bytes};
  if (pe < 0 || pe >= ctx.n_pes) {
    d.status = refuse(ctx, Status::kBadPe, what);
    return d;
  }
  const Window* w = find_window(ctx, address, bytes);
  if (w == nullptr || w->rkeys == nullptr) {
    d.status = refuse(ctx, Status::kNotSymmetric, what);
    return d;
  }
  const uint32_t lane_queue = ctx.queues_per_peer == 1 ? 0 : block_in_grid() % ctx.queues_per_peer;
  d.queue = &ctx.queues[lane_queue * static_cast<uint32_t>(ctx.n_pes) + static_cast<uint32_t>(pe)];
  d.remote = {offset_in(*w, address), w->rkeys[pe]};
  d.status = Status::kOk;
  return d;
}

/// The local side of a transfer.
struct Origin {
  mlx5::Local local;
  Status status;
};

PEAL_DEVICE Origin resolve_local(const ContextFields& ctx, const void* address, uint64_t bytes) {
  const Window* w = find_window(ctx, address, bytes);
  if (w != nullptr) return {{offset_in(*w, address), w->lkey}, Status::kOk};
  const UsageError what{.status = 0,
                        .claimed = 0,
                        .pe = ctx.pe,
                        .block = 0,
                        .address = reinterpret_cast<uint64_t>(address),
                        .bytes = bytes};
  return {{}, refuse(ctx, Status::kNotRegistered, what)};
}

}  // namespace detail
}  // namespace peal
