// SPDX-License-Identifier: Apache-2.0
//
// The applications as one program, for tests: a compiler reads peal's headers once.
//
//   all_apps gups --words 4096        what gups --words 4096 does
#include <numeric>  // of pages.cu, which has it inside a namespace here
#include <string_view>

#include "perf/apps/app.cuh"

// A main in a namespace is a function like any other; compilers only remark on it.
#define main run
namespace gups {
#include "perf/apps/gups.cu"
}
namespace moe {
#include "perf/apps/moe.cu"
}
namespace pages {
#include "perf/apps/pages.cu"
}
namespace stencil {
#include "perf/apps/stencil.cu"
}
namespace transpose {
#include "perf/apps/transpose.cu"
}
#undef main

int main(int count, char** words) {
  const std::string_view app = count > 1 ? words[1] : "";
  if (app == "gups") return gups::run(count - 1, words + 1);
  if (app == "moe") return moe::run(count - 1, words + 1);
  if (app == "pages") return pages::run(count - 1, words + 1);
  if (app == "stencil") return stencil::run(count - 1, words + 1);
  if (app == "transpose") return transpose::run(count - 1, words + 1);
  std::fprintf(stderr, "all_apps: gups, moe, pages, stencil or transpose, not '%s'\n",
               count > 1 ? words[1] : "");
  return 2;
}
