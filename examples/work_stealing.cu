// SPDX-License-Identifier: Apache-2.0
//
// Work stealing: the PEs count the ways to place queens on a board so that none attacks another.
// PE 0 begins with the empty board; everybody else steals.
//
//   mpirun -np 4 bazel-bin/examples/work_stealing        prints ok
//
//   pop at home, else steal from the others in turn
//   a board with few queens -> its children are pushed at home
//   any other               -> this PE tries all the ways to go on
//
// The deques are work_deque.h: a push releases the task that it stored at home, a thief's look at
// the deque acquires it. How much is left to do is counted at PE 0, so that all know the end.
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>

#include "peal/peal.h"
#include "work_deque.h"

namespace {

constexpr uint32_t kQueens = 9;
constexpr uint64_t kWays = 352;
constexpr uint32_t kSplit = 2;  // boards with fewer queens are tasks of their own
constexpr uint32_t kSlots = 128;

/// Attacked columns and diagonals of the next row, as bits.
struct Board {
  uint32_t rows;  // that have a queen
  uint32_t columns;
  uint32_t left;
  uint32_t right;
};

PEAL_HD Board with_queen(const Board& board, uint32_t column) {
  const uint32_t bit = 1u << column;
  return {board.rows + 1, board.columns | bit, (board.left | bit) << 1, (board.right | bit) >> 1};
}
PEAL_HD bool attacked(const Board& board, uint32_t column) {
  return ((board.columns | board.left | board.right) >> column & 1) != 0;
}

/// Ways to fill the board. No recursion: a GPU's stack is short.
PEAL_HD uint64_t count_ways(const Board& from) {
  Board board[kQueens + 1];
  uint32_t column[kQueens + 1] = {};
  uint64_t ways = 0;
  board[0] = from;
  for (uint32_t depth = 0;;) {
    if (board[depth].rows == kQueens || column[depth] == kQueens) {
      if (board[depth].rows == kQueens) ++ways;
      if (depth-- == 0) return ways;
      continue;
    }
    const uint32_t next = column[depth]++;
    if (attacked(board[depth], next)) continue;
    board[depth + 1] = with_queen(board[depth], next);
    column[++depth] = 0;
  }
}

struct Outcome {
  peal::Status status;
  uint32_t tasks;   // this PE has done
  uint32_t stolen;  // of those
};

struct Objects {
  WorkDeque<Board> deque;
  Board* landing;   // what this PE has stolen last
  uint64_t* to_do;  // at PE 0: tasks that are not done
  uint64_t* ways;   // at PE 0
  Outcome* outcome;
};

/// One PE's part: the first call that failed ends it.
template <peal::Reach R>
struct Worker {
  const peal::BasicContext<R>& ctx;
  const Objects& at;
  Outcome outcome{peal::Status::kOk, 0, 0};
  uint64_t ways = 0;

  PEAL_DEVICE bool good(peal::Status status) {
    if (outcome.status == peal::Status::kOk) outcome.status = status;
    return outcome.status == peal::Status::kOk;
  }
  /// True where a call answered yes, and nothing went wrong.
  PEAL_DEVICE bool yes(const peal::Fetched<bool>& answer) {
    return good(answer.status) && answer.value;
  }

  /// Changes the number of tasks at PE 0. Waits: who steals a task must find it counted.
  PEAL_DEVICE void count(uint64_t tasks) {
    good(peal::atomic_fetch_add(ctx, at.to_do, tasks, 0).status);
  }

  PEAL_DEVICE void split(const Board& board) {
    uint64_t children = 0;
    for (uint32_t column = 0; column < kQueens; ++column)
      children += attacked(board, column) ? 0 : 1;
    count(children);
    for (uint32_t column = 0; column < kQueens; ++column) {
      if (attacked(board, column)) continue;
      const Board child = with_queen(board, column);
      if (!yes(at.deque.push(ctx, child))) finish(child);  // no room
    }
  }

  /// Tries all the ways to go on.
  PEAL_DEVICE void finish(const Board& board) {
    if (outcome.status != peal::Status::kOk) return;
    ways += count_ways(board);
    count(~uint64_t{0});  // one less
  }

  PEAL_DEVICE void work_on(const Board& board) {
    ++outcome.tasks;
    if (board.rows >= kSplit) return finish(board);
    split(board);
    count(~uint64_t{0});
  }

  PEAL_DEVICE bool take(Board* board) {
    if (yes(at.deque.pop(ctx, board))) return true;
    for (int i = 1; i < ctx.n_pes && outcome.status == peal::Status::kOk; ++i) {
      if (!yes(at.deque.steal(ctx, (ctx.pe + i) % ctx.n_pes, at.landing))) continue;
      *board = *at.landing;
      ++outcome.stolen;
      return true;
    }
    return false;
  }

  /// Until nothing is left anywhere.
  PEAL_DEVICE void run() {
    const auto end = peal::spin_until(
        ctx.timeout_ns,
        [&] {
          Board board;
          while (take(&board)) work_on(board);
          const auto left = peal::atomic_fetch(ctx, at.to_do, 0);
          return !good(left.status) || left.value == 0;
        },
        [] { return false; });
    if (end != peal::SpinEnd::kDone) good(peal::Status::kTimeout);
    good(peal::atomic_add(ctx, at.ways, ways, 0));
  }
};

}  // namespace

// One thread: each deque has one owner.
PEAL_KERNEL count_placements(peal::Context ctx, Objects at) {
  Worker<peal::Reach::kGpu> worker{ctx, at};
  if (ctx.pe == 0) {
    worker.count(1);
    worker.good(at.deque.push(ctx, Board{}).status);
  }
  // Nobody finds nothing to do before there is something.
  worker.good(peal::barrier_all(ctx));
  worker.run();
  worker.good(peal::barrier_all(ctx));
  *at.outcome = worker.outcome;
}

int main() {
  return peal::run_main([] {
    peal::Runtime pe = peal::start();
    const Objects at{.deque = {.ends = pe.allocate<uint64_t>(1),
                               .slots = pe.allocate<Board>(kSlots),
                               .capacity = kSlots},
                     .landing = pe.allocate<Board>(1),
                     .to_do = pe.allocate<uint64_t>(1),
                     .ways = pe.allocate<uint64_t>(1),
                     .outcome = pe.allocate<Outcome>(1)};
    peal::launch({.blocks = 1, .threads = 1}, count_placements, pe.context(), at).wait();
    pe.check();
    Outcome outcome{};
    pe.copy_out(&outcome, at.outcome, sizeof outcome);
    if (outcome.status != peal::Status::kOk) throw std::runtime_error(to_string(outcome.status));
    if (pe.my_pe() != 0) return 0;
    uint64_t ways = 0;
    pe.copy_out(&ways, at.ways, sizeof ways);
    if (ways != kWays) {
      throw std::runtime_error(std::to_string(ways) + " ways, not " + std::to_string(kWays));
    }
    std::printf("ok\n");
    return 0;
  });
}
