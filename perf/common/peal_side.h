// SPDX-License-Identifier: Apache-2.0
//
// A PE of a peal job, and the calls that it measures.
#pragma once

#include <cstring>
#include <optional>
#include <string>

#include "peal/peal.h"
#include "perf/common/fixed_heap.h"
#include "perf/common/kernels.h"

namespace peal::perf {

/// peal's calls on a context. The arguments of transfers are scope, dst, src, bytes, PE.
template <Reach R, class KernelList>
struct PealApi {
  using Kernels = KernelList;

  BasicContext<R> ctx;

  template <class... Arguments>
  PEAL_DEVICE Status put(Arguments... arguments) const {
    return put_nbi(ctx, arguments...).status;
  }
  template <class... Arguments>
  PEAL_DEVICE Status get(Arguments... arguments) const {
    return get_nbi(ctx, arguments...).status;
  }
  template <class... Arguments>
  PEAL_DEVICE Status get_now(Arguments... arguments) const {
    return peal::get(ctx, arguments...);
  }
  PEAL_DEVICE Status copy(auto scope, std::byte* dst, const std::byte* src, uint64_t bytes,
                          int pe) const {
    if (scope.leader()) memcpy(ptr(ctx, dst, pe), src, bytes);
    return Status::kOk;
  }
  template <class Word>
  PEAL_DEVICE Status p(Word* word, Word value, int pe) const {
    return peal::p(ctx, word, value, pe);
  }
  template <class Word>
  PEAL_DEVICE Status g(Word* value, const Word* word, int pe) const {
    const auto got = peal::g(ctx, word, pe);
    *value = got.value;
    return got.status;
  }
  PEAL_DEVICE Status quiet() const { return peal::quiet(ctx); }

  PEAL_DEVICE Status put_signal(auto scope, std::byte* dst, const std::byte* src, uint64_t bytes,
                                uint64_t* flag, uint64_t value, int pe) const {
    return put_signal_nbi(ctx, scope, dst, src, bytes, Signal::set(flag, value, pe)).status;
  }
  PEAL_DEVICE Status put_counted(auto scope, std::byte* dst, const std::byte* src, uint64_t bytes,
                                 uint64_t* word, int pe) const {
    return put_signal_nbi(ctx, scope, dst, src, bytes, Signal::add(word, 1, pe)).status;
  }
  PEAL_DEVICE Status signal(auto scope, uint64_t* flag, uint64_t value, int pe) const {
    return by_leader(scope, [&] { return peal::signal(ctx, Signal::set(flag, value, pe)); });
  }
  PEAL_DEVICE Status wait(auto scope, const uint64_t* flag, uint64_t value) const {
    return wait_until(ctx, scope, flag, Compare::kGe, value);
  }
  template <class Word>
  PEAL_DEVICE Status wait_equal(const Word* word, Word value) const {
    return wait_until(ctx, word, Compare::kEq, value);
  }

  template <class Word>
  PEAL_DEVICE Status add(Word* word, Word value, int pe) const {
    return atomic_add(ctx, word, value, pe);
  }
  template <class Word>
  PEAL_DEVICE Status fetch_add(Word* old, Word* word, Word value, int pe) const {
    const auto got = atomic_fetch_add(ctx, word, value, pe);
    *old = got.value;
    return got.status;
  }
  PEAL_DEVICE Status barrier(auto scope) const { return barrier_all(ctx, scope); }
};

class PealSide {
 public:
  using Api = PealApi<Reach::kGpu, List<>>;

  /// On a context of its own where the options say something of its queues.
  explicit PealSide(const ContextOptions& options = {}) : runtime_(start(fixed_heap())) {
    if (options.queues_per_peer != 0 || options.depth != 0) {
      own_context_.emplace(runtime_.make_context(options));
    }
  }

  int pe() const { return runtime_.my_pe(); }
  int n_pes() const { return runtime_.n_pes(); }
  std::string transport() const { return runtime_.transport(); }
  std::string nic() const { return runtime_.nic(); }
  Context context() const { return own_context_ ? own_context_->value() : runtime_.context(); }
  Api api() const { return {context()}; }
  Runtime& runtime() { return runtime_; }

  template <class T>
  T* allocate(size_t count) {
    return runtime_.allocate<T>(count);
  }
  void copy_in(void* to, const void* host, size_t bytes) { runtime_.copy_in(to, host, bytes); }
  void copy_out(void* host, const void* from, size_t bytes) {
    runtime_.copy_out(host, from, bytes);
  }
  void barrier() { runtime_.barrier(); }
  void check() const { runtime_.check(); }

  /// Returns when the kernel has ended.
  template <class Kernel, class... Arguments>
  void launch(const Grid& grid, Kernel kernel, const Arguments&... arguments) {
    peal::launch(grid, kernel, arguments...).wait();
  }
  template <class Kernel, class... Arguments>
  void launch_together(const Grid& grid, Kernel kernel, const Arguments&... arguments) {
    launch(grid, kernel, arguments...);
  }

 private:
  Runtime runtime_;
  std::optional<OwnedContext<Reach::kGpu>> own_context_;
};

}  // namespace peal::perf
