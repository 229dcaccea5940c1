// SPDX-License-Identifier: Apache-2.0
//
// Seeds until one fails, then the shortest schedule of it, then its story.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iterator>

#include "simt/lanes/launch.h"
#include "simt/simulation/program/one_run.h"
#include "simt/simulation/simulated_program.h"

namespace peal::simt {
namespace {

void say(const std::string& text) { std::fputs(text.c_str(), stderr); }

// The text by which two failures are compared.
std::string without_numbers(std::string text) {
  std::erase_if(text, [](char c) { return c >= '0' && c <= '9'; });
  return text;
}

/// Leaves out decisions of a run that failed, as long as what is left fails in the same way: larger
/// parts first, then single ones.
class Shrinking {
 public:
  Shrinking(const SimulatedRun& program, uint64_t seed, RunResult failed)
      : program_(program), seed_(seed), best_(std::move(failed)) {}

  RunResult run() {
    if (left() && try_with({})) return best_;
    for (size_t part = (best_.decisions.size() + 1) / 2; part != 0 && left();) {
      const bool shorter = pass(part);
      if (part == 1 && !shorter) break;
      part = shorter ? std::min(part, (best_.decisions.size() + 1) / 2) : part / 2;
    }
    return best_;
  }

 private:
  bool left() const { return runs_ < program_.options.shrinks; }

  bool pass(size_t part) {
    bool shorter = false;
    for (size_t from = 0; from < best_.decisions.size() && left();) {
      std::vector<uint64_t> rest = best_.decisions;
      const auto begin = rest.begin() + static_cast<ptrdiff_t>(from);
      rest.erase(begin, begin + static_cast<ptrdiff_t>(std::min(part, rest.size() - from)));
      if (try_with(std::move(rest))) {
        shorter = true;
      } else {
        from += part;
      }
    }
    return shorter;
  }

  bool try_with(std::vector<uint64_t> kept) {
    ++runs_;
    RunResult result = run_once(program_, {seed_, std::move(kept)});
    if (!result.failed || without_numbers(result.what) != without_numbers(best_.what)) return false;
    if (result.decisions.size() >= best_.decisions.size()) return false;
    best_ = std::move(result);
    return true;
  }

  const SimulatedRun& program_;
  const uint64_t seed_;
  RunResult best_;
  uint64_t runs_ = 0;
};

void report(const SimulatedRun& program, uint64_t seed, const RunResult& failed,
            const RunResult& story) {
  const std::string pes = std::to_string(program.options.pes);
  say("FAILED " + story.what + "\n");
  if (!story.output.empty()) say("what the program printed:\n" + story.output);
  say("the schedule, by the " + std::to_string(story.decisions.size()) + " decisions of seed " +
      std::to_string(seed) + " that it takes (of " + std::to_string(failed.decisions.size()) +
      "):\n" + story.story);
  say("again: peal-sim -n " + pes + " --seed " + std::to_string(seed));
  for (int i = 0; i < program.argc; ++i) say(std::string(" ") + program.argv[i]);
  say("\n");
}

int explain(const SimulatedRun& program, uint64_t seed, const RunResult& failed) {
  const RunResult shortest = Shrinking(program, seed, failed).run();
  const RunResult story = run_once(program, {seed, shortest.decisions, true});
  report(program, seed, failed, story);
  return 1;
}

int run_seeds(const SimulatedRun& program) {
  const SimulatedOptions& options = program.options;
  const uint64_t count = options.replay ? 1 : options.seeds;
  uint64_t slices = 0;
  for (uint64_t seed = options.first_seed; seed != options.first_seed + count; ++seed) {
    const RunResult result = run_once(program, {seed, {}});
    if (result.failed) return explain(program, seed, result);
    slices += result.slices;
    if (options.replay) {
      say(run_once(program, {seed, {}, true}).story);
      std::fputs(result.output.c_str(), stdout);
    }
  }
  std::printf("ok: %d PEs under %llu seeds, %llu slices\n", options.pes,
              static_cast<unsigned long long>(count), static_cast<unsigned long long>(slices));
  return 0;
}

// A setting that simulations have no other value of.
void fix(const char* name, const char* value, const char* why) {
  const char* const set = std::getenv(name);
  if (set != nullptr && std::string(set) != value) {
    throw LaneError(std::string(name) + "=" + set + ": " + why + "; unset it");
  }
  ::setenv(name, value, /*overwrite=*/1);
}

}  // namespace

int run_simulated(int argc, char** argv, int (*program)(int, char**)) {
  std::signal(SIGCHLD, SIG_DFL);  // where it is ignored nobody learns how a run ended
  try {
    const char* const text = std::getenv("PEAL_SIM");
    const SimulatedOptions options = read_simulated_options(text == nullptr ? "" : text);
    ::unsetenv("PEAL_SIM");  // no setting of libpeal's
    fix("PEAL_TRANSPORT", "p2p", "PEs of a simulation load and store each other's memory");
    fix("PEAL_CHECK", "off", "checked mode is for programs of peal-cc --check");
    return run_seeds({argc, argv, program, options});
  } catch (const std::exception& error) {
    say(std::string("peal-sim: ") + error.what() + "\n");
    return 2;
  }
}

}  // namespace peal::simt
