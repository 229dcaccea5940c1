// SPDX-License-Identifier: Apache-2.0
//
// Which run, of which peal and on which machine: what a row that somebody kept must still tell.
#pragma once

#include <istream>
#include <string>

namespace peal::perf {

struct Provenance {
  std::string date{};     // of the run's begin: ISO 8601, UTC, seconds
  std::string version{};  // of peal
  std::string host{};
  std::string cpu{};  // empty where the kernel tells no model
  std::string gpu{};  // that kernels run on; empty on a CPU
};

/// Describes the run that begins now, on this machine. `device` is PEAL_DEVICE of the host's first
/// PE; it is used only where kernels run on a GPU.
Provenance provenance_of_run(bool on_gpu, int device);

/// The model that /proc/cpuinfo names first, by whichever word its architecture has for it.
std::string cpu_model(std::istream& cpuinfo);

}  // namespace peal::perf
