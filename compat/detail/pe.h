// SPDX-License-Identifier: Apache-2.0
//
// A Runtime, and what the guide's calls have beside it: teams by number, in a table that kernels
// look them up in, and the word for the first failure.
#pragma once

#include <array>
#include <string>

#include "compat/detail/process.h"

namespace peal::compat {

/// Construction is collective. Stays where it is.
class Pe {
 public:
  explicit Pe(Runtime runtime);
  Pe(const Pe&) = delete;
  Pe& operator=(const Pe&) = delete;

  Runtime& runtime() { return runtime_; }
  const State& state() const { return state_; }

  /// Throws Error kInvalidArgument where the handle is none.
  const Team& team(nvshmem_team_t handle) const;
  /// A handle for a team, or NVSHMEM_TEAM_INVALID for one that this PE is not in. Throws
  /// kOutOfMemory where there are kMaxTeams.
  nvshmem_team_t keep(const Team& team);
  void forget(nvshmem_team_t handle);

  /// Throws kConfiguration where the thread has another GPU in use than the PE.
  void check_gpu() const;

  /// What kernels met with: its Status, and a sentence; *code stays 0 while all is well.
  std::string look_for_failure(int* code) const;

 private:
  void write(nvshmem_team_t handle);

  Runtime runtime_;
  State state_{};
  std::array<Team, kMaxTeams> teams_{};
  int gpu_ = -1;
};

/// Throws Error kInvalidArgument before nvshmem_init().
Pe& this_pe();

}  // namespace peal::compat
