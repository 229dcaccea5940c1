// SPDX-License-Identifier: Apache-2.0
//
// peal's side of the comparison: the calls, and the PE that makes them.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "peal/peal.h"
#include "perf/compare/cases.h"

namespace peal::versus {

template <Reach R>
struct PealApi {
  static constexpr bool kTransfers = true;
  static constexpr bool kPingPong = true;
  static constexpr bool kWords = true;
  static constexpr bool kCarriesData = true;
  template <class Scope>
  using Spread = Scope;

  BasicContext<R> ctx;

  template <class Scope>
  PEAL_DEVICE bool put(Scope scope, std::byte* dst, const std::byte* src, uint64_t bytes,
                       int pe) const {
    return put_nbi(ctx, scope, dst, src, bytes, pe).status == Status::kOk;
  }
  template <class Scope>
  PEAL_DEVICE bool get(Scope scope, std::byte* dst, const std::byte* src, uint64_t bytes,
                       int pe) const {
    return get_nbi(ctx, scope, dst, src, bytes, pe).status == Status::kOk;
  }
  template <class Word>
  PEAL_DEVICE bool p(Word* word, Word value, int pe) const {
    return peal::p(ctx, word, value, pe) == Status::kOk;
  }
  PEAL_DEVICE bool quiet() const { return peal::quiet(ctx) == Status::kOk; }
  PEAL_DEVICE bool put_signal(std::byte* dst, const std::byte* src, uint64_t bytes, uint64_t* flag,
                              uint64_t value, int pe) const {
    return put_signal_nbi(ctx, dst, src, bytes, Signal::set(flag, value, pe)).status == Status::kOk;
  }
  PEAL_DEVICE bool wait(const uint64_t* flag, uint64_t value) const {
    return wait_until(ctx, flag, Compare::kGe, value) == Status::kOk;
  }
  PEAL_DEVICE bool add(uint64_t* word, uint64_t value, int pe) const {
    return atomic_add(ctx, word, value, pe) == Status::kOk;
  }
  PEAL_DEVICE uint64_t fetch_add(uint64_t* word, uint64_t value, int pe) const {
    return atomic_fetch_add(ctx, word, value, pe).value;
  }
  template <class Scope>
  PEAL_DEVICE bool barrier(Scope scope) const {
    return barrier_all(ctx, scope) == Status::kOk;
  }
};

/// A PE of a peal job.
class PealSide {
 public:
  static constexpr const char* kName = "peal";

  /// One more context where there are queues: its one thread owns them.
  explicit PealSide(Runtime& runtime) : runtime_(runtime) {
    if (transport() == "ibgda")
      owned_.emplace(runtime.make_context<Reach::kLane>({.queues_per_peer = 1}));
  }

  int pe() const { return runtime_.my_pe(); }
  int n_pes() const { return runtime_.n_pes(); }
  std::string transport() const { return runtime_.transport(); }
  std::string nic() const { return runtime_.nic(); }
  PealApi<Reach::kGpu> api() const { return {runtime_.context()}; }

  template <class T>
  T* allocate(size_t count) {
    return runtime_.allocate<T>(count);
  }
  void copy_out(void* host, const void* from, size_t bytes) {
    runtime_.copy_out(host, from, bytes);
  }
  void barrier() { runtime_.barrier(); }

  /// Returns when the kernel has ended.
  template <class Kernel, class... Arguments>
  void launch(const Grid& grid, Kernel kernel, const Arguments&... arguments) {
    peal::launch(grid, kernel, arguments...).wait();
  }
  /// The same, of a kernel that waits for its peers; all PEs call.
  template <class Kernel, class... Arguments>
  void launch_together(const Grid& grid, Kernel kernel, const Arguments&... arguments) {
    launch(grid, kernel, arguments...);
  }

  /// Calls visit(name, api) for every way of making the case's calls. The best one counts.
  template <class Visit>
  void for_each_api(const Case& c, const Visit& visit) {
    if (c.op == Op::kPingPong) return;
    visit("nbi", api());
    const bool alone = uint64_t{c.blocks} * c.threads == 1 && c.op != Op::kBarrier;
    if (alone && owned_) visit("exclusive", PealApi<Reach::kLane>{owned_->value()});
  }

 private:
  Runtime& runtime_;
  std::optional<OwnedContext<Reach::kLane>> owned_;
};

}  // namespace peal::versus
