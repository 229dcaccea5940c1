// SPDX-License-Identifier: Apache-2.0
//
// main() of programs that peal-cc --sim makes: the linker (--wrap=main) calls the program's own
// __real_main().
#include "simt/simulation/simulated_program.h"

extern "C" {
int __real_main(int argc, char** argv);
int __wrap_main(int argc, char** argv);
int __wrap_main(int argc, char** argv) {
  return peal::simt::run_simulated(argc, argv, &__real_main);
}
}
