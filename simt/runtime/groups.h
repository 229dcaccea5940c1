// SPDX-License-Identifier: Apache-2.0
//
// CUDA's cooperative groups: the block, tiles of a warp, lanes that came together, the grid.
//
//   namespace cg = cooperative_groups;
//   auto block = cg::this_thread_block();
//   auto tile = cg::tiled_partition<16>(block);
//   value += tile.shfl_down(value, 8);
//
// Groups are values that say which lanes take part; what they do is simt's collectives.
#pragma once

#include <bit>
#include <cstring>

#include "simt/runtime/cuda_names.h"
#include "simt/runtime/types.h"

namespace peal::simt::cuda {

/// All lanes of the grid meet. Throws Error in a kernel that was not started cooperatively.
void meet_grid();
/// True in a kernel that was.
bool grid_meets();

/// The value that lane `source` of the warp passed; of any type, word by word.
template <class T>
T shuffle_any(unsigned mask, const T& value, unsigned source) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 32);
  T result;
  for (size_t at = 0; at < sizeof(T); at += 8) {
    const size_t bytes = sizeof(T) - at < 8 ? sizeof(T) - at : 8;
    uint64_t word = 0;
    std::memcpy(&word, reinterpret_cast<const char*>(&value) + at, bytes);
    word = simt::shuffle(mask, word, source);
    std::memcpy(reinterpret_cast<char*>(&result) + at, &word, bytes);
  }
  return result;
}

/// The lane of `mask` that has `rank` others below it.
inline unsigned lane_at(unsigned mask, unsigned rank) {
  for (; rank != 0 && mask != 0; --rank) mask &= mask - 1;
  return mask == 0 ? kWarpLanes : static_cast<unsigned>(std::countr_zero(mask));
}

/// The lanes of `mask` below this one.
inline unsigned rank_in(unsigned mask) {
  return static_cast<unsigned>(std::popcount(mask & ((1U << lane_id()) - 1)));
}

/// `mask`, which names lanes of the warp, in ranks of `members`.
inline unsigned to_ranks(unsigned mask, unsigned members) {
  unsigned ranks = 0;
  for (unsigned rank = 0; members != 0; members &= members - 1, ++rank) {
    if ((mask & members & -members) != 0) ranks |= 1U << rank;
  }
  return ranks;
}

}  // namespace peal::simt::cuda

namespace cooperative_groups {

class thread_block {
 public:
  void sync() const { peal::simt::sync_block(); }
  unsigned thread_rank() const { return peal::simt::thread_rank(); }
  unsigned size() const { return peal::simt::block_threads(); }
  unsigned num_threads() const { return size(); }
  dim3 group_index() const { return blockIdx; }
  dim3 thread_index() const { return threadIdx; }
  dim3 group_dim() const { return blockDim; }
  dim3 dim_threads() const { return blockDim; }
};

inline thread_block this_thread_block() { return {}; }

/// Lanes of one warp. What tiles and coalesced groups have in common; ranks are the group's.
class warp_part {
 public:
  explicit warp_part(unsigned mask) : mask_(mask & peal::simt::warp_mask()) {}
  void sync() const { peal::simt::sync_warp(mask_); }
  unsigned thread_rank() const { return peal::simt::cuda::rank_in(mask_); }
  unsigned size() const { return static_cast<unsigned>(std::popcount(mask_)); }
  unsigned num_threads() const { return size(); }

  template <class T>
  T shfl(const T& value, unsigned rank) const {
    return peal::simt::cuda::shuffle_any(mask_, value,
                                         peal::simt::cuda::lane_at(mask_, rank % size()));
  }
  template <class T>
  T shfl_up(const T& value, unsigned delta) const {
    const unsigned rank = thread_rank();
    return shfl(value, rank >= delta ? rank - delta : rank);
  }
  template <class T>
  T shfl_down(const T& value, unsigned delta) const {
    const unsigned rank = thread_rank();
    return shfl(value, delta < size() - rank ? rank + delta : rank);
  }
  int any(int predicate) const { return voted(predicate) != 0; }
  int all(int predicate) const { return voted(predicate == 0) == 0; }
  unsigned ballot(int predicate) const {
    return peal::simt::cuda::to_ranks(voted(predicate), mask_);
  }
  template <class T>
  unsigned match_any(T value) const {
    return peal::simt::cuda::to_ranks(__match_any_sync(mask_, value), mask_);
  }
  template <class T>
  unsigned match_all(T value, int& all_equal) const {
    const unsigned lanes = __match_all_sync(mask_, value, &all_equal);
    return peal::simt::cuda::to_ranks(lanes, mask_);
  }
  /// The lanes of the warp that belong to it.
  unsigned mask() const { return mask_; }

