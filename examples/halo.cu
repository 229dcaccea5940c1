// SPDX-License-Identifier: Apache-2.0
//
// Halo exchange: heat spreads over a plate whose rows are split among the PEs. Each step makes a
// cell the mean of its neighbours; for that a PE needs one row (a halo) of the PEs beside it.
//
//   mpirun -np 4 bazel-bin/examples/halo        prints ok
//
//   PE 0   row 0        edge, always hot           PE 1   row 0        <- row n of PE 0
//          row 1..n     its own                           row 1..n     its own
//          row n+1      <- row 1 of PE 1                  row n+1      edge, always cold
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "peal/peal.h"

namespace {

constexpr int kRows = 16;  // of one PE
constexpr int kCols = 64;
constexpr int kPlate = (kRows + 2) * kCols;
constexpr uint64_t kSteps = 100;

PEAL_HD float mean(const float* cell) {
  return (cell[-1] + cell[1] + cell[-kCols] + cell[kCols]) / 4;
}

// Two plates, read and written in turn: a PE one step ahead sends its row into the plate that we do
// not read. It cannot be two steps ahead, because it needs a row of ours first.
struct Plates {
  float* plate[2];
  uint64_t* from_above;  // steps whose halo has come
  uint64_t* from_below;
  float* whole;  // at PE 0, [n_pes * kRows][kCols]
  peal::Status* status;
};

}  // namespace

PEAL_KERNEL jacobi(peal::Context ctx, Plates mine) {
  using peal::block, peal::Compare, peal::Signal, peal::Status;
  const int above = ctx.pe - 1;
  const int below = ctx.pe + 1;
  Status status = Status::kOk;
  const auto note = [&](Status s) { status = status == Status::kOk ? s : status; };

  for (uint64_t step = 1; step <= kSteps && status == Status::kOk; ++step) {
    float* now = mine.plate[step % 2];
    float* next = mine.plate[(step + 1) % 2];
    if (above >= 0) {  // our first row is their lower halo
      note(put_signal(ctx, block, now + (kRows + 1) * kCols, now + kCols, kCols,
                      Signal::set(mine.from_below, step, above)));
    }
    if (below < ctx.n_pes) {  // our last row is their upper halo
      note(put_signal(ctx, block, now, now + kRows * kCols, kCols,
                      Signal::set(mine.from_above, step, below)));
    }
    if (above >= 0) note(wait_until(ctx, block, mine.from_above, Compare::kGe, step));
    if (below < ctx.n_pes) note(wait_until(ctx, block, mine.from_below, Compare::kGe, step));

    for (uint32_t i = block.rank(); i < kRows * kCols; i += block.size()) {
      const bool edge = i % kCols == 0 || i % kCols == kCols - 1;
      next[kCols + i] = edge ? now[kCols + i] : mean(now + kCols + i);
    }
    block.sync();
  }

  // Everybody's rows, from the plate that the last step wrote, to PE 0.
  note(put(ctx, block, mine.whole + ctx.pe * kRows * kCols, mine.plate[(kSteps + 1) % 2] + kCols,
           kRows * kCols, 0));
  note(barrier_all(ctx, block));
  if (block.leader()) *mine.status = status;
}

// The same by one CPU; `now` is the whole plate with its edges.
static std::vector<float> serial(std::vector<float> now) {
  std::vector<float> next = now;
  for (uint64_t step = 1; step <= kSteps; ++step) {
    for (size_t i = kCols; i < now.size() - kCols; ++i) {
      if (i % kCols != 0 && i % kCols != kCols - 1) next[i] = mean(&now[i]);
    }
    now.swap(next);
  }
  return now;
}

int main() {
  return peal::run_main([] {
    peal::Runtime pe = peal::start();
    const auto cells = static_cast<size_t>(pe.n_pes() * kRows * kCols);
    const Plates mine{.plate = {pe.allocate<float>(kPlate), pe.allocate<float>(kPlate)},
                      .from_above = pe.allocate<uint64_t>(1),
                      .from_below = pe.allocate<uint64_t>(1),
                      .whole = pe.allocate<float>(cells),
                      .status = pe.allocate<peal::Status>(1)};
    const std::vector<float> hot(pe.my_pe() == 0 ? kCols : 0, 100.0f);  // row 0
    for (float* plate : mine.plate) pe.copy_in(plate, hot.data(), hot.size() * sizeof(float));

    peal::launch({.blocks = 1, .threads = 128}, jacobi, pe.context(), mine).wait();
    pe.check();
    peal::Status status{};
    pe.copy_out(&status, mine.status, sizeof status);
    if (status != peal::Status::kOk) throw std::runtime_error(to_string(status));
    if (pe.my_pe() != 0) return 0;
    std::vector<float> got(cells), whole = hot;
    pe.copy_out(got.data(), mine.whole, cells * sizeof(float));
    whole.resize(cells + 2 * kCols);  // the rest is cold
    const std::vector<float> expected = serial(whole);
    for (size_t i = 0; i < cells; ++i) {
      if (std::abs(got[i] - expected[i + kCols]) < 1e-4f) continue;
      throw std::runtime_error("cell " + std::to_string(i) + " differs from the serial result");
    }
    std::printf("ok\n");
    return 0;
  });
}
