// SPDX-License-Identifier: Apache-2.0
//
// Rows of a table, rows of JSON.
#include "perf/common/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

namespace peal::perf {
namespace {

using Json = nlohmann::ordered_json;

// All PEs as one: counts add up, the slowest pair's clock is the clock, and its latency the
// latency.
Record sum(const std::vector<Record>& all) {
  Record total;
  for (const Record& one : all) {
    total.operations += one.operations;
    total.verified += one.verified;
    total.errors += one.errors;
    total.seconds = std::max(total.seconds, one.seconds);
    if (one.usec_median > total.usec_median) {
      total.usec_min = one.usec_min;
      total.usec_median = one.usec_median;
      total.usec_p99 = one.usec_p99;
    }
  }
  return total;
}

double per_second(uint64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

std::string plural(uint64_t n, const char* noun) {
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

std::string header(const Setting& s, const Options& o) {
  std::string title = s.program;
  std::ranges::replace(title, '_', ' ');
  return fmt::format(
      "# peal {}: {}, {} ({}), {} scope, {} x {}, {} per peer\n# transport {}, nic {}\n", title,
      o.what.name, plural(static_cast<uint64_t>(s.pes), "PE"),
      plural(static_cast<uint64_t>(s.pairs), "pair"), to_string(o.scope), plural(o.blocks, "block"),
      plural(o.threads, "thread"), plural(s.queues, "queue"), s.transport, s.nic);
}

/// By Metric.
constexpr const char* kColumns[] = {
    "# Size        Messages/s  Messages/s per pair          MB/s  Operations    Errors\n",
    "# Size              GB/s        GB/s per pair    Messages/s  Operations    Errors\n",
    "# Size       Latency (us)             Min (us)      p99 (us)  Operations    Errors\n"};

Json what_and_where(const Setting& s, const Case& c) {
  return {{"op", c.what.name},     {"scope", to_string(c.scope)}, {"bytes", c.bytes},
          {"blocks", c.blocks},    {"threads", c.threads},        {"pes", s.pes},
          {"iters", c.iterations}, {"transport", s.transport},    {"nic", s.nic}};
}

double rounded(double value) { return std::round(value * 1e5) / 1e5; }

void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace

Report::Report(Setting setting, const Options& options, Metric metric, bool speaks)
    : setting_(std::move(setting)),
      options_(options),
      metric_(metric),
      speaks_(speaks),
      last_progress_(std::chrono::steady_clock::now()) {
  if (speaks_ && !options_.json)
    print(header(setting_, options_) + kColumns[static_cast<size_t>(metric_)]);
}

std::string Report::table_row(const Case& c, const Record& total) const {
  const double rate = per_second(total.operations, total.seconds);
  const double mbytes = rate * static_cast<double>(c.bytes) / 1e6;
  const int pairs = setting_.pairs;
  const auto row = [&](int digits, double first, double second, double third) {
    return fmt::format("{:<8} {:>15.{}f} {:>20.{}f} {:>13.2f} {:>11} {:>9}\n", c.bytes, first,
                       digits, second, digits, third, total.operations, total.errors);
  };
  if (metric_ == Metric::kMessageRate) return row(2, rate, rate / pairs, mbytes);
  if (metric_ == Metric::kBandwidth) return row(3, mbytes / 1e3, mbytes / 1e3 / pairs, rate);
  return row(2, total.usec_median, total.usec_min, total.usec_p99);
}

std::string Report::json_row(const Case& c, const Record& total) const {
  const double rate = per_second(total.operations, total.seconds);
  const double bytes_rate = rate * static_cast<double>(c.bytes);
  Json row{{"benchmark", setting_.program}};
  row.update(what_and_where(setting_, c));
  row.update({{"pairs", setting_.pairs},
              {"qps", setting_.queues},
              {"operations", total.operations},
              {"seconds", total.seconds},
              {"mops", rate / 1e6},
              {"gbytes_per_s", bytes_rate / 1e9},
              {"gbps", bytes_rate * 8 / 1e9}});
  if (metric_ == Metric::kLatency) {
    row["usec"] = total.usec_median;
    row["usec_min"] = total.usec_min;
    row["usec_p99"] = total.usec_p99;
  }
  row["checked"] = total.verified;
  row["errors"] = total.errors;
  row["verified"] = total.errors == 0 && total.verified != 0;
  return row.dump() + "\n";
}

void Report::row(const Case& c, const std::vector<Record>& all) {
  if (!speaks_) return;
  const Record total = sum(all);
  verified_ += total.verified;
  errors_ += print_failures(c, all);
  print(options_.json ? json_row(c, total) : table_row(c, total));
}

void Report::progress(uint64_t bytes, uint64_t done, uint64_t all) {
  const auto now = std::chrono::steady_clock::now();
  if (!speaks_ || done == all || now - last_progress_ < std::chrono::seconds(3)) return;
  last_progress_ = now;
  fmt::print(stderr, "# {} bytes: {} % done\n", bytes, 100 * done / all);
}

bool Report::finish() const {
  if (!speaks_) return true;
  if (!options_.json) {
    print(fmt::format("verified: {} operations, {} errors\n", verified_, errors_));
  }
  if (errors_ != 0)
    fmt::print(stderr, "peal: {} errors: operations failed or left wrong data\n", errors_);
  return errors_ == 0 && verified_ != 0;
}

uint64_t print_failures(const Case& c, const std::vector<Record>& all) {
  uint64_t errors = 0;
  for (size_t pe = 0; pe < all.size(); ++pe) {
    errors += all[pe].errors;
    if (all[pe].status == Status::kOk) continue;
    fmt::print(stderr, "peal: PE {}: {} of {} bytes failed: {}\n", pe, c.what.name, c.bytes,
               to_string(all[pe].status));
  }
  return errors;
}

void print_compared(const Setting& side, const char* variant, const Case& c,
                    std::vector<double> usec, uint64_t errors) {
  std::ranges::sort(usec);
  const double median = usec[usec.size() / 2];
  Json row{{"side", side.program}, {"variant", variant}};
  row.update(what_and_where(side, c));
  row.update({{"repeats", usec.size()},
              {"usec", rounded(median)},
              {"usec_min", rounded(usec.front())},
              {"usec_max", rounded(usec.back())},
              {"errors", errors}});
  // Bytes a second mean something of transfers, operations a second of atomics.
  if (c.streams() && c.moves_data()) {
    row["gbps"] = rounded(per_second(c.bytes, median) * 1e-3);
  } else if (c.streams()) {
    row["mops"] = rounded(per_second(c.agents(), median));
  }
  print(row.dump() + "\n");
}

void print_clock(const Setting& side, uint64_t step_ns) {
  print(Json{{"side", side.program}, {"op", "clock"}, {"step_ns", step_ns}}.dump() + "\n");
}

}  // namespace peal::perf
