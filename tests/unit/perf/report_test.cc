// SPDX-License-Identifier: Apache-2.0
//
// What rows are made of: the repeat that counts, the spread of all, quoted values, the machine's
// name.
#include "perf/common/report.h"

#include <gtest/gtest.h>

#include <regex>
#include <sstream>
#include <vector>

namespace peal::perf {
namespace {

Record rate(uint64_t operations, double seconds) {
  return {.operations = operations, .verified = operations, .seconds = seconds};
}

TEST(Summary, IsTheMedianRepeatsWithTheSpreadOfAll) {
  const Summary summary = summary_of(
      Metric::kMessageRate, 8, {{rate(9'000'000, 1)}, {rate(2'000'000, 1)}, {rate(4'000'000, 1)}});
  EXPECT_EQ(summary.repeats, 3u);
  EXPECT_EQ(summary.median.operations, 4'000'000u);
  EXPECT_EQ(summary.figure.min, 2);
  EXPECT_EQ(summary.figure.median, 4);
  EXPECT_EQ(summary.figure.max, 9);
  EXPECT_EQ(summary.median.verified, 15'000'000u) << "of all repeats";
}

TEST(Summary, CountsErrorsOfRepeatsThatAreNotShown) {
  Record wrong = rate(1, 1);
  wrong.errors = 3;
  EXPECT_EQ(summary_of(Metric::kBandwidth, 8, {{wrong}, {rate(5, 1)}, {rate(9, 1)}}).median.errors,
            3u);
}

TEST(Summary, AddsUpPEsAndTakesTheSlowestClock) {
  const Summary summary =
      summary_of(Metric::kBandwidth, 1000, {{rate(1'000'000, 0.5), rate(3'000'000, 2)}});
  EXPECT_EQ(summary.figure.median, 2) << "GB/s: 4 million of 1000 bytes in 2 s";
}

TEST(Summary, OfLatencyIsTheSlowestPairsWithItsTails) {
  const Record fast{.usec_min = 1, .usec_median = 2, .usec_p99 = 3, .usec_p99_9 = 90};
  const Record slow{.usec_min = 2, .usec_median = 4, .usec_p99 = 5, .usec_p99_9 = 6};
  const Summary summary = summary_of(Metric::kLatency, 8, {{fast, slow}});
  EXPECT_EQ(summary.figure.median, 4);
  EXPECT_EQ(summary.median.usec_p99_9, 6);
}

TEST(Summary, OfNothingIsNothing) { EXPECT_EQ(summary_of(Metric::kLatency, 8, {}).repeats, 0u); }

TEST(Traffic, IsCountedAsNcclsBenchmarksDo) {
  const auto of = [](Op op) {
    return traffic_of({.what = {"", op, CallWay::kTogether},
                       .scope = {},
                       .blocks = 1,
                       .threads = 1,
                       .bytes = 100,
                       .iterations = 1},
                      4);
  };
  EXPECT_EQ(of(Op::kAllReduce).bytes, 100);
  EXPECT_EQ(of(Op::kAllReduce).bus_factor, 1.5);
  EXPECT_EQ(of(Op::kAllGather).bytes, 400);
  EXPECT_EQ(of(Op::kAllGather).bus_factor, 0.75);
  EXPECT_EQ(of(Op::kAllToAll).bytes, 400);
  EXPECT_EQ(of(Op::kBroadcast).bus_factor, 1);
}

TEST(CsvField, IsQuotedWhereAReaderWouldSplitIt) {
  EXPECT_EQ(csv_field("put"), "put");
  EXPECT_EQ(csv_field(""), "");
  EXPECT_EQ(csv_field("AMD, 2 cores"), "\"AMD, 2 cores\"");
  EXPECT_EQ(csv_field("a \"b\""), "\"a \"\"b\"\"\"");
  EXPECT_EQ(csv_field("a\nb"), "\"a\nb\"");
}

TEST(CpuModel, IsWhatTheArchitectureCallsIt) {
  const auto of = [](const char* text) {
    std::istringstream cpuinfo(text);
    return cpu_model(cpuinfo);
  };
  EXPECT_EQ(of("processor\t: 0\nmodel name\t: AMD EPYC 7B13\nmodel name\t: other\n"),
            "AMD EPYC 7B13");
  EXPECT_EQ(of("processor : 0\ncpu\t\t: POWER9\n"), "POWER9");
  EXPECT_EQ(of("no colon\nmodel name\t:\n: x\n"), "");
  EXPECT_EQ(of(""), "");
}

TEST(Provenance, IsDatedInUTC) {
  const Provenance run = provenance_of_run(false, -1);
  EXPECT_TRUE(std::regex_match(run.date, std::regex(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)")))
      << run.date;
  EXPECT_TRUE(std::regex_match(run.version, std::regex(R"(\d+\.\d+\.\d+)"))) << run.version;
  EXPECT_FALSE(run.host.empty());
  EXPECT_EQ(run.gpu, "");
}

}  // namespace
}  // namespace peal::perf
