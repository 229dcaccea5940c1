// SPDX-License-Identifier: Apache-2.0
//
// The command line of peal-cc: g++'s, and those options of nvcc that Makefiles of CUDA programs
// have, which become g++'s or mean nothing on a CPU.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace peal::cc {

/// A command line that cannot be carried out.
class OptionError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct CompilerOptions {
  enum class Until { kAnswer, kPreprocessed, kAssembly, kObject, kProgram };

  std::string compiler;              // g++, or what CXX or -ccbin names
  std::vector<std::string> cuda;     // sources to rewrite
  std::vector<std::string> others;   // sources, objects and libraries that the compiler takes
  std::vector<std::string> linked;   // the others, -l, -L, -Wl, in order; empty: a CUDA source's
  std::vector<std::string> compile;  // options of either step of a compilation
  std::vector<std::string> depend;   // -MD and the like: of the preprocessor
  std::string output;                // -o; empty: as g++ names it
  Until until = Until::kProgram;     // kAnswer: the compiler says something of itself
  bool nvshmem = false;              // the program links NVSHMEM's library, which is peal's here
  bool cccl = false;                 // a folder of -I has CUDA's C++ libraries
  bool race = false;                 // with ThreadSanitizer, and libraries that were built with it
  bool check = false;                // kernels' own accesses are told (simt/lanes/plain_access.h)
  bool sim = false;  // a simulated program, with libraries that were built for it; checks, too
  bool verbose = false;
};

/// Reads the arguments behind the program's name. Throws OptionError.
CompilerOptions read_options(const std::vector<std::string>& arguments);

extern const char* const kUsage;

}  // namespace peal::cc
