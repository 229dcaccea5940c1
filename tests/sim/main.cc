// SPDX-License-Identifier: Apache-2.0
//
// Runs workloads under seeds.
//
//   sim_test --seeds 200 [--first 1] [--workload NAME]   every workload under so many seeds
//   sim_test --seed 17 --workload NAME                   one run again, bit for bit
//   sim_test ... --weaken "M4"                           without what this edge orders
//
// A failing seed prints itself. Last line: N passed, N failed.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/sim/run.h"

namespace {

using namespace peal::sim;

struct Asked {
  uint64_t first = 1;
  uint64_t seeds = 100;
  std::string workload;
  unsigned weaken = 0;
};

[[noreturn]] void refuse(const std::string& what) {
  std::fprintf(stderr, "sim_test: %s\n", what.c_str());
  std::exit(2);
}

uint64_t number_of(const char* text) {
  char* end = nullptr;
  const uint64_t number = std::strtoull(text, &end, 10);
  if (end == text || *end != 0) refuse(std::string("not a number: ") + text);
  return number;
}

Asked parse(int count, char** arguments) {
  Asked asked;
  for (int i = 1; i < count; i += 2) {
    const std::string name = arguments[i];
    if (i + 1 == count) refuse(name + " needs a value");
    const char* const value = arguments[i + 1];
    if (name == "--seeds") {
      asked.seeds = number_of(value);
    } else if (name == "--first") {
      asked.first = number_of(value);
    } else if (name == "--seed") {
      asked.first = number_of(value);
      asked.seeds = 1;
    } else if (name == "--workload") {
      asked.workload = value;
      if (find_workload(value) == nullptr) refuse(std::string("no workload ") + value);
    } else if (name == "--weaken") {
      asked.weaken = edge_by_name(value);
      if (asked.weaken == 0) refuse(std::string("no edge ") + value);
    } else {
      refuse("unknown argument " + name);
    }
  }
  return asked;
}

}  // namespace

int main(int count, char** arguments) {
  const Asked asked = parse(count, arguments);
  uint64_t passed = 0;
  uint64_t failed = 0;
  for (uint64_t seed = asked.first; seed < asked.first + asked.seeds; ++seed) {
    for (const Workload& workload : workloads()) {
      if (!asked.workload.empty() && asked.workload != workload.name) continue;
      const Result result = run_once(workload, seed, asked.weaken);
      ++(result.failure.empty() ? passed : failed);
      if (!result.failure.empty()) {
        std::printf("FAILED %s: %s\n  again: sim_test --seed %llu --workload %s\n", workload.name,
                    result.failure.c_str(), static_cast<unsigned long long>(seed), workload.name);
      } else if (asked.seeds == 1) {
        std::printf("%s: seed %llu, %llu slices, digest %016llx\n", workload.name,
                    static_cast<unsigned long long>(seed),
                    static_cast<unsigned long long>(result.slices),
                    static_cast<unsigned long long>(result.digest));
      }
    }
  }
  std::printf("%llu passed, %llu failed\n", static_cast<unsigned long long>(passed),
              static_cast<unsigned long long>(failed));
  return failed == 0 && passed != 0 ? 0 : 1;
}
