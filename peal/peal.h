// SPDX-License-Identifier: Apache-2.0
//
// The front door: everything a program that uses peal includes.
//
//   int main() {
//     peal::Runtime pe = peal::start();                      // its launcher tells who we are
//     auto* flag = pe.allocate<uint64_t>(1);
//     peal::launch({.blocks = 1, .threads = 32}, kernel, pe.context(), flag).wait();
//     pe.check();
//   }
#pragma once

// clang-format off: first, for there a compiler of an older language is told so.
#include "device/base/target.h"
// clang-format on

#include "bootstrap/bootstraps.h"
#include "bootstrap/launch.h"
#include "device/api.h"
#include "device/base/launch.h"
#include "device/base/stream.h"
#include "host/base/exception.h"
#include "host/runtime.h"

namespace peal {

/// Joins the job that the environment describes (bootstrap/launch.h): that of peal-run, mpirun,
/// srun or torchrun, and without any is the only PE. Reads all PEAL_* variables. The calling file's
/// compiler says where kernels run (PEAL_TARGET). Throws peal::Error.
Runtime start(Target target = PEAL_TARGET);

/// The same with a configuration at hand.
Runtime start(const Config& config, Target target = PEAL_TARGET);

/// Runtime::rejoin() in a job of peal-run --restart, or of PEAL_TCP_ID, on one host or several:
/// waits for the new processes until PEAL_BOOTSTRAP_TIMEOUT. PE 0's starts on the host where it
/// was. Throws kUnsupported in a job that was started otherwise.
void rejoin(Runtime& runtime, const RejoinOptions& options = {});

/// One PE of a group that is there already: of bootstrap::run_threads, run_processes or the user's
/// own. `group` must outlive the Runtime.
Runtime join(Bootstrap& group, Target target = PEAL_TARGET);
Runtime join(Bootstrap& group, const Config& config, Target target = PEAL_TARGET);

/// Runs main's body and turns an exception into one line on stderr and exit code 1; the other PEs
/// hear of it at once. Where a Runtime of the body ended in failure that nobody has asked for
/// (docs/errors.md), 0 becomes 1.
int run_main(const std::function<int()>& body);

}  // namespace peal
