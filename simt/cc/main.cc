// SPDX-License-Identifier: Apache-2.0
//
// peal-cc: compiles a CUDA program with g++.
//
//   x.cu --g++ -E--> preprocessed --rewrite()--> plain C++ --g++ -c--> x.o --g++--> program
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "base/fd.h"
#include "simt/cc/driver.h"
#include "simt/cc/options.h"

int main(int argc, char** argv) {
  std::signal(SIGCHLD, SIG_DFL);  // where it is ignored nobody learns how a compiler ended
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    peal::occupy_standard_descriptors();  // for compilers too, which open files of their own
    for (const std::string& one : arguments) {
      if (one == "--help" || one == "-h") return std::fputs(peal::cc::kUsage, stdout) < 0;
    }
    if (std::getenv(peal::cc::kWithin) != nullptr) {
      throw peal::cc::OptionError(
          "the compiler that peal-cc was to use has started peal-cc: CXX, -ccbin or the g++ of "
          "PATH "
          "must name another one");
    }
    return peal::cc::CompilerDriver(peal::cc::read_options(arguments)).run();
  } catch (const peal::cc::OptionError& error) {
    std::fprintf(stderr, "peal-cc: %s; peal-cc --help tells more\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "peal-cc: %s\n", error.what());
    return 1;
  }
}
