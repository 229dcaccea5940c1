// SPDX-License-Identifier: Apache-2.0
//
// What it costs a kernel to find the window of an address: one lane fetches words of the next PE by
// g(), one after the other, from the heap, by addresses in many windows, and by handle. All three
// are named by a table, as a kernel finds its tensors. Each round goes through all windows in an
// order that no cache guesses.
//
//   mpirun -np 2 bazel-bin/perf/window_lookup [WINDOWS] [ROUNDS]
//
// Every word is compared. Prints nanoseconds of one g(), the least of the rounds, of PE 0. Beside
// it, where the peer is mapped, what no look-up can do without: one lane loads the same words
// plainly, by their mapped addresses, and behind three loads that depend on one another.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <vector>

#include "device/base/spin.h"
#include "host/memory/backing_cuda.h"
#include "peal/peal.h"
#include "perf/common/fixed_heap.h"

namespace {

constexpr uint64_t kStride = 4096;  // of windows; a word of each is fetched
constexpr uint32_t kFetches = 4096;
constexpr uint32_t kWarming = 8192;  // fetches ahead of those that count

struct Outcome {
  uint64_t ns;  // of all fetches
  uint64_t errors;
};

/// What names words of the peer: addresses of this PE's own, or of handles.
struct Words {
  const uint64_t* const* names;
  uint32_t count;
};

PEAL_DEVICE uint64_t expected(int pe, uint32_t i) { return (static_cast<uint64_t>(pe) << 32) + i; }

/// A word at the end of as many loads.
struct Hops {
  void* const* first;  // of word i: at i
  int count;
};

}  // namespace

PEAL_KERNEL load_all(Hops hops, uint32_t words, Outcome* outcome) {
  uint64_t seen = 0;
  uint64_t start = 0;
  for (uint32_t i = 0; i < kWarming + kFetches; ++i) {
    if (i == kWarming) start = peal::now_ns();
    // The upper bit of a word is 0: as with g(), the next load waits for this one.
    const uint32_t at = (i * 2654435761u + static_cast<uint32_t>(seen >> 63)) % words;
    void* const* place = hops.first + at;
    for (int hop = 1; hop < hops.count; ++hop) place = static_cast<void* const*>(*place);
    seen = *static_cast<const volatile uint64_t*>(*place);
  }
  *outcome = {peal::now_ns() - start, seen >> 63};
}

PEAL_KERNEL fetch_all(peal::Context ctx, Words words, Outcome* outcome) {
  const int peer = (ctx.pe + 1) % ctx.n_pes;
  uint64_t errors = 0;
  uint64_t start = 0;
  // A kernel begins with an empty first-level cache: what fills it does not count.
  for (uint32_t i = 0; i < kWarming + kFetches; ++i) {
    if (i == kWarming) start = peal::now_ns();
    const uint32_t at = i * 2654435761u % words.count;
    const auto got = peal::g(ctx, words.names[at], peer);
    if (got.status != peal::Status::kOk || got.value != expected(peer, at)) ++errors;
  }
  *outcome = {peal::now_ns() - start, errors};
}

namespace {

/// The fastest of several runs of `launch(outcome)`, which fetches all words.
template <class Launch>
double best_ns(peal::Runtime& pe, int rounds, const Launch& launch) {
  auto* const outcome = pe.allocate<Outcome>(1);
  double best = 1e30;
  for (int round = 0; round <= rounds; ++round) {
    pe.barrier();
    launch(outcome);
    pe.check();
    Outcome seen{};
    pe.copy_out(&seen, outcome, sizeof(seen));
    if (seen.errors != 0) {
      std::fprintf(stderr, "window_lookup: %llu wrong words\n",
                   static_cast<unsigned long long>(seen.errors));
      std::exit(1);
    }
    // The first round warms caches.
    if (round > 0) best = std::min(best, static_cast<double>(seen.ns) / kFetches);
  }
  pe.barrier();
  pe.free(outcome);
  return best;
}

}  // namespace

double best_ns(peal::Runtime& pe, const std::vector<const uint64_t*>& names, int rounds) {
  auto* const table = pe.allocate<const uint64_t*>(names.size());
  pe.copy_in(table, names.data(), names.size() * sizeof(names[0]));
  const Words words{table, static_cast<uint32_t>(names.size())};
  const double best = best_ns(pe, rounds, [&](Outcome* outcome) {
    peal::launch({}, fetch_all, pe.context(), words, outcome).wait();
  });
  pe.free(table);
  return best;
}

