// SPDX-License-Identifier: Apache-2.0
//
// Names of code by its address, for messages: by the symbols and the debug information that the
// program has (libbacktrace, which comes with the compiler). Slow. What answers texts of the
// program's, not strings, allocates nothing and is fit for handlers of signals.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace peal::simt {

/// "ring" of ring(peal::Context, ...), without namespace and parameters; "" where nobody knows.
std::string function_at(uintptr_t address);

/// Its name as the linker has it; null where nobody knows.
const char* symbol_at(uintptr_t address);
/// "ring" of "_ZN3job4ringILi4EEEvPi", the name of ring<4>; the whole where that is too hard.
std::string_view last_name(std::string_view symbol);

struct LineOfCode {
  std::string file;  // its path
  int number;
};
/// The lines of an address, of inlined code the innermost first; none without debug information.
std::vector<LineOfCode> lines_at(uintptr_t address);

/// Calls `visit(to, file, line, function)` with them, until that answers true.
using VisitLine = bool (*)(void* to, const char* file, int line, const char* function);
void visit_lines(uintptr_t address, VisitLine visit, void* to);

/// "ring_step (ring.cc:17)", or what is known of it: "program+0x12a4" at least.
std::string place_of_code(uintptr_t address);

}  // namespace peal::simt
