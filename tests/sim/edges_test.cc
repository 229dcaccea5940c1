// SPDX-License-Identifier: Apache-2.0
//
// Every ordering edge is load-bearing: with one of them weakened, the workload that is about it
// fails under some seed, and under the same seed it passes with all of them.
//
//   edges_test tests/sim/edges.txt            tries the seed in the table, then seeds from 1 on
//   edges_test --write tests/sim/edges.txt    writes the table anew
//
// Any change to what runs in a simulation may move the seeds, so a row that names another seed than
// the one found is not a failure; an edge that no seed catches is. Last line: N passed, N failed.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>

#include "tests/sim/run.h"

namespace {

using namespace peal::sim;

constexpr uint64_t kMostSeeds = 20000;

struct Row {
  uint64_t seed = 0;  // 0: none catches it
  std::string failure;
};

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

Result with(const EdgeName& edge, uint64_t seed) {
  return run_once(*find_workload(edge.workload), seed, static_cast<unsigned>(edge.edge));
}

/// The first seed, beginning with `known`, that notices.
Row search(const EdgeName& edge, uint64_t known) {
  for (uint64_t i = known == 0 ? 1 : 0; i <= kMostSeeds; ++i) {
    const uint64_t seed = i == 0 ? known : i;
    const Result result = with(edge, seed);
    if (!result.failure.empty()) return {seed, first_line(result.failure)};
  }
  return {};
}

/// Seeds by edge: the second column of a table whose first is the edge.
std::map<std::string, uint64_t> read_table(const char* file) {
  std::map<std::string, uint64_t> seeds;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const size_t bar = line.find(" | ");
    if (line.starts_with("#") || bar == std::string::npos) continue;
    std::string name = line.substr(0, bar);
    name.erase(name.find_last_not_of(' ') + 1);
    seeds[name] = std::strtoull(line.c_str() + bar + 3, nullptr, 10);
  }
  return seeds;
}

void print_row(std::ostream& out, const EdgeName& edge, const Row& row) {
  char head[64];
  std::snprintf(head, sizeof head, "%-10s | %4llu | %-17s", edge.name,
                static_cast<unsigned long long>(row.seed), edge.workload);
  out << head << " | " << edge.weakened << " | " << row.failure << "\n";
}

const char* check(const EdgeName& edge, const Row& row) {
  if (row.seed == 0) return "no seed notices that this edge is gone";
  const Result whole = run_once(*find_workload(edge.workload), row.seed);
  if (!whole.failure.empty()) return "the same seed fails with the edge in place";
  const Result again = with(edge, row.seed);
  if (first_line(again.failure) != row.failure) return "the seed does not replay";
  return nullptr;
}

}  // namespace

int main(int count, char** arguments) {
  const bool writes = count == 3 && std::strcmp(arguments[1], "--write") == 0;
  if (count != 2 && !writes) {
    std::fprintf(stderr, "edges_test: [--write] TABLE\n");
    return 2;
  }
  const char* const file = arguments[count - 1];
  std::map<std::string, uint64_t> seeds;
  if (!writes) seeds = read_table(file);
  std::ostringstream table;
  table << "# edge | seed | workload | what is weakened | how it failed; written by edges_test "
           "--write\n";
  int passed = 0;
  int failed = 0;
  for (const EdgeName& edge : edges()) {
    const bool listed = writes || seeds.contains(edge.name);
    const Row row = search(edge, seeds[edge.name]);
    print_row(table, edge, row);
    const char* const wrong = listed ? check(edge, row) : "it is not in the table";
    if (wrong != nullptr) std::printf("FAILED %s: %s\n", edge.name, wrong);
    ++(wrong == nullptr ? passed : failed);
  }
  std::cout << table.str();
  if (writes) std::ofstream(file) << table.str();
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 && passed == static_cast<int>(edges().size()) ? 0 : 1;
}