/// A load of the peer's word that begins at `first`, behind `hops` loads that depend on one
/// another.
double plain_ns(peal::Runtime& pe, const uint64_t* first, uint32_t words, int hops, int rounds) {
  auto* const peers = static_cast<std::byte*>(pe.ptr(first, (pe.my_pe() + 1) % pe.n_pes()));
  auto* const places = pe.allocate<void*>(static_cast<size_t>(hops) * words);
  std::vector<void*> filled;
  for (int hop = 0; hop < hops; ++hop) {
    for (uint32_t i = 0; i < words; ++i) {
      void** const next = places + static_cast<size_t>(hop + 1) * words + i;
      filled.push_back(hop + 1 < hops ? static_cast<void*>(next) : peers + i * kStride);
    }
  }
  pe.copy_in(places, filled.data(), filled.size() * sizeof(filled[0]));
  const double best = best_ns(pe, rounds, [&](Outcome* outcome) {
    peal::launch({}, load_all, Hops{places, hops}, words, outcome).wait();
  });
  pe.free(places);
  return best;
}

int main(int argc, char** argv) {
  return peal::run_main([&] {
    const auto windows = static_cast<uint32_t>(argc > 1 ? std::atoi(argv[1]) : 1000);
    const int rounds = argc > 2 ? std::atoi(argv[2]) : 5;
    peal::Runtime pe = peal::start(peal::perf::fixed_heap());
    if (windows == 0 || windows > 8000 || rounds < 1) {
      std::fprintf(stderr, "window_lookup: 1 to 8000 windows, 1 round or more\n");
      return 2;
    }
    const bool on_gpu = pe.target() == peal::Target::kGpu;
    const size_t bytes = windows * kStride;
    std::optional<peal::Backing> memory;
    if (on_gpu) {
      memory = peal::make_cuda_backing(peal::Gpu::open(-1, pe.my_pe()), bytes, "windows");
    } else {
      memory = peal::make_host_backing(bytes, "windows");
    }
    std::vector<uint64_t> filled(bytes / sizeof(uint64_t));
    const uint64_t words_apart = kStride / sizeof(uint64_t);
    for (uint32_t i = 0; i < windows; ++i) {
      filled[i * words_apart] = (static_cast<uint64_t>(pe.my_pe()) << 32) + i;
    }
    auto* const heap = static_cast<uint64_t*>(pe.malloc(bytes));
    pe.copy_in(heap, filled.data(), bytes);
    memory->copy_in(memory->address(), filled.data(), bytes);
    const auto* const first = reinterpret_cast<const uint64_t*>(memory->address());
    std::vector<const uint64_t*> of_heap, addresses, handles;
    for (uint32_t i = 0; i < windows; ++i) {
      const auto handle = pe.register_window(memory->address() + i * kStride, kStride);
      of_heap.push_back(heap + i * words_apart);
      addresses.push_back(first + i * words_apart);
      handles.push_back(handle.at<uint64_t>());
    }
    const double in_heap = best_ns(pe, of_heap, rounds);
    const double by_address = best_ns(pe, addresses, rounds);
    const double by_handle = best_ns(pe, handles, rounds);
    if (pe.my_pe() == 0) {
      std::printf(
          "%s, %s, %u windows: g of the heap %.0f ns, by address %.0f (+%.0f), by handle "
          "%.0f (+%.0f)\n",
          pe.transport(), pe.nic().c_str(), windows, in_heap, by_address, by_address - in_heap,
          by_handle, by_handle - in_heap);
    }
    if (pe.ptr(first, (pe.my_pe() + 1) % pe.n_pes()) != nullptr) {
      const double at_once = plain_ns(pe, first, windows, 1, rounds);
      const double behind = plain_ns(pe, first, windows, 4, rounds);
      if (pe.my_pe() == 0) {
        std::printf("a plain load %.0f ns, behind three loads more %.0f (+%.0f)\n", at_once, behind,
                    behind - at_once);
      }
    }
    return 0;
  });
}
