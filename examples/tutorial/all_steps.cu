// SPDX-License-Identifier: Apache-2.0
//
// The six programs of the tutorial as one, for tests: a compiler reads peal's headers once.
//
//   all_steps step1_put        what step1_put does
//
// What the programs include stands here first: in their namespaces nothing is included again.
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "peal/peal.h"

// A main in a namespace is a function like any other; compilers only remark on it.
#define main run
namespace step1 {
#include "examples/tutorial/step1_put.cu"
}
namespace step2 {
#include "examples/tutorial/step2_signal.cu"
}
namespace step3 {
#include "examples/tutorial/step3_scopes.cu"
}
namespace step4 {
#include "examples/tutorial/step4_teams.cu"
}
namespace step5 {
#include "examples/tutorial/step5_plan.cu"
}
namespace step6 {
#include "examples/tutorial/step6_dispatch.cu"
}
#undef main

int main(int count, char** arguments) {
  const std::string_view step = count > 1 ? arguments[1] : "";
  if (step == "step1_put") return step1::run();
  if (step == "step2_signal") return step2::run();
  if (step == "step3_scopes") return step3::run();
  if (step == "step4_teams") return step4::run();
  if (step == "step5_plan") return step5::run();
  if (step == "step6_dispatch") return step6::run();
  std::fprintf(stderr, "all_steps: which step? step1_put ... step6_dispatch\n");
  return 2;
}
