// SPDX-License-Identifier: Apache-2.0
//
// The environment variables of the software NIC; settings.cc is their only reader.
//
//   PEAL_SOFTNIC_FABRIC         NICs see each other when they name the same fabric    (default)
//   PEAL_SOFTNIC_DIR            where the files of the fabric live                    (/dev/shm)
//   PEAL_SOFTNIC_TIMEOUT_SCALE  factor on every transport retry time, 0.001 .. 1000   (1)
#pragma once

#include <string>

#include "softnic/objects.h"

namespace peal::softnic {

struct Settings {
  std::string fabric = "default";
  std::string directory = "/dev/shm";
  Timing timing;

  /// Reads the environment. Throws std::invalid_argument naming the variable, its value and what
  /// it may be.
  static Settings from_environment();
};

}  // namespace peal::softnic
