// SPDX-License-Identifier: Apache-2.0
//
// Every collective call of one type, with every operation, by every scope, in a team: what kernels
// of tests/collectives run. A kernel goes through all cases and checks each result itself.
//
// The operation is chosen at run time: calls do with it nothing but apply it, so one instance of
// each call stands for all, and the types compile in a minute.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/collective_cases.h"
#include "tests/support/job.h"

namespace peal::api_test {

enum class OpName : uint32_t { kSum, kProduct, kMin, kMax, kAnd, kOr, kXor };

/// The operation that the block's lanes are at.
struct ChosenOp {
  OpName name;
};

struct AnyOp {
  template <class T>
  PEAL_DEVICE T operator()(T a, T b) const {
    switch (block_shared<ChosenOp>().name) {
      case OpName::kSum:
        return op::sum(a, b);
      case OpName::kProduct:
        return op::product(a, b);
      case OpName::kMin:
        return op::min(a, b);
      case OpName::kMax:
        return op::max(a, b);
      default:
        break;
    }
    if constexpr (std::is_integral_v<T>) {
      switch (block_shared<ChosenOp>().name) {
        case OpName::kAnd:
          return op::bit_and(a, b);
        case OpName::kOr:
          return op::bit_or(a, b);
        default:
          return op::bit_xor(a, b);
      }
    }
    return a;
  }
};

struct MatrixCase {
  Case what;
  OpName op;
};

/// All calls with all operations, in place and not; the size is another one each time: one element,
/// the longest short message of mapped members and one more, several pieces of a long one, and what
/// lies between. `turn` differs from team to team.
template <class T>
std::vector<MatrixCase> matrix_cases(const Team& team, uint32_t turn) {
  const size_t limit =
      std::max<size_t>(1, team.workspace / (4 * static_cast<size_t>(team.size)) / sizeof(T));
  const size_t counts[] = {1, limit, limit + 1, 2 * limit + 1, 3 * limit + 7};
  const uint32_t ops = std::is_integral_v<T> ? 7 : 4;
  std::vector<MatrixCase> cases;
  for (const Call call : kCalls) {
    for (uint32_t op = 0; op < (call < Call::kAllReduce ? 1 : ops); ++op) {
      for (const bool in_place : {false, true}) {
        const size_t count = counts[turn++ % std::size(counts)];
        const int root = static_cast<int>(turn % static_cast<uint32_t>(team.size));
        cases.push_back({{call, count, in_place, count % 3, root}, static_cast<OpName>(op)});
      }
    }
  }
  return cases;
}

/// What the lanes of a kernel look at and where they write.
template <class T>
struct MatrixMemory {
  const MatrixCase* cases;
  uint32_t count;
  T* dst;
  T* src;
};

/// One case by the lanes of a group; `lane` of `lanes`.
template <class T>
class MatrixRun {
 public:
  PEAL_DEVICE MatrixRun(const Team& team, const Case& c, const MatrixMemory<T>& memory)
      : team_(team), case_(c), to_(c.in_place ? memory.src : memory.dst), from_(memory.src) {}

  PEAL_DEVICE T* dst() const { return to_ + case_.skew + mine(Call::kReduceScatter); }
  PEAL_DEVICE T* src() const { return from_ + case_.skew + mine(Call::kAllGather); }

  PEAL_DEVICE void fill(uint32_t lane, uint32_t lanes) const {
    const size_t taken = case_.count * taken_blocks(case_.call, team_.size);
    for (size_t k = lane; k <= taken && !case_.in_place; k += lanes) dst()[k] = untouched();
    const size_t given = case_.count * given_blocks(case_.call, team_.size);
    for (size_t k = lane; k < given; k += lanes) {
      src()[k] = gives() ? element<T>(team_.rank, k) : untouched();
    }
  }

  /// The first of this lane's elements that is wrong, or -1. Another lane wrote it.
  PEAL_DEVICE int64_t check(uint32_t lane, uint32_t lanes) const {
    const size_t count = case_.count * taken_blocks(case_.call, team_.size);
    for (size_t k = (lane + 1) % lanes; k < count + (case_.in_place ? 0 : 1); k += lanes) {
      T wanted = untouched();
      const T before = case_.in_place && gives() ? element<T>(team_.rank, k) : wanted;
      if (k < count) wanted = expected<T, AnyOp>(case_, team_.rank, team_.size, k, before);
      if (std::memcmp(&dst()[k], &wanted, sizeof(T)) != 0) return static_cast<int64_t>(k);
    }
    return -1;
  }

