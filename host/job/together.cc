// SPDX-License-Identifier: Apache-2.0
#include "host/job/together.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>

namespace peal {
namespace {

// An error, as it travels.
struct Told {
  ErrorCode code = ErrorCode::kInternal;
  std::array<char, 1276> text = {};
};

}  // namespace

void fail_together(Bootstrap& group, const std::vector<StepOutcome>& outcomes,
                   const std::optional<StepFailure>& mine) {
  Told told;
  if (mine) {
    told.code = mine->error.code();
    std::string_view(mine->error.what()).copy(told.text.data(), told.text.size() - 1);
  }
  const std::vector<Told> all = gather(group, told);
  size_t failed = 0;
  size_t nearest = outcomes.size();
  bool alike = true;  // what all say needs no name
  for (size_t pe = 0; pe < outcomes.size(); ++pe) {
    alike = alike && outcomes[pe] != kStepTaken && all[pe].text == all[0].text;
    if (outcomes[pe] == kStepTaken) continue;
    ++failed;
    if (nearest == outcomes.size() || outcomes[pe] < outcomes[nearest]) nearest = pe;
  }
  const char* const text = all[nearest].text.data();
  if (alike) throw Error(all[nearest].code, text);
  const std::string count =
      failed == 1 ? "" : fmt::format(" ({} of {} PEs failed)", failed, outcomes.size());
  throw Error(all[nearest].code, fmt::format("PE {}: {}{}", nearest, text, count));
}

void throw_if_any_failed(Bootstrap& group, const std::optional<StepFailure>& mine) {
  const auto outcomes = gather<StepOutcome>(group, mine ? mine->distance : kStepTaken);
  if (!all_taken(outcomes)) fail_together(group, outcomes, mine);
}

}  // namespace peal
