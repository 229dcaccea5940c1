// SPDX-License-Identifier: Apache-2.0
//
// Who started this process, told from its environment, and the Bootstrap that goes with it.
//
//   PEAL_TCP_* | torchrun | mpirun | RANK, WORLD_SIZE | PMI | PMIx | nothing    ->    Launch
//
// The innermost launcher counts: torchrun under srun is torchrun. An environment that speaks of
// several processes and does not say how they meet is an error: never a job of one PE each.
#pragma once

#include <memory>
#include <string>

#include "host/base/config.h"
#include "host/bootstrap.h"

namespace peal::bootstrap {

/// How this process joins its job.
struct JoinPlan {
  BootstrapKind kind = BootstrapKind::kSingle;  // never kAuto
  int rank = 0;                                 // of tcp, torchrun, pmi and pmix
  int size = 1;                                 // of tcp, torchrun and pmi
  std::string told_by;  // the variable that tells of several processes, "WORLD_SIZE=4"; or empty
};

/// What the settings and the launchers' variables of `config` mean together. Reads nothing else.
///
/// Throws kConfiguration, with the variable, its value and the remedy, where they tell of several
/// processes and not how these meet, or contradict each other.
JoinPlan choose_launch(const Config& config);

/// Throws kConfiguration where `config` has the variables of peal-run for several PEs, and `group`
/// (what it is: "the MPI communicator") was made of `size` by other means: each process would be a
/// job of its own and end with 0. PEAL_BOOTSTRAP=single allows it.
void check_size(const Config& config, const std::string& group, int size);

/// Joins the job that choose_launch() finds. Throws kConfiguration, too, where the job turns out to
/// have this PE alone although a launcher's variable tells of several.
std::unique_ptr<Bootstrap> make_launched(const Config& config);

}  // namespace peal::bootstrap
