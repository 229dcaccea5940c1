// SPDX-License-Identifier: Apache-2.0
//
// Names of code by its address, for messages: by the symbols and the debug information that the
// program has (libbacktrace, which comes with the compiler). Slow, and not for signal handlers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace peal::simt {

/// "ring" of ring(peal::Context, ...), without namespace and parameters; "" where nobody knows.
std::string function_at(uintptr_t address);

struct LineOfCode {
  std::string file;  // its path
  int number;
};
/// The lines of an address, of inlined code the innermost first; none without debug information.
std::vector<LineOfCode> lines_at(uintptr_t address);

/// "ring_step (ring.cc:17)", or what is known of it: "program+0x12a4" at least.
std::string place_of_code(uintptr_t address);

}  // namespace peal::simt
