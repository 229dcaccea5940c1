// SPDX-License-Identifier: Apache-2.0
//
// The front door: everything a program that uses peal includes.
//
//   int main() {
//     peal::Runtime pe = peal::start();                      // mpirun tells who we are
//     auto* flag = pe.allocate<uint64_t>(1);
//     peal::launch({.blocks = 1, .threads = 32}, kernel, pe.context(), flag).wait();
//     pe.check();
//   }
#pragma once

#include "bootstrap/bootstraps.h"
#include "device/api.h"
#include "device/base/launch.h"
#include "device/base/stream.h"
#include "host/base/exception.h"
#include "host/runtime.h"

namespace peal {

/// Joins the job that the environment describes: under mpirun by MPI, with PEAL_TCP_ID by TCP, else
/// as the only PE. Reads all PEAL_* variables. The calling file's compiler says where kernels run
/// (PEAL_TARGET). Throws peal::Error.
Runtime start(Target target = PEAL_TARGET);

/// The same with a configuration at hand.
Runtime start(const Config& config, Target target = PEAL_TARGET);

/// Runs main's body and turns an exception into one line on stderr and exit code 1.
int run_main(const std::function<int()>& body);

}  // namespace peal
