// SPDX-License-Identifier: Apache-2.0
//
// The floor: what a kernel without any library reaches on the peers' mapped memory. Plain copy
// loops of 16-byte lines in several shapes, of which the best counts, and for everything else the
// fewest loads, stores, atomics and fences that do it.
//
//   share/N   every block copies its own part, N lines of a thread in flight
//   grid/N    neighbouring threads of the whole grid copy neighbouring lines
#include <stdexcept>

#include "perf/common/peal_side.h"
#include "perf/compare/comparison.h"

namespace peal::perf {
namespace {

/// kInFlight lines are loaded before the first is stored. Ends with single bytes.
template <uint32_t kInFlight, bool kFromPeer, class Scope>
PEAL_DEVICE void copy_lines(Scope scope, std::byte* dst, const std::byte* src, uint64_t bytes) {
  const uint64_t lines = bytes / sizeof(Line);
  const uint64_t stride = scope.size();
  const auto load = [&](uint64_t i) {
    const std::byte* from = src + i * sizeof(Line);
    return kFromPeer ? load_line_direct(from) : load_payload(reinterpret_cast<const Line*>(from));
  };
  uint64_t i = scope.rank();
  for (; i + (kInFlight - 1) * stride < lines; i += kInFlight * stride) {
    Line line[kInFlight];
    PEAL_UNROLL
    for (uint32_t k = 0; k < kInFlight; ++k) line[k] = load(i + k * stride);
    PEAL_UNROLL
    for (uint32_t k = 0; k < kInFlight; ++k)
      store_line(dst + (i + k * stride) * sizeof(Line), line[k]);
  }
  for (; i < lines; i += stride) store_line(dst + i * sizeof(Line), load(i));
  for (uint64_t at = lines * sizeof(Line) + scope.rank(); at < bytes; at += stride) {
    dst[at] = *static_cast<const volatile std::byte*>(src + at);
  }
}

/// Copies to and from the partner, whose copy of anything symmetric lies `distance` further.
template <uint32_t kInFlight, bool kDealtOverGrid>
struct RawCopy {
  using Kernels = List<Streams<PutCall, Block>, Streams<GetCall, Block>>;
  static constexpr bool kOverGrid = kDealtOverGrid;

  ptrdiff_t distance;

  template <class Scope>
  PEAL_DEVICE Status put(Scope scope, std::byte* dst, const std::byte* src, uint64_t bytes,
                         int) const {
    copy_lines<kInFlight, false>(scope, dst + distance, src, bytes);
    return Status::kOk;
  }
  template <class Scope>
  PEAL_DEVICE Status get(Scope scope, std::byte* dst, const std::byte* src, uint64_t bytes,
                         int) const {
    copy_lines<kInFlight, true>(scope, dst, src + distance, bytes);
    return Status::kOk;
  }
  PEAL_DEVICE Status quiet() const {
    fence_direct_stores();
    return Status::kOk;
  }
};

/// Where the PEs' copies of anything symmetric lie, seen from this PE's.
struct Distances {
  static constexpr int kMaxPes = 8;
  ptrdiff_t to[kMaxPes];

  template <class T>
  PEAL_DEVICE T* at(T* mine, int pe) const {
    return reinterpret_cast<T*>(reinterpret_cast<std::byte*>(mine) + to[pe]);
  }
};

struct RawKernels : List<OneThread, OwnWords, SameWord, AllBarriers> {};

/// Calls that need no more than a load, a store or an atomic, and a fence where the next must not
/// overtake.
struct RawCalls {
  using Kernels = RawKernels;

  Distances peers;
  uint64_t* arrived;  // [n_pes] the barrier: each PE's turn, stored by that PE; its own counts
  int me;
  int n_pes;

