// SPDX-License-Identifier: Apache-2.0
//
// How the kernels of softnic_gpu_test post: one request and wait for it, or 32 blocks by a warp in
// one doorbell; and the requests they post.
#pragma once

#include <cstdint>
#include <cstring>

#include "device/nic/send_queue.h"
#include "device/transport/model.h"

namespace peal::testing {

/// Posts one request and waits for it.
template <class Request>
__device__ Status run(SendQueue& q, const Request& request) {
  constexpr uint32_t kBlocks = nic::Model::kBlocks<Request>;
  uint64_t at = 0;
  const Status status = nic::reserve<Reach::kLane>(q, kBlocks, &at);
  if (status != Status::kOk) return status;
  nic::Model::write(q.nic, q.mask, at, request, true);
  static_cast<void>(
      nic::publish<Reach::kLane>(q, {.first = at, .blocks = kBlocks, .last = at}));  // drain tells
  nic::ring<Reach::kLane>(q);
  return nic::wait_completed<Reach::kLane>(q, at);
}

/// The lanes post a request of one block each, one of them `last` in their place; 32 blocks, of
/// which the last request is signalled; one doorbell.
template <class Request, class Last>
__device__ Status post_together(SendQueue& q, uint32_t lane, const Request& request,
                                const Last& last) {
  constexpr uint32_t kLast = 32 - nic::Model::kBlocks<Last>;
  uint64_t at = 0;
  uint32_t status = 0;
  if (lane == 0) status = static_cast<uint32_t>(nic::reserve<Reach::kLane>(q, 32, &at));
  at = __shfl_sync(~0u, at, 0);
  status = __shfl_sync(~0u, status, 0);
  if (status != 0) return static_cast<Status>(status);
  if (lane == kLast) nic::Model::write(q.nic, q.mask, at + lane, last, true);
  if (lane < kLast) nic::Model::write(q.nic, q.mask, at + lane, request, false);
  __syncwarp();
  if (lane == 0) {
    static_cast<void>(  // drain tells
        nic::publish<Reach::kLane>(q, {.first = at, .blocks = 32, .last = at + kLast}));
    nic::ring<Reach::kLane>(q);
  }
  __syncwarp();
  return Status::kOk;
}

/// A WRITE of one word.
__device__ inline nic::WriteWord<8> inline_word(uint64_t offset, NicKey key, uint64_t value) {
  return {{offset, key}, value};
}

/// An inline WRITE that takes several blocks: bytes 0, 1, 2 ...
template <uint32_t kBytes>
struct LongInline {
  nic::Remote to;
};
template <uint32_t kBytes>
PEAL_HD auto compose(const mlx5::Header& h, const LongInline<kBytes>& request) {
  constexpr uint32_t kLines = 2 + (4 + kBytes + 15) / 16;
  mlx5::Wqe<kLines> wqe = {};
  wqe.line[0] = mlx5::detail::control(h, mlx5::Opcode::kRdmaWrite, kLines);
  wqe.line[1] = mlx5::detail::remote(request.to);
  auto* const body = reinterpret_cast<uint8_t*>(&wqe.line[2]);
  const uint32_t head = Be32{kBytes | mlx5::kInlineFlag}.raw;
  memcpy(body, &head, sizeof(head));
  for (uint32_t i = 0; i < kBytes; ++i) body[4 + i] = static_cast<uint8_t>(i);
  return wqe;
}

}  // namespace peal::testing
