// SPDX-License-Identifier: Apache-2.0
//
// How the kernels of softnic_gpu_test post: one request and wait for it, or 32 blocks by a warp in
// one doorbell; and the requests they post.
#pragma once

#include <cstdint>
#include <cstring>

#include "device/mlx5/send_queue.h"

namespace peal::testing {

using mlx5::Header;
using mlx5::SendQueue;

/// Posts one WQE and waits for it.
template <class Compose>
__device__ Status run(SendQueue& q, const Compose& compose) {
  uint64_t at = 0;
  const Status status = mlx5::reserve<Reach::kLane>(q, decltype(compose(Header{}))::kBlocks, &at);
  if (status != Status::kOk) return status;
  mlx5::write(q, at, compose(Header{.index = at, .qpn_shifted = q.qpn_shifted}));
  static_cast<void>(mlx5::publish<Reach::kLane>(
      q,
      {.first = at, .blocks = decltype(compose(Header{}))::kBlocks, .last = at}));  // drain tells
  mlx5::ring<Reach::kLane>(q);
  return mlx5::wait_completed<Reach::kLane>(q, at);
}

/// The lanes post a WQE of one block each, one of them `last` in their place; 32 blocks, of which
/// the last WQE is signalled; one doorbell.
template <class Compose, class Last>
__device__ Status post_together(SendQueue& q, uint32_t lane, const Compose& compose,
                                const Last& last) {
  constexpr uint32_t kLast = 32 - decltype(last(Header{}))::kBlocks;
  uint64_t at = 0;
  uint32_t status = 0;
  if (lane == 0) status = static_cast<uint32_t>(mlx5::reserve<Reach::kLane>(q, 32, &at));
  at = __shfl_sync(~0u, at, 0);
  status = __shfl_sync(~0u, status, 0);
  if (status != 0) return static_cast<Status>(status);
  Header header{.index = at + lane, .qpn_shifted = q.qpn_shifted};
  if (lane == kLast) mlx5::write(q, at + lane, last(header));
  header.completion = mlx5::Completion::kOnFirstError;
  if (lane < kLast) mlx5::write(q, at + lane, compose(header));
  __syncwarp();
  if (lane == 0) {
    static_cast<void>(  // drain tells
        mlx5::publish<Reach::kLane>(q, {.first = at, .blocks = 32, .last = at + kLast}));
    mlx5::ring<Reach::kLane>(q);
  }
  __syncwarp();
  return Status::kOk;
}

/// A WRITE of one word.
__device__ inline mlx5::Wqe<3> inline_word(const Header& h, uint64_t offset, Be32 rkey,
                                           uint64_t value) {
  const uint32_t payload[3] = {static_cast<uint32_t>(value), static_cast<uint32_t>(value >> 32), 0};
  return mlx5::compose_write_inline(h, {offset, rkey}, payload, 8);
}

/// An inline WRITE that takes several blocks: bytes 0, 1, 2 ...
template <uint32_t kBytes>
__device__ auto long_inline(const Header& h, const mlx5::Remote& to) {
  constexpr uint32_t kLines = 2 + (4 + kBytes + 15) / 16;
  mlx5::Wqe<kLines> wqe = {};
  wqe.line[0] = mlx5::detail::control(h, mlx5::Opcode::kRdmaWrite, kLines);
  wqe.line[1] = mlx5::detail::remote(to);
  auto* const body = reinterpret_cast<uint8_t*>(&wqe.line[2]);
  const uint32_t head = Be32{kBytes | mlx5::kInlineFlag}.raw;
  memcpy(body, &head, sizeof(head));
  for (uint32_t i = 0; i < kBytes; ++i) body[4 + i] = static_cast<uint8_t>(i);
  return wqe;
}

}  // namespace peal::testing
