// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <sstream>

#include "simt/lanes/launch.h"
#include "simt/simulation/simulated_program.h"

namespace peal::simt {
namespace {

constexpr uint64_t kMostPes = 64;

uint64_t number(const std::string& option, const std::string& text, uint64_t least, uint64_t most) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || value < least || value > most) {
    throw LaneError("PEAL_SIM: " + option + " " + (text.empty() ? "without a value" : text) +
                    ": a number from " + std::to_string(least) + " to " + std::to_string(most) +
                    " is wanted");
  }
  return value;
}

}  // namespace

SimulatedOptions read_simulated_options(std::string_view text) {
  constexpr uint64_t kAny = ~uint64_t{0};
  SimulatedOptions options;
  std::istringstream words{std::string(text)};
  for (std::string word, value; words >> word;) {
    value.clear();
    words >> value;
    if (word == "--pes" || word == "-n") {
      options.pes = static_cast<int>(number(word, value, 1, kMostPes));
    } else if (word == "--seeds") {
      options.seeds = number(word, value, 1, kAny);
    } else if (word == "--seed") {
      options.first_seed = number(word, value, 0, kAny);
      options.replay = true;
    } else if (word == "--shrink") {
      options.shrinks = number(word, value, 0, kAny);
    } else if (word == "--slices") {
      options.slices = number(word, value, 1, kAny);
    } else if (word == "--steps") {
      options.steps = number(word, value, 0, kAny);
    } else {
      throw LaneError("PEAL_SIM: there is no option " + word +
                      "; there are -n, --seeds, --seed, --shrink, --slices and --steps");
    }
  }
  return options;
}

}  // namespace peal::simt
