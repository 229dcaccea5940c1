// SPDX-License-Identifier: Apache-2.0
//
// The floor: what a kernel without any library reaches on the peer's mapped memory. Plain copy
// loops of 16-byte lines in several shapes, of which the best counts, and a ping-pong of single
// stores.
//
//   share/N   every block copies its own part, N lines of a thread in flight
//   grid/N    neighbouring threads of the whole grid copy neighbouring lines
#include <stdexcept>

#include "perf/compare/comparison.h"
#include "perf/compare/peal_api.h"

namespace peal::versus {
namespace {

/// kInFlight lines are loaded before the first is stored. Ends with single bytes.
template <uint32_t kInFlight, bool kFromPeer, class Scope>
PEAL_DEVICE void copy_lines(Scope scope, std::byte* dst, const std::byte* src, uint64_t bytes) {
  const uint64_t lines = bytes / sizeof(Line);
  const uint64_t stride = scope.size();
  const auto load = [&](uint64_t i) {
    const std::byte* from = src + i * sizeof(Line);
    return kFromPeer ? load_line_direct(from) : load_line(from);
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

/// `distance` leads from this PE's copy of anything symmetric to the partner's.
template <uint32_t kInFlight, bool kDealtOverGrid>
struct RawApi {
  static constexpr bool kTransfers = true;
  static constexpr bool kPingPong = false;
  static constexpr bool kWords = false;
  static constexpr bool kCarriesData = true;
  template <class Scope>
  using Spread = std::conditional_t<kDealtOverGrid, WholeGrid, Scope>;

  ptrdiff_t distance;

  template <class Scope>
  PEAL_DEVICE bool put(Scope scope, std::byte* dst, const std::byte* src, uint64_t bytes,
                       int) const {
    copy_lines<kInFlight, false>(scope, dst + distance, src, bytes);
    return true;
  }
  template <class Scope>
  PEAL_DEVICE bool get(Scope scope, std::byte* dst, const std::byte* src, uint64_t bytes,
                       int) const {
    copy_lines<kInFlight, true>(scope, dst, src + distance, bytes);
    return true;
  }
  PEAL_DEVICE bool quiet() const {
    fence_direct_stores();
    return true;
  }
};

/// One store goes, one comes: the word is message and signal at once.
struct StoreApi {
  static constexpr bool kTransfers = false;
  static constexpr bool kPingPong = true;
  static constexpr bool kWords = false;
  static constexpr bool kCarriesData = false;

  ptrdiff_t distance;

  PEAL_DEVICE bool put_signal(std::byte*, const std::byte*, uint64_t, uint64_t* flag,
                              uint64_t value, int) const {
    auto* there = reinterpret_cast<uint64_t*>(reinterpret_cast<std::byte*>(flag) + distance);
    store_relaxed<Reach::kSystem>(there, value);
    return true;
  }
  PEAL_DEVICE bool wait(const uint64_t* flag, uint64_t value) const {
    constexpr uint64_t kTimeoutNs = 10'000'000'000;
    return spin_until(
               kTimeoutNs, [&] { return load_relaxed<Reach::kSystem>(flag) >= value; },
               [] { return false; }) == SpinEnd::kDone;
  }
};

PEAL_KERNEL find_distance(Context ctx, std::byte* mine, int partner, ptrdiff_t* distance) {
  const std::byte* theirs = ptr(ctx, mine, partner);
  *distance = theirs == nullptr ? 0 : theirs - mine;
}

class RawSide : public PealSide {
 public:
  static constexpr const char* kName = "raw";

  explicit RawSide(Runtime& runtime) : PealSide(runtime) {
    if (n_pes() != 2) throw std::runtime_error("raw_side compares two PEs");
    auto* cell = runtime.allocate<ptrdiff_t>(1);
    launch({}, find_distance, runtime.context(), reinterpret_cast<std::byte*>(cell), 1 - pe(),
           cell);
    runtime.copy_out(&distance_, cell, sizeof distance_);
    if (distance_ == 0) {
      throw std::runtime_error(
          "the partner's memory is not mapped here; PEAL_TRANSPORT=p2p says why");
    }
  }

  template <class Visit>
  void for_each_api(const Case& c, const Visit& visit) {
    if (c.op == Op::kPutSignal) visit("store", StoreApi{distance_});
    if (!c.streams() || c.scope != ScopeKind::kBlock) return;
    visit("share/4", RawApi<4, false>{distance_});
    visit("share/8", RawApi<8, false>{distance_});
    visit("grid/4", RawApi<4, true>{distance_});
    visit("grid/8", RawApi<8, true>{distance_});
  }

 private:
  ptrdiff_t distance_ = 0;
};

}  // namespace
}  // namespace peal::versus

int main(int argc, char** argv) {
  return peal::run_main([&] {
    using namespace peal::versus;
    const Options options = parse(argc, argv);
    peal::Runtime runtime = peal::start();
    RawSide side(runtime);
    const int code = Comparison<RawSide>(side, options).run();
    runtime.check();
    return code;
  });
}
