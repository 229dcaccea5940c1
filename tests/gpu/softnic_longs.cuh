// SPDX-License-Identifier: Apache-2.0
//
// Kernels of softnic_gpu_test that post long requests, which the engine's warps share.
#pragma once

#include <cstdint>

#include "tests/gpu/softnic_posts.cuh"

namespace peal::testing {

/// What lane `lane` of put_sizes() puts: all sorts of lengths, a place of its own for each.
constexpr uint64_t kPlace = 512 << 10;
__host__ __device__ constexpr uint32_t size_of(uint32_t lane) {
  constexpr uint32_t sizes[] = {8, 33 << 10, 100 << 10, 64 << 10, (64 << 10) + 1, 300 << 10, 4097};
  return sizes[lane % (sizeof(sizes) / sizeof(sizes[0]))];
}

/// 32 puts under one doorbell, several of which several warps of the engine share.
__global__ void put_sizes(SendQueue* q, NicKey rkey, NicKey lkey, uint64_t* result) {
  const uint32_t lane = threadIdx.x;
  const uint64_t at = lane * kPlace;
  const nic::Write put{{at, rkey}, {at, lkey}, size_of(lane)};
  if (post_together(*q, lane, put, put) != Status::kOk) return;
  if (lane == 0) result[0] = static_cast<uint64_t>(nic::drain<Reach::kLane>(*q)) + 1;
}

/// Where the bytes that put_and_get_longs() puts come back to.
constexpr uint64_t kBack = 32 * kPlace;
__host__ __device__ constexpr uint32_t long_size_of(uint32_t lane) {
  return (65 << 10) + lane * (13 << 10) + 5 * (lane % 3);
}

/// 32 long puts in a row under one doorbell, of which many are under way at once, and 32 gets that
/// see what they have put.
__global__ void put_and_get_longs(SendQueue* q, NicKey rkey, NicKey lkey, uint64_t* result) {
  const uint32_t lane = threadIdx.x;
  const uint64_t at = lane * kPlace;
  const uint32_t bytes = long_size_of(lane);
  const nic::Write put{{at, rkey}, {at, lkey}, bytes};
  const nic::Read get{{at, rkey}, {kBack + at, lkey}, bytes};
  for (int round = 0; round < 4; ++round) {
    if (post_together(*q, lane, put, put) != Status::kOk) return;
    if (post_together(*q, lane, get, get) != Status::kOk) return;
  }
  if (lane == 0) result[0] = static_cast<uint64_t>(nic::drain<Reach::kLane>(*q)) + 1;
}

}  // namespace peal::testing
