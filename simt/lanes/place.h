// SPDX-License-Identifier: Apache-2.0
//
// Where in the program's text a lane is: the line of the kernel that led into the library, for
// messages. Cheap to take (the return addresses of a few frames), slow to put into words.
#pragma once

#include <cstdint>
#include <string>

namespace peal::simt {

/// A number for the calls that the caller is in, the same for the same calls; never 0. Thread-safe.
/// `header` is the caller's file, beside which the library's other headers lie.
uint64_t place_here(const char* header = __builtin_FILE());

/// A number for the call that returns to `code` and those around it, or for that address alone
/// where the caller is in no such call.
uint64_t place_from(uintptr_t code);

/// A number for one address of code, of the same kind.
uint64_t place_at(uintptr_t code);

/// "ring.cc:17": the innermost line that is not in a file of the library; "" where the program has
/// no debug information. Thread-safe. It needs the stack of a thread: a lane's may be too small.
std::string place_text(uint64_t place);

/// The innermost line of `code` that is not in a file of the library; no file where there is none.
/// Its texts stay for as long as the process. For handlers of signals: it allocates nothing.
struct CodeOfProgram {
  const char* file = nullptr;
  int line = 0;
  const char* function = nullptr;  // as the linker has it
};
CodeOfProgram code_of_program(uintptr_t code);

/// Between the two what the lane loads and stores is the library's doing, not the kernel's. Calls
/// nest.
void enter_library();
void leave_library();
/// True between them.
bool in_library();

}  // namespace peal::simt
