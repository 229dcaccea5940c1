// SPDX-License-Identifier: Apache-2.0
//
// Jobs of launchers other than mpirun and peal-run. Each helps the ranks to meet over TCP, and has
// no further part:
//
//   pmix, pmi    rank 0 listens and leaves its unique id with the launcher; the others fetch it
//   torchrun     rank 0 listens beside MASTER_PORT; all make the id's secret from what they know
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "bootstrap/bootstraps.h"

namespace peal::bootstrap {

/// As rank `rank` of a PMIx launcher's job (srun --mpi=pmix, mpirun); rank 0 listens at
/// find_address(interface). Loads libpmix.so.2. Throws kConfiguration where there is none or no
/// launcher answers.
std::unique_ptr<Bootstrap> make_pmix(int rank, const std::string& interface, Deadline deadline);

/// What a launcher that speaks PMI 1.1 over a socket gives to each process (srun --mpi=pmi2,
/// MPICH's mpiexec).
struct PmiJob {
  int fd = -1;  // connected to the launcher; used up by make_pmi
  int rank = 0;
  int size = 1;
  std::string interface;  // as in make_pmix
};
std::unique_ptr<Bootstrap> make_pmi(const PmiJob& job, Deadline deadline);

/// What torchrun tells each process.
struct TorchJob {
  int rank = 0;
  int size = 1;
  std::string host;  // of rank 0
  std::uint16_t port = 0;
  std::string run;  // whatever else tells this job from others

  /// Reads variables that choose_launch() found complete. Throws kConfiguration for a MASTER_PORT
  /// that is no port.
  static TorchJob from(const std::map<std::string, std::string>& variables);
};

/// Rank 0 listens at the first free of 16 ports beside the job's; the others look for it there.
///
/// The secret is made from the variables: it keeps jobs apart, and does not keep out a person who
/// knows or guesses them.
std::unique_ptr<Bootstrap> make_torchrun(const TorchJob& job, Deadline deadline);

}  // namespace peal::bootstrap