 private:
  PEAL_DEVICE T untouched() const { return element<T>(11, 3); }
  PEAL_DEVICE bool gives() const {
    return case_.call != Call::kBroadcast || team_.rank == case_.root;
  }
  /// In place this PE's block of the larger buffer is the other one.
  PEAL_DEVICE size_t mine(Call call) const {
    return case_.in_place && case_.call == call ? static_cast<size_t>(team_.rank) * case_.count : 0;
  }
  const Team& team_;
  const Case& case_;
  T* const to_;
  T* const from_;
};

/// Lanes go on together: what the one writes next another has looked at.
template <class S>
PEAL_DEVICE Status all_here(const Context& ctx, S scope, const Team& team) {
  scope.sync();
  if constexpr (std::is_same_v<S, WholeGrid>) return sync(ctx, scope, team);
  return Status::kOk;
}

/// `verdict->line` is the case that failed, `seen` the element or the status.
template <class S, class T>
PEAL_KERNEL play_matrix(Verdict* verdict, Context ctx, S scope, Team team, MatrixMemory<T> memory) {
  Status status = Status::kOk;  // alike for all lanes
  for (uint32_t i = 0; i < memory.count && status == Status::kOk; ++i) {
    const Case c = memory.cases[i].what;
    const MatrixRun<T> run(team, c, memory);
    expect_ok(verdict, all_here(ctx, scope, team), i);
    block_shared<ChosenOp>().name = memory.cases[i].op;
    run.fill(scope.rank(), scope.size());
    expect_ok(verdict, all_here(ctx, scope, team), i);
    status = make_call<AnyOp>(ctx, scope, team, c, run.dst(), run.src());
    expect_ok(verdict, status, i);
    const int64_t wrong = run.check(scope.rank(), scope.size());
    expect_eq(verdict, static_cast<unsigned long long>(wrong), ~0ull, i);
  }
}

/// Symmetric bytes that a kernel uses.
inline constexpr size_t kMatrixRoom = 8192;

/// What went wrong by one scope, or nothing.
template <class S, class T>
std::string run_matrix_by(Runtime& pe, const Team& team, const Grid& grid, uint32_t turn,
                          void* room) {
  const std::vector<MatrixCase> cases = matrix_cases<T>(team, turn);
  auto* const words = static_cast<T*>(room);
  const size_t half = kMatrixRoom / 2 / sizeof(T);
  const MatrixMemory<T> memory{cases.data(), static_cast<uint32_t>(cases.size()), words,
                               words + half};
  Verdict verdict;
  launch(grid, play_matrix<S, T>, &verdict, pe.context(), S{}, team, memory).wait();
  if (verdict.failures == 0) return "";
  const MatrixCase& bad = cases[verdict.line];
  return describe(bad.what, team, sizeof(T)) + ", operation " +
         std::to_string(static_cast<int>(bad.op)) + ", grid of " + std::to_string(grid.blocks.x) +
         " x " + std::to_string(grid.threads.x) + ": saw " + std::to_string(verdict.seen) +
         " where " + std::to_string(verdict.wanted) + " was wanted";
}

/// What went wrong first, or nothing.
template <class T>
std::string run_matrix(Runtime& pe, const Team& team, uint32_t turn, void* room) {
  std::string wrong = run_matrix_by<Thread, T>(pe, team, {1, 1}, turn, room);
  if (wrong.empty()) wrong = run_matrix_by<Warp, T>(pe, team, {1, 5}, turn + 1, room);
  if (wrong.empty()) wrong = run_matrix_by<Block, T>(pe, team, {1, 34}, turn + 2, room);
  // The third block has no channel.
  if (wrong.empty()) wrong = run_matrix_by<WholeGrid, T>(pe, team, {3, 2}, turn + 3, room);
  return wrong;
}

/// run_matrix() of one type.
struct MatrixType {
  const char* name;
  std::string (*run)(Runtime& pe, const Team& team, uint32_t turn, void* room);
};

// One translation unit each, for compilers' sake.
extern const std::vector<MatrixType> kIntegersOf1;
extern const std::vector<MatrixType> kIntegersOf2;
extern const std::vector<MatrixType> kIntegersOf4;
extern const std::vector<MatrixType> kIntegersOf8;
extern const std::vector<MatrixType> kFloatsOf2;
extern const std::vector<MatrixType> kFloats;

}  // namespace peal::api_test
