// SPDX-License-Identifier: Apache-2.0
//
// CUB's algorithms of a device: work of a stream, done by one thread of the CPU. A first call
// without temporary storage answers how much is wanted: one byte.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <numeric>
#include <type_traits>
#include <vector>

#include "simt/runtime/cub_block.h"
#include "simt/runtime/state.h"

namespace peal::simt::cuda {

template <class Work>
cudaError_t cub_work(void* storage, size_t& bytes, cudaStream_t stream, Work work) {
  if (storage == nullptr) {
    bytes = 1;
    return cudaSuccess;
  }
  return call_on(stream, [&](WorkStream& on) {
    on.add(work);
    return cudaSuccess;
  });
}

template <class In>
using ValueOf = std::remove_cvref_t<decltype(*std::declval<In>())>;

}  // namespace peal::simt::cuda

namespace cub {

struct DeviceReduce {
  template <class In, class Out, class Op, class T>
  static cudaError_t Reduce(void* storage, size_t& bytes, In in, Out out, size_t count, Op op,
                            T initial, cudaStream_t stream = nullptr) {
    return peal::simt::cuda::cub_work(storage, bytes, stream, [=] {
      T result = initial;
      for (size_t i = 0; i < count; ++i) result = op(result, in[i]);
      *out = result;
    });
  }
  template <class In, class Out>
  static cudaError_t Sum(void* storage, size_t& bytes, In in, Out out, size_t count,
                         cudaStream_t stream = nullptr) {
    using T = peal::simt::cuda::ValueOf<Out>;
    return Reduce(storage, bytes, in, out, count, cub::Sum(), T(), stream);
  }
  template <class In, class Out>
  static cudaError_t Max(void* storage, size_t& bytes, In in, Out out, size_t count,
                         cudaStream_t stream = nullptr) {
    using T = peal::simt::cuda::ValueOf<In>;
    return Reduce(storage, bytes, in, out, count, cub::Max(), std::numeric_limits<T>::lowest(),
                  stream);
  }
  template <class In, class Out>
  static cudaError_t Min(void* storage, size_t& bytes, In in, Out out, size_t count,
                         cudaStream_t stream = nullptr) {
    using T = peal::simt::cuda::ValueOf<In>;
    return Reduce(storage, bytes, in, out, count, cub::Min(), std::numeric_limits<T>::max(),
                  stream);
  }
};

struct DeviceScan {
  template <class In, class Out, class Op, class T>
  static cudaError_t ExclusiveScan(void* storage, size_t& bytes, In in, Out out, Op op, T initial,
                                   size_t count, cudaStream_t stream = nullptr) {
    return peal::simt::cuda::cub_work(storage, bytes, stream, [=] {
      std::exclusive_scan(in, in + static_cast<ptrdiff_t>(count), out, initial, op);
    });
  }
  template <class In, class Out, class Op>
  static cudaError_t InclusiveScan(void* storage, size_t& bytes, In in, Out out, Op op,
                                   size_t count, cudaStream_t stream = nullptr) {
    return peal::simt::cuda::cub_work(storage, bytes, stream, [=] {
      std::inclusive_scan(in, in + static_cast<ptrdiff_t>(count), out, op);
    });
  }
  template <class In, class Out>
  static cudaError_t ExclusiveSum(void* storage, size_t& bytes, In in, Out out, size_t count,
                                  cudaStream_t stream = nullptr) {
    using T = peal::simt::cuda::ValueOf<In>;
    return ExclusiveScan(storage, bytes, in, out, Sum(), T(), count, stream);
  }
  template <class In, class Out>
  static cudaError_t InclusiveSum(void* storage, size_t& bytes, In in, Out out, size_t count,
                                  cudaStream_t stream = nullptr) {
    return InclusiveScan(storage, bytes, in, out, Sum(), count, stream);
  }
};

struct DeviceSelect {
  /// What satisfies `keep`, in its order, and how many there are.
  template <class In, class Out, class Count, class Keep>
  static cudaError_t If(void* storage, size_t& bytes, In in, Out out, Count selected, size_t count,
                        Keep keep, cudaStream_t stream = nullptr) {
    return peal::simt::cuda::cub_work(storage, bytes, stream, [=] {
      const auto end = std::copy_if(in, in + static_cast<ptrdiff_t>(count), out, keep);
      *selected = static_cast<std::remove_cvref_t<decltype(*selected)>>(end - out);
    });
  }
};

/// By all bits of the keys; sorts are stable.
struct DeviceRadixSort {
  template <class Key>
  static cudaError_t SortKeys(void* storage, size_t& bytes, const Key* in, Key* out, size_t count,
                              int = 0, int = 8 * sizeof(Key), cudaStream_t stream = nullptr) {
    return peal::simt::cuda::cub_work(storage, bytes, stream, [=] {
      std::copy(in, in + count, out);
      std::sort(out, out + count);
    });
  }
  template <class Key>
  static cudaError_t SortKeysDescending(void* storage, size_t& bytes, const Key* in, Key* out,
                                        size_t count, int = 0, int = 8 * sizeof(Key),
                                        cudaStream_t stream = nullptr) {
    return peal::simt::cuda::cub_work(storage, bytes, stream, [=] {
      std::copy(in, in + count, out);
      std::sort(out, out + count, std::greater<>());
    });
  }
  template <class Key, class Value>
  static cudaError_t SortPairs(void* storage, size_t& bytes, const Key* keys, Key* sorted_keys,
                               const Value* values, Value* sorted_values, size_t count, int = 0,
                               int = 8 * sizeof(Key), cudaStream_t stream = nullptr) {
    return peal::simt::cuda::cub_work(storage, bytes, stream, [=] {
      std::vector<size_t> order(count);
      std::iota(order.begin(), order.end(), size_t{0});
      std::ranges::stable_sort(order, {}, [=](size_t i) { return keys[i]; });
      for (size_t i = 0; i < count; ++i) {
        sorted_keys[i] = keys[order[i]];
        sorted_values[i] = values[order[i]];
      }
    });
  }
};

}  // namespace cub
