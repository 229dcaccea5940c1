// SPDX-License-Identifier: Apache-2.0
//
// The PEs of a simulated program (simt/simulation/simulated_program.h), which are hosts in one
// thread.
#pragma once

#include <memory>

#include "host/bootstrap.h"

namespace peal::bootstrap {

/// Called on a host of a simulation, by each of its PEs as often.
std::unique_ptr<Bootstrap> make_simulated();

}  // namespace peal::bootstrap
