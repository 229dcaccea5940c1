// SPDX-License-Identifier: Apache-2.0
//
// A step of a collective call that fails on some PEs. Hazard: a PE that throws by itself leaves the
// others in the next exchange until its deadline.
#include "host/job/together.h"

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "bootstrap/bootstraps.h"
#include "host/base/error.h"

namespace peal {
namespace {

constexpr int kPes = 3;

/// What each PE throws; afterwards the group is as good as before.
std::vector<std::string> errors_of(const std::function<void(Bootstrap&)>& body) {
  std::vector<std::string> errors(kPes, "no error");
  bootstrap::run_threads(kPes, [&](Bootstrap& group) {
    try {
      body(group);
    } catch (const Error& error) {
      errors[static_cast<size_t>(group.rank())] =
          fmt::format("{}: {}", to_string(error.code()), error.what());
    }
    EXPECT_EQ(gather(group, group.rank()), (std::vector<int>{0, 1, 2}));
  });
  return errors;
}
std::vector<std::string> all(const std::string& text) { return {kPes, text}; }

TEST(Together, AnswersWhatEachStepAnswers) {
  EXPECT_EQ(
      errors_of([](Bootstrap& group) {
        const int me = group.rank();
        EXPECT_EQ(together(group, [&] { return std::to_string(me); }), std::to_string(me));
        together(group, [] {});
        EXPECT_EQ(gather_together(group, [&] { return me * 7; }), (std::vector<int>{0, 7, 14}));
      }),
      all("no error"));
}

TEST(Together, ThrowsTheErrorOfOnePeOnAll) {
  const auto body = [](Bootstrap& group) {
    together(group, [&] {
      if (group.rank() == 1) fail(ErrorCode::kOutOfMemory, "no room");
    });
  };
  EXPECT_EQ(errors_of(body), all("out of memory: PE 1: no room"));
}

TEST(Together, ThrowsItWhereAnswersAreGathered) {
  const auto body = [](Bootstrap& group) {
    gather_together(group, [&] {
      if (group.rank() == 2) throw std::runtime_error("of another library");
      return 1;
    });
  };
  EXPECT_EQ(errors_of(body), all("system: PE 2: of another library"));
}

TEST(Together, TellsTheFirstOfSeveralAndCountsThem) {
  const auto body = [](Bootstrap& group) {
    together(group, [&] {
      if (group.rank() != 0) fail(ErrorCode::kUnsupported, "not by PE {}", group.rank());
    });
  };
  EXPECT_EQ(errors_of(body), all("unsupported: PE 1: not by PE 1 (2 of 3 PEs failed)"));
}

TEST(Together, NamesNobodyWhereAllSayTheSame) {
  const auto body = [](Bootstrap& group) {
    together(group, [&] { fail(ErrorCode::kConfiguration, "no such NIC"); });
  };
  EXPECT_EQ(errors_of(body), all("configuration: no such NIC"));
}

TEST(Together, TellsTheFailureNearestToTheCause) {
  const auto body = [](Bootstrap& group) {
    const int me = group.rank();
    throw_if_any_failed(
        group, StepFailure{Error(ErrorCode::kSystem, fmt::format("seen by {}", me)), 4 - me});
  };
  EXPECT_EQ(errors_of(body), all("system: PE 2: seen by 2 (3 of 3 PEs failed)"));
}

}  // namespace
}  // namespace peal
