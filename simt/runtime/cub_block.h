// SPDX-License-Identifier: Apache-2.0
//
// CUB's collectives of a block and of a warp. Threads leave their values in the temporary storage
// and the first of them computes: on a CPU nothing is faster. As in CUB, a reduction's result is
// the first thread's alone, and storage is used again behind a barrier.
#pragma once

#include <numeric>

#include "simt/runtime/groups.h"

namespace cub {

struct Sum {
  template <class T>
  T operator()(const T& a, const T& b) const {
    return a + b;
  }
};
struct Max {
  template <class T>
  T operator()(const T& a, const T& b) const {
    return a < b ? b : a;
  }
};
struct Min {
  template <class T>
  T operator()(const T& a, const T& b) const {
    return b < a ? b : a;
  }
};

// How a GPU does it: of no effect.
enum BlockReduceAlgorithm {
  BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY,
  BLOCK_REDUCE_RAKING,
  BLOCK_REDUCE_WARP_REDUCTIONS,
};
enum BlockScanAlgorithm {
  BLOCK_SCAN_RAKING,
  BLOCK_SCAN_RAKING_MEMOIZE,
  BLOCK_SCAN_WARP_SCANS,
};

template <class T, int X, BlockReduceAlgorithm = BLOCK_REDUCE_WARP_REDUCTIONS, int Y = 1, int Z = 1,
          int = 0>
class BlockReduce {
 public:
  struct TempStorage {
    T values[X * Y * Z];
  };
  explicit BlockReduce(TempStorage& storage) : storage_(storage) {}

  template <class Op>
  T Reduce(const T& value, Op op, int count = X * Y * Z) {
    const unsigned rank = peal::simt::thread_rank();
    storage_.values[rank] = value;
    __syncthreads();
    if (rank != 0) return value;
    T result = storage_.values[0];
    for (int i = 1; i < count; ++i) result = op(result, storage_.values[i]);
    return result;
  }
  template <int N, class Op>
  T Reduce(const T (&values)[N], Op op) {
    T mine = values[0];
    for (int i = 1; i < N; ++i) mine = op(mine, values[i]);
    return Reduce(mine, op);
  }
  T Sum(const T& value, int count = X * Y * Z) { return Reduce(value, cub::Sum(), count); }
  template <int N>
  T Sum(const T (&values)[N]) {
    return Reduce(values, cub::Sum());
  }

 private:
  TempStorage& storage_;
};

template <class T, int X, BlockScanAlgorithm = BLOCK_SCAN_RAKING, int Y = 1, int Z = 1, int = 0>
class BlockScan {
 public:
  struct TempStorage {
    T values[X * Y * Z];  // of threads, then what lies before each
    T all;
  };
  explicit BlockScan(TempStorage& storage) : storage_(storage) {}

  template <class Op>
  void ExclusiveScan(const T& value, T& result, T initial, Op op) {
    result = upto(value, initial, op);
  }
  template <class Op>
  void ExclusiveScan(const T& value, T& result, T initial, Op op, T& all) {
    result = upto(value, initial, op);
    all = storage_.all;
  }
  template <int N, class Op>
  void ExclusiveScan(const T (&values)[N], T (&results)[N], T initial, Op op) {
    T mine = values[0];
    for (int i = 1; i < N; ++i) mine = op(mine, values[i]);
    T next = upto(mine, initial, op);
    for (int i = 0; i < N; ++i) {
      const T own = values[i];  // results may be values
      results[i] = next;
      next = op(next, own);
    }
  }
  template <class Op>
  void InclusiveScan(const T& value, T& result, Op op) {
    const T own = value;
    gather(own, op);
    result = first() ? own : op(storage_.values[peal::simt::thread_rank()], own);
  }
  template <class Op>
  void InclusiveScan(const T& value, T& result, Op op, T& all) {
    InclusiveScan(value, result, op);
    all = storage_.all;
  }

