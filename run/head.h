// SPDX-License-Identifier: Apache-2.0
//
// The head of peal-run: starts an agent for each host, has them start the PEs together, prints what
// these write, hands signals on, and ends all when one fails.
#pragma once

#include "run/options.h"

namespace peal::run {

/// Runs the job of `options`; the exit code of peal-run.
int run_head(const Options& options);

}  // namespace peal::run
