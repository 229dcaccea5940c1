// SPDX-License-Identifier: Apache-2.0
//
// Steps of collective calls that may fail on one PE and not on another: allocations, commands to a
// NIC, mappings. All PEs get past such a step, or all throw one error.
//
//   PE 0: taken  |                 |
//   PE 1: threw  |  one allgather  |  "PE 1: no 4096 bytes of ..." on all
//   PE 2: taken  |                 |
//
// A PE that threw by itself would leave the others in their next collective call until its
// deadline.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "host/base/exception.h"
#include "host/bootstrap.h"

namespace peal {

/// Why a step failed here. The error of the PE nearest to the cause is told, of several with the
/// same distance that of the first.
struct StepFailure {
  Error error;
  int32_t distance = 0;
};

/// What travels of a step's outcome: -1 where it was taken, else StepFailure::distance.
using StepOutcome = int32_t;
inline constexpr StepOutcome kStepTaken = -1;

inline bool all_taken(std::span<const StepOutcome> outcomes) {
  return std::ranges::all_of(outcomes, [](StepOutcome one) { return one == kStepTaken; });
}

/// Collective, after an exchange in which some PE's outcome was not kStepTaken; `mine` is why it
/// failed here, if it did. Throws the same on all PEs.
[[noreturn]] void fail_together(Bootstrap& group, const std::vector<StepOutcome>& outcomes,
                                const std::optional<StepFailure>& mine);

/// What `step` throws, as a failure.
template <class Step>
std::optional<StepFailure> failure_of(Step&& step) {
  try {
    step();
  } catch (const Error& error) {
    return StepFailure{error};
  } catch (const std::exception& error) {
    return StepFailure{Error(ErrorCode::kSystem, error.what())};
  }
  return std::nullopt;
}

/// Collective. Returns once all PEs have got here and `mine` was nothing on any; else all throw.
void throw_if_any_failed(Bootstrap& group, const std::optional<StepFailure>& mine);

/// Collective. Takes `step` and answers what it answers, once all PEs have taken theirs. The step
/// makes no collective calls itself.
template <class Step>
auto together(Bootstrap& group, Step&& step) {
  using Result = std::invoke_result_t<Step>;
  if constexpr (std::is_void_v<Result>) {
    throw_if_any_failed(group, failure_of(step));
  } else {
    std::optional<Result> result;
    throw_if_any_failed(group, failure_of([&] { result.emplace(step()); }));
    return std::move(*result);
  }
}

/// Collective. The same in one exchange with `count` entries of each PE, which the step fills in;
/// [PEs][count].
template <class T, class Step>
std::vector<T> gather_together(Bootstrap& group, size_t count, Step&& step) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> mine(count);
  const auto failure = failure_of([&] { step(std::span<T>(mine)); });
  const StepOutcome outcome = failure ? failure->distance : kStepTaken;
  const size_t bytes = sizeof(outcome) + count * sizeof(T);
  const auto n_pes = static_cast<size_t>(group.size());
  std::vector<std::byte> sent(bytes);
  std::memcpy(sent.data(), &outcome, sizeof(outcome));
  if (count != 0) std::memcpy(sent.data() + sizeof(outcome), mine.data(), count * sizeof(T));
  std::vector<std::byte> all(bytes * n_pes);
  group.allgather(sent, all);
  std::vector<T> entries(count * n_pes);
  std::vector<StepOutcome> outcomes(n_pes);
  for (size_t pe = 0; pe < n_pes; ++pe) {
    const std::byte* const from = all.data() + pe * bytes;
    std::memcpy(&outcomes[pe], from, sizeof(outcome));
    if (count == 0) continue;
    std::memcpy(entries.data() + pe * count, from + sizeof(outcome), count * sizeof(T));
  }
  if (!all_taken(outcomes)) fail_together(group, outcomes, failure);
  return entries;
}

/// The same with what each PE's step answers.
template <class Step>
auto gather_together(Bootstrap& group, Step&& step) {
  using Result = std::invoke_result_t<Step>;
  return gather_together<Result>(group, 1, [&](std::span<Result> mine) { mine[0] = step(); });
}

}  // namespace peal
