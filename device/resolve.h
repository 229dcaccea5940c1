// SPDX-License-Identifier: Apache-2.0
//
// From an address and a PE to a queue, an offset and a key; or to the first usage error of the
// context.
#pragma once

#include <cstdint>

#include "device/base/order.h"
#include "device/base/scope.h"
#include "device/context.h"
#include "device/transport/ibgda.h"

namespace peal {
namespace detail {

/// What a call asked for that cannot be.
struct Asked {
  const void* address;
  uint64_t bytes;
  int pe;
};

/// Latches the first usage error of a context and returns `status`.
template <Reach R>
PEAL_DEVICE_COLD Status refuse(const BasicContext<R>& ctx, Status status, const Asked& asked) {
  UsageError& usage = ctx.state->usage;
  if (compare_exchange<Reach::kGpu>(&usage.claimed, 0u, 1u)) {
    usage.pe = asked.pe;
    usage.block = block_in_grid();
    usage.address = reinterpret_cast<uint64_t>(asked.address);
    usage.bytes = asked.bytes;
    store_release<Reach::kSystem>(&usage.status, static_cast<uint32_t>(status));
  }
  return status;
}

PEAL_HD Status usage_status(const ContextFields& ctx) {
  return static_cast<Status>(load_relaxed<Reach::kGpu>(&ctx.state->usage.status));
}

PEAL_HD uint64_t offset_in(const Window& w, const void* address) {
  return static_cast<uint64_t>(static_cast<const std::byte*>(address) - w.base);
}

/// True if the window holds [address, address + bytes).
PEAL_HD bool holds_range(const Window& w, const void* address, uint64_t bytes) {
  const uint64_t offset = offset_in(w, address);
  return offset <= w.bytes && bytes <= w.bytes - offset;
}

/// True if all PEs registered the window: it can be the far side of a transfer.
PEAL_HD bool symmetric(const Window& w) { return w.rkeys != nullptr || w.direct != nullptr; }

enum class Side { kHome, kPeer };

/// Finds the window that holds [address, address + bytes); at a peer only one that all PEs
/// registered.
PEAL_HD bool find_window(const ContextFields& ctx, const void* address, uint64_t bytes, Side side,
                         Window* found) {
  *found = ctx.heap;
  if (holds_range(*found, address, bytes)) return true;
  // Edge M13: an entry is complete before `count` covers it.
  const uint32_t count = load_acquire<Reach::kSystem>(&ctx.windows->count);
  for (uint32_t i = 1; i < count; ++i) {
    *found = ctx.windows->window[i];
    if (holds_range(*found, address, bytes) && (side == Side::kHome || symmetric(*found)))
      return true;
  }
  return false;
}

/// Queue `index` of the context: queue of the peer * n_pes + pe.
PEAL_HD mlx5::SendQueue* queue_at(const ContextFields& ctx, uint32_t index) {
  return reinterpret_cast<mlx5::SendQueue*>(ctx.queues + index * ctx.queue_stride);
}

/// A remote range made concrete: its address here if the peer's memory is mapped, else which queue,
/// which offset, which key.
struct Destination {
  std::byte* direct;  // null: through the NIC
  mlx5::SendQueue* queue;
  mlx5::Remote remote;
  Status status;
};

/// Checks pe and range, and picks the way: direct, or the queue of the calling block.
template <Reach R>
PEAL_DEVICE Destination resolve(const BasicContext<R>& ctx, const void* address, uint64_t bytes,
                                int pe) {
  Destination d{};
  const Asked asked{address, bytes, pe};
  if (pe < 0 || pe >= ctx.n_pes) {
    d.status = refuse(ctx, Status::kBadPe, asked);
    return d;
  }
  Window w;
  if (!find_window(ctx, address, bytes, Side::kPeer, &w)) {
    d.status = refuse(ctx, Status::kNotSymmetric, asked);
    return d;
  }
  if (w.direct != nullptr) {
    std::byte* const base = w.direct[pe];
    if (base != nullptr) {
      d.direct = base + offset_in(w, address);
      return d;
    }
  }
  if (w.rkeys == nullptr) {
    d.status = refuse(ctx, Status::kNotSymmetric, asked);
    return d;
  }
  const uint32_t lane_queue = ctx.queues_per_peer == 1 ? 0 : block_in_grid() % ctx.queues_per_peer;
  d.queue =
      queue_at(ctx, lane_queue * static_cast<uint32_t>(ctx.n_pes) + static_cast<uint32_t>(pe));
  d.remote = {offset_in(w, address), w.rkeys[pe]};
  return d;
}

/// The local side of a transfer.
struct Origin {
  mlx5::Local local;
  Status status;
};

template <Reach R>
PEAL_DEVICE Origin resolve_local(const BasicContext<R>& ctx, const void* address, uint64_t bytes) {
  Window w;
  if (find_window(ctx, address, bytes, Side::kHome, &w)) {
    return {{offset_in(w, address), w.lkey}, Status::kOk};
  }
  return {{}, refuse(ctx, Status::kNotRegistered, Asked{address, bytes, ctx.pe})};
}

}  // namespace detail
}  // namespace peal
