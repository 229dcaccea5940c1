// SPDX-License-Identifier: Apache-2.0
//
// A Runtime, and what the guide's calls have beside it: teams by number, in a table that kernels
// look them up in, and the word for the first failure.
#pragma once

#include <array>
#include <exception>
#include <string>
#include <type_traits>

#include "compat/detail/process.h"
#include "peal/peal.h"

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

  /// What kernels met with: its Status, and a sentence, and whether stderr has it already; *code
  /// stays 0 while all is well.
  std::string look_for_failure(int* code, bool* said) const;

 private:
  void write(nvshmem_team_t handle);

  Runtime runtime_;
  State state_{};
  std::array<Team, kMaxTeams> teams_{};
  int gpu_ = -1;
};

/// Throws Error kInvalidArgument before nvshmem_init().
Pe& this_pe();

// The modules of the process that kernels lie in (modules.cc). CUDA is asked by the driver that is
// loaded, so that programs for CPUs need none.

/// True if a file of this program was compiled by nvcc.
bool any_module();
/// Copies the state into all modules, and into those that are loaded from now on; null ends that.
/// Throws Error kSystem.
void fill_modules(const State* with);

/// The GPU that the calling thread has in use, or -1 where it has none or there is no driver.
int gpu_in_use();

/// A cudaStream_t as the runtime takes it: on a CPU null is the stream of simt that has no name.
void* stream_of(cudaStream_t stream);

/// Prints "peal: <call>: <what>" and keeps the failure, if it is the first.
void tell(const char* call, const std::exception& error);
/// One line for the first failure of kernels, if there is one and none was told yet.
void tell_of_kernels(const char* call);

/// Runs `body` with the PE; what it throws is told, and answered as T{}.
template <class Body>
auto on_host(const char* call, const Body& body) -> decltype(body(this_pe())) {
  using Answer = decltype(body(this_pe()));
  try {
    return body(this_pe());
  } catch (const std::exception& error) {
    tell(call, error);
  }
  if constexpr (!std::is_void_v<Answer>) return Answer{};
}

/// The same; 0, or not 0 where it threw.
template <class Body>
int code_of(const char* call, const Body& body) {
  const auto done = [&](Pe& pe) {
    body(pe);
    return true;
  };
  return on_host(call, done) ? 0 : 1;
}

}  // namespace peal::compat
