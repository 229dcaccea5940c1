// SPDX-License-Identifier: Apache-2.0
//
// Work requests, rings and doorbell records of any content: see engine_run.h.
#include "tests/fuzz/engine_run.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  peal::fuzz::Input input(data, bytes);
  peal::fuzz::EngineRun(input).go();
  return 0;
}
