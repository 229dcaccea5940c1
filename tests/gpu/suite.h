// SPDX-License-Identifier: Apache-2.0
//
// A test runner for programs whose memory the host cannot touch: kernels act and kernels check, the
// host reads one counter.
//
//   every PE runs every case in the same order; a case fails if any PE counted an error
//   last line on PE 0: N passed, N failed
#pragma once

#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>

#include "peal/peal.h"

namespace peal::suite {

inline constexpr uint32_t kBytes = 1u << 20;  // of each of the two data buffers
inline constexpr uint32_t kWords = 4096;      // of the word arrays

/// The symmetric objects of a PE, handed to kernels by value.
struct Memory {
  unsigned char* from;  // [kBytes] what this PE sends
  unsigned char* to;    // [kBytes] what it receives
  uint64_t* words;      // [kWords]
  uint64_t* signals;    // [kWords]
  uint64_t* errors;     // [1] counted by this PE's kernels
};

/// Byte `i` of what PE `pe` sends in round `seed`.
PEAL_HD unsigned char pattern(uint32_t pe, uint32_t seed, uint32_t i) {
  uint32_t x = i * 2654435761u + pe * 40503u + seed * 97u;
  x ^= x >> 15;
  return static_cast<unsigned char>(x * 2246822519u >> 24);
}

PEAL_DEVICE void count_error(const Memory& m, bool wrong) {
  if (wrong) fetch_add_relaxed<Reach::kSystem>(m.errors, uint64_t{1});
}
PEAL_DEVICE void count_error(const Memory& m, Status status) {
  count_error(m, status != Status::kOk);
}

PEAL_DEVICE int next_pe(const ContextFields& ctx) { return (ctx.pe + 1) % ctx.n_pes; }
PEAL_DEVICE uint32_t previous_pe(const ContextFields& ctx) {
  return static_cast<uint32_t>((ctx.pe + ctx.n_pes - 1) % ctx.n_pes);
}

PEAL_KERNEL clear(Memory m, unsigned char fill) {
  const uint32_t lanes = blocks_in_grid() * threads_in_block();
  const uint32_t lane = block_in_grid() * threads_in_block() + thread_in_block();
  for (uint32_t i = lane; i < kBytes; i += lanes) m.to[i] = fill;
  for (uint32_t i = lane; i < kWords; i += lanes) m.words[i] = m.signals[i] = 0;
}

PEAL_KERNEL fill_source(Memory m, uint32_t pe, uint32_t seed) {
  const uint32_t lanes = blocks_in_grid() * threads_in_block();
  const uint32_t lane = block_in_grid() * threads_in_block() + thread_in_block();
  for (uint32_t i = lane; i < kBytes; i += lanes) m.from[i] = pattern(pe, seed, i);
}

/// What the command line leaves out. A quick run does every operation in every scope, but few sizes
/// and few rounds: for tools that slow a kernel down a hundredfold.
struct Selection {
  bool quick = false;
  std::string only;  // part of a case's name; empty: all
};

/// "[--quick] [--only TEXT]"; throws std::invalid_argument on anything else.
inline Selection parse(int argc, char** argv) {
  Selection selection;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--quick") {
      selection.quick = true;
    } else if (word == "--only" && i + 1 < argc) {
      selection.only = argv[++i];
    } else {
      throw std::invalid_argument("'" + word + "' is unknown; suite [--quick] [--only TEXT]");
    }
  }
  return selection;
}

/// Runs cases and keeps the score.
class Suite {
 public:
  Suite(Runtime& pe, const Selection& selection)
      : pe_(pe),
        selection_(selection),
        memory_{pe.allocate<unsigned char>(kBytes), pe.allocate<unsigned char>(kBytes),
                pe.allocate<uint64_t>(kWords), pe.allocate<uint64_t>(kWords),
                pe.allocate<uint64_t>(1)},
        totals_(pe.allocate<uint64_t>(1)) {}

  const Memory& memory() const { return memory_; }
  Runtime& pe() { return pe_; }
  bool quick() const { return selection_.quick; }

  /// One case: clean memory, `body` launches what it likes, every PE's errors are added up.
  template <class Body>
  void run(const std::string& name, const Body& body) {
    if (name.find(selection_.only) == std::string::npos) return;
    const uint64_t zero = 0;
    pe_.copy_in(memory_.errors, &zero, sizeof(zero));
    launch({.blocks = 4, .threads = 64}, clear, memory_, static_cast<unsigned char>(0xa5)).wait();
    launch({.blocks = 4, .threads = 64}, fill_source, memory_, static_cast<uint32_t>(pe_.my_pe()),
           seed_)
        .wait();
    pe_.barrier();
    body(seed_);
    pe_.barrier();
    ++seed_;
    score(name, errors_everywhere());
  }

  /// Prints the last line; the program's exit code.
  int finish() const {
    if (pe_.my_pe() == 0) std::printf("%d passed, %d failed\n", passed_, failed_);
    return failed_ == 0 && passed_ > 0 ? 0 : 1;
  }

 private:
  uint64_t errors_everywhere();
  void score(const std::string& name, uint64_t errors) {
    if (errors == 0) {
      ++passed_;
    } else {
      ++failed_;
    }
    if (pe_.my_pe() == 0 && errors != 0) {
      std::printf("FAILED %s: %llu errors (%s)\n", name.c_str(),
                  static_cast<unsigned long long>(errors), pe_.failure().text.c_str());
      std::fflush(stdout);
    }
  }

  Runtime& pe_;
  Selection selection_;
  Memory memory_;
  uint64_t* totals_;
  uint32_t seed_ = 1;
  int passed_ = 0;
  int failed_ = 0;
};

/// Every PE adds its errors to every PE's total, so that all keep the same score.
PEAL_KERNEL add_up(Context ctx, const uint64_t* errors, uint64_t* total) {
  for (int pe = 0; pe < ctx.n_pes; ++pe) (void)atomic_add(ctx, total, *errors, pe);
  (void)barrier_all(ctx);
}

inline uint64_t Suite::errors_everywhere() {
  const uint64_t zero = 0;
  pe_.copy_in(totals_, &zero, sizeof(zero));
  pe_.barrier();
  launch({.blocks = 1, .threads = 1}, add_up, pe_.context(), memory_.errors, totals_).wait();
  uint64_t total = 0;
  pe_.copy_out(&total, totals_, sizeof(total));
  pe_.barrier();
  return total;
}

}  // namespace peal::suite
