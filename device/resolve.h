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

enum class Side { kHome, kPeer };

/// The window that holds [address, address + bytes), or null; at a peer only one that all PEs
/// registered.
PEAL_HD const Window* find_window(const ContextFields& ctx, const void* address, uint64_t bytes,
                                  Side side) {
  const uint32_t count = load_acquire<Reach::kSystem>(&ctx.windows->count);
  for (uint32_t i = 0; i < count; ++i) {
    const Window& w = ctx.windows->window[i];
    const auto offset = static_cast<uint64_t>(static_cast<const std::byte*>(address) - w.base);
    if (offset > w.bytes || bytes > w.bytes - offset) continue;
    if (side == Side::kHome || w.rkeys != nullptr || w.direct != nullptr) return &w;
  }
  return nullptr;
}

PEAL_HD uint64_t offset_in(const Window& w, const void* address) {
  return static_cast<uint64_t>(static_cast<const std::byte*>(address) - w.base);
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
  const Window* w = find_window(ctx, address, bytes, Side::kPeer);
  if (w == nullptr) {
    d.status = refuse(ctx, Status::kNotSymmetric, what);
    return d;
  }
  if (w->direct != nullptr && w->direct[pe] != nullptr) {
    d.direct = w->direct[pe] + offset_in(*w, address);
    return d;
  }
  if (w->rkeys == nullptr) {
    d.status = refuse(ctx, Status::kNotSymmetric, what);
    return d;
  }
  const uint32_t lane_queue = ctx.queues_per_peer == 1 ? 0 : block_in_grid() % ctx.queues_per_peer;
  d.queue =
      queue_at(ctx, lane_queue * static_cast<uint32_t>(ctx.n_pes) + static_cast<uint32_t>(pe));
  d.remote = {offset_in(*w, address), w->rkeys[pe]};
  return d;
}

/// The local side of a transfer.
struct Origin {
  mlx5::Local local;
  Status status;
};

PEAL_DEVICE Origin resolve_local(const ContextFields& ctx, const void* address, uint64_t bytes) {
  const Window* w = find_window(ctx, address, bytes, Side::kHome);
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
