// SPDX-License-Identifier: Apache-2.0
//
// PEs of different builds of peal: hazard: they read each other's bytes as their own types, and the
// job ended somewhere with an error that named neither.
#include "host/job/same_build.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/bootstraps.h"
#include "tests/support/error_of.h"

namespace peal {
namespace {

Build build_of(std::string_view identity, std::string_view host) {
  Build one;
  identity.copy(one.identity.data(), one.identity.size());
  host.copy(one.host.data(), one.host.size());
  return one;
}

// What each PE is told.
std::vector<Error> refusals(const std::vector<Build>& builds) {
  std::vector<Error> errors(builds.size(), Error(ErrorCode::kInternal, "none"));
  bootstrap::run_threads(static_cast<int>(builds.size()), [&](Bootstrap& group) {
    const auto pe = static_cast<size_t>(group.rank());
    errors[pe] = error_of([&] { require_same_build(group, builds[pe]); });
  });
  return errors;
}

TEST(SameBuild, TellsVersionProtocolAndMachine) {
  const Build here = Build::here();
  const std::string identity = here.identity.data();
  EXPECT_EQ(identity.substr(0, 5), "peal ");
  EXPECT_EQ(std::ranges::count(identity, ','), 4) << identity;
  expect_in(identity, {".", ", protocol " + std::to_string(kProtocol) + ", ",
                       std::to_string(8 * sizeof(void*)) + " bits", " endian"});
  EXPECT_NE(here.host[0], '\0');
  EXPECT_EQ(here.identity, Build::here().identity);
}

TEST(SameBuild, GoesOnWhereAllHaveOne) {
  bootstrap::run_threads(3, [](Bootstrap& group) {
    require_same_build(group);
    // The host does not matter, and is known from then on.
    const std::string mine = "node" + std::to_string(group.rank());
    EXPECT_EQ(require_same_build(group, build_of("peal 1", mine)),
              (std::vector<std::string>{"node0", "node1", "node2"}));
  });
}

TEST(SameBuild, RefusesTwoWithBothNamedOnAllPes) {
  const std::string of_first = "peal 0.1.0, protocol 1, x86_64, 64 bits, little endian";
  const std::string of_other = "peal 0.1.0, protocol 7, aarch64, 64 bits, little endian";
  const Build first = build_of(of_first, "node1");
  for (const Error& error : refusals({first, first, build_of(of_other, "node2")})) {
    EXPECT_EQ(error.code(), ErrorCode::kConfiguration);
    expect_in(error.what(), {"PE 2 on node2 runs " + of_other, "PE 0 on node1 runs " + of_first,
                             "install one build of peal on all hosts"});
  }
}

// The one that differs may be PE 0: how many there are tells it.
TEST(SameBuild, CountsThoseThatDiffer) {
  const Build other = build_of("peal 2", "node2");
  for (const Error& error : refusals({build_of("peal 1", "node1"), other, other})) {
    expect_in(error.what(), {"PE 1 on node2 runs peal 2", "2 of 3 PEs have another than PE 0"});
  }
}

TEST(SameBuild, ShowsNothingThatCannotBePrinted) {
  const std::string odd = "peal \x1b[2J\xff" + std::string(200, 'x');
  for (const Error& error : refusals({build_of("peal 1", "node1"), build_of(odd, odd)})) {
    const std::string text = error.what();
    expect_in(text, {"peal ?[2J?xxx"});
    EXPECT_TRUE(std::ranges::all_of(text, [](char letter) { return letter >= ' '; })) << text;
  }
}

}  // namespace
}  // namespace peal