  template <class Scope>
  PEAL_DEVICE Status put(Scope, std::byte* dst, const std::byte* src, uint64_t bytes,
                         int pe) const {
    std::byte* there = peers.at(dst, pe);
    if (bytes == 4) {
      return p(reinterpret_cast<uint32_t*>(dst), *reinterpret_cast<const uint32_t*>(src), pe);
    } else if (bytes == 8) {
      return p(reinterpret_cast<uint64_t*>(dst), *reinterpret_cast<const uint64_t*>(src), pe);
    } else {
      for (uint64_t at = 0; at < bytes; at += sizeof(Line)) {
        store_line(there + at, load_payload(reinterpret_cast<const Line*>(src + at)));
      }
    }
    return Status::kOk;
  }
  template <class Word>
  PEAL_DEVICE Status p(Word* word, Word value, int pe) const {
    store_relaxed<Reach::kSystem>(peers.at(word, pe), value);
    return Status::kOk;
  }
  PEAL_DEVICE Status quiet() const {
    fence_direct_stores();
    return Status::kOk;
  }
  PEAL_DEVICE Status put_signal(Thread, std::byte* dst, const std::byte* src, uint64_t bytes,
                                uint64_t* flag, uint64_t value, int pe) const {
    (void)put(thread, dst, src, bytes, pe);
    store_release<Reach::kSystem>(peers.at(flag, pe), value);
    return Status::kOk;
  }
  PEAL_DEVICE Status wait(Thread, const uint64_t* flag, uint64_t value) const {
    return seen([&] { return load_acquire<Reach::kSystem>(flag) >= value; });
  }
  template <class Seen>
  PEAL_DEVICE static Status seen(const Seen& check) {
    constexpr uint64_t kTimeoutNs = 10'000'000'000;
    const SpinEnd end = spin_until(kTimeoutNs, check, [] { return false; });
    return end == SpinEnd::kDone ? Status::kOk : Status::kTimeout;
  }
  PEAL_DEVICE Status add(uint64_t* word, uint64_t value, int pe) const {
    fetch_add_relaxed<Reach::kSystem>(peers.at(word, pe), value);
    return Status::kOk;
  }
  PEAL_DEVICE Status fetch_add(uint64_t* old, uint64_t* word, uint64_t value, int pe) const {
    *old = fetch_add_relaxed<Reach::kSystem>(peers.at(word, pe), value);
    return Status::kOk;
  }
  /// Everyone tells everyone, one lane each.
  template <class Scope>
  PEAL_DEVICE Status barrier(Scope scope) const {
    scope.sync();
    const uint64_t turn = arrived[me] + 1;
    Status status = Status::kOk;
    for (uint32_t i = scope.rank(); i < static_cast<uint32_t>(n_pes); i += scope.size()) {
      const auto other = static_cast<int>(i);
      if (other != me) store_release<Reach::kSystem>(peers.at(arrived + me, other), turn);
    }
    for (uint32_t i = scope.rank(); i < static_cast<uint32_t>(n_pes); i += scope.size()) {
      if (static_cast<int>(i) != me) status = first_of(status, wait(thread, arrived + i, turn));
    }
    scope.sync();
    if (scope.leader()) arrived[me] = turn;
    scope.sync();
    return status;
  }
};

/// One store goes, one comes: the word is message and signal at once.
struct StoreCalls : RawCalls {
  using Kernels = List<Timed<PutSignalCall<8, Op::kWord>>>;

  PEAL_DEVICE Status put_signal(Thread, std::byte*, const std::byte*, uint64_t, uint64_t* flag,
                                uint64_t value, int pe) const {
    return p(flag, value, pe);
  }
  PEAL_DEVICE Status wait(Thread, const uint64_t* flag, uint64_t value) const {
    return seen([&] { return load_relaxed<Reach::kSystem>(flag) >= value; });
  }
};

PEAL_KERNEL find_distances(Context ctx, std::byte* mine, Distances* distances) {
  for (int pe = 0; pe < ctx.n_pes; ++pe) {
    const std::byte* theirs = ptr(ctx, mine, pe);
    distances->to[pe] = theirs == nullptr ? 0 : theirs - mine;
  }
}

class RawSide : public PealSide {
 public:
  static constexpr const char* kName = "raw";

  RawSide() {
    if (n_pes() > Distances::kMaxPes) throw std::runtime_error("raw_side: too many PEs");
    auto* cell = allocate<Distances>(1);
    launch({}, find_distances, context(), reinterpret_cast<std::byte*>(cell), cell);
    copy_out(&distances_, cell, sizeof distances_);
    for (int other = 0; other < n_pes(); ++other) {
      if (other == pe() || distances_.to[other] != 0) continue;
      throw std::runtime_error("the memory of PE " + std::to_string(other) +
                               " is not mapped here; PEAL_TRANSPORT=p2p says why");
    }
    arrived_ = allocate<uint64_t>(Distances::kMaxPes);
    barrier();
  }

  template <class Visit>
  void for_each_api(const Case&, const Visit& visit) {
    const RawCalls calls{distances_, arrived_, pe(), n_pes()};
    visit("plain", calls);
    visit("store", StoreCalls{calls});
    const ptrdiff_t distance = distances_.to[pe() == 0 ? 1 : 0];
    visit("share/4", RawCopy<4, false>{distance});
    visit("share/8", RawCopy<8, false>{distance});
    visit("grid/4", RawCopy<4, true>{distance});
    visit("grid/8", RawCopy<8, true>{distance});
  }

 private:
  Distances distances_{};
  uint64_t* arrived_ = nullptr;
};

}  // namespace
}  // namespace peal::perf

int main(int argc, char** argv) {
  return peal::run_main([&] { return peal::perf::run_side<peal::perf::RawSide>(argc, argv); });
}