  void ExclusiveSum(const T& value, T& result) { ExclusiveScan(value, result, T(), Sum()); }
  void ExclusiveSum(const T& value, T& result, T& all) {
    ExclusiveScan(value, result, T(), Sum(), all);
  }
  template <int N>
  void ExclusiveSum(const T (&values)[N], T (&results)[N]) {
    ExclusiveScan(values, results, T(), Sum());
  }
  void InclusiveSum(const T& value, T& result) { InclusiveScan(value, result, Sum()); }
  void InclusiveSum(const T& value, T& result, T& all) { InclusiveScan(value, result, Sum(), all); }
  template <int N>
  void InclusiveSum(const T (&values)[N], T (&results)[N]) {
    T sums[N];
    std::partial_sum(values, values + N, sums);
    const T before = upto(sums[N - 1], T(), Sum());
    for (int i = 0; i < N; ++i) results[i] = before + sums[i];
  }

 private:
  static bool first() { return peal::simt::thread_rank() == 0; }

  // Leaves what lies before each thread but the first in storage_.values, and all in storage_.all.
  template <class Op>
  void gather(const T& value, Op op) {
    storage_.values[peal::simt::thread_rank()] = value;
    __syncthreads();
    if (first()) {
      T before = storage_.values[0];
      for (unsigned i = 1; i < peal::simt::block_threads(); ++i) {
        const T own = storage_.values[i];
        storage_.values[i] = before;
        before = op(before, own);
      }
      storage_.all = before;
    }
    __syncthreads();
  }
  template <class Op>
  T upto(const T& value, const T& initial, Op op) {
    gather(value, op);
    return first() ? initial : op(initial, storage_.values[peal::simt::thread_rank()]);
  }
  TempStorage& storage_;
};

/// A reduction over a warp, or over W consecutive threads of it. The first thread has the result.
template <class T, int W = 32, int = 0>
class WarpReduce {
 public:
  struct TempStorage {};
  explicit WarpReduce(TempStorage&) {}

  template <class Op>
  T Reduce(const T& value, Op op, int count = W) {
    const cooperative_groups::thread_block_tile<W> tile;
    T result = value;
    for (int rank = 1; rank < W; ++rank) {
      const T other = tile.shfl(value, static_cast<unsigned>(rank));
      if (rank < count) result = op(result, other);
    }
    return result;
  }
  T Sum(const T& value, int count = W) { return Reduce(value, cub::Sum(), count); }
};

template <class T, int W = 32, int = 0>
class WarpScan {
 public:
  struct TempStorage {};
  explicit WarpScan(TempStorage&) {}

  template <class Op>
  void InclusiveScan(const T& value, T& result, Op op) {
    const cooperative_groups::thread_block_tile<W> tile;
    const T own = value;
    T before = tile.shfl(own, 0);
    result = own;
    for (unsigned rank = 1; rank < W; ++rank) {
      before = op(before, tile.shfl(own, rank));
      if (rank == tile.thread_rank()) result = before;
    }
  }
  template <class Op>
  void ExclusiveScan(const T& value, T& result, T initial, Op op) {
    const cooperative_groups::thread_block_tile<W> tile;
    T upto;
    InclusiveScan(value, upto, op);
    const T before = tile.shfl_up(upto, 1);
    result = tile.thread_rank() == 0 ? initial : op(initial, before);
  }
  void InclusiveSum(const T& value, T& result) { InclusiveScan(value, result, Sum()); }
  void InclusiveSum(const T& value, T& result, T& all) {
    InclusiveSum(value, result);
    all = Broadcast(result, W - 1);
  }
  void ExclusiveSum(const T& value, T& result) { ExclusiveScan(value, result, T(), Sum()); }
  T Broadcast(const T& value, unsigned rank) {
    return cooperative_groups::thread_block_tile<W>().shfl(value, rank);
  }
};

}  // namespace cub