 private:
  unsigned voted(int predicate) const { return peal::simt::ballot(mask_, predicate != 0); }
  unsigned mask_;
};

/// N consecutive threads, a power of two, at most a warp.
template <unsigned N, class Parent = void>
class thread_block_tile : public warp_part {
 public:
  static_assert(N <= 32 && std::has_single_bit(N), "tiles of 1, 2, 4, 8, 16 or 32 threads");
  thread_block_tile() : warp_part(lanes()) {}
  /// As a tile whose parent nobody asks for, thread_block_tile<N>.
  template <class Other>
  requires std::is_void_v<Parent> thread_block_tile(const thread_block_tile<N, Other>& tile)
      : warp_part(tile) {}

  template <class T>
  T shfl_xor(const T& value, unsigned lane_mask) const {
    return shfl(value, thread_rank() ^ lane_mask);
  }
  static constexpr unsigned size() { return N; }
  static constexpr unsigned num_threads() { return N; }
  /// Among the tiles of the group that was cut.
  unsigned meta_group_rank() const { return peal::simt::thread_rank() % outer() / N; }
  unsigned meta_group_size() const { return (outer() + N - 1) / N; }

 private:
  static unsigned lanes() { return (~0U >> (32 - N)) << (peal::simt::lane_id() / N * N); }
  static unsigned outer() {
    if constexpr (requires { Parent::size(); }) {
      return Parent::size();
    } else {
      return peal::simt::block_threads();
    }
  }
};

class coalesced_group : public warp_part {
 public:
  using warp_part::warp_part;
  coalesced_group(unsigned mask, unsigned part, unsigned parts)
      : warp_part(mask), part_(part), parts_(parts) {}
  unsigned meta_group_rank() const { return part_; }
  unsigned meta_group_size() const { return parts_; }

 private:
  unsigned part_ = 0;
  unsigned parts_ = 1;
};

/// Always inlined, so that converged_mask() sees the place in the kernel.
[[gnu::always_inline]] inline coalesced_group coalesced_threads() {
  return coalesced_group(peal::simt::converged_mask());
}

inline thread_block_tile<1> this_thread() { return {}; }

class grid_group {
 public:
  bool is_valid() const { return peal::simt::cuda::grid_meets(); }
  void sync() const { peal::simt::cuda::meet_grid(); }
  unsigned long long thread_rank() const {
    return block_rank() * peal::simt::block_threads() + peal::simt::thread_rank();
  }
  unsigned long long size() const { return num_blocks() * peal::simt::block_threads(); }
  unsigned long long num_threads() const { return size(); }
  unsigned long long num_blocks() const { return gridDim.count(); }
  unsigned long long block_rank() const {
    return (uint64_t{blockIdx.z} * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  }
  dim3 group_dim() const { return gridDim; }
  dim3 dim_blocks() const { return gridDim; }
  dim3 block_index() const { return blockIdx; }
};

inline grid_group this_grid() { return {}; }

/// Any of them, where a function takes whichever.
class thread_group {
 public:
  thread_group(const thread_block&) {}
  thread_group(const warp_part& part) : part_(part), of_warp_(true) {}
  void sync() const { of_warp_ ? part_.sync() : thread_block().sync(); }
  unsigned thread_rank() const {
    return of_warp_ ? part_.thread_rank() : thread_block().thread_rank();
  }
  unsigned size() const { return of_warp_ ? part_.size() : thread_block().size(); }
  unsigned num_threads() const { return size(); }

 private:
  warp_part part_{0};
  bool of_warp_ = false;
};

// ---- cutting groups

template <unsigned N>
thread_block_tile<N, thread_block> tiled_partition(const thread_block&) {
  return {};
}
template <unsigned N, unsigned M, class Parent>
thread_block_tile<N, thread_block_tile<M, Parent>> tiled_partition(
    const thread_block_tile<M, Parent>&) {
  static_assert(N <= M, "a tile is no larger than what it is cut from");
  return {};
}
template <unsigned N>
coalesced_group tiled_partition(const coalesced_group& group) {
  const unsigned part = group.thread_rank() / N;
  unsigned mask = 0;
  for (unsigned rank = part * N; rank < (part + 1) * N && rank < group.size(); ++rank) {
    mask |= 1U << peal::simt::cuda::lane_at(group.mask(), rank);
  }
  return {mask, part, (group.size() + N - 1) / N};
}
/// By a size that is known when it runs: a power of two, at most a warp.
inline thread_group tiled_partition(const thread_block&, unsigned size) {
  const unsigned first = peal::simt::lane_id() / size * size;
  return warp_part((~0U >> (32 - size)) << first);
}

/// The members with an equal label; with an equal predicate.
template <class Group, class Label>
coalesced_group labeled_partition(const Group& group, Label label) {
  return coalesced_group(__match_any_sync(group.mask(), label));
}
template <class Group>
coalesced_group binary_partition(const Group& group, bool predicate) {
  return labeled_partition(group, static_cast<int>(predicate));
}

template <class Group>
void sync(const Group& group) {
  group.sync();
}

}  // namespace cooperative_groups
