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
      total.usec_p99_9 = one.usec_p99_9;
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

std::string shape_of(const Setting& s, const BenchmarkOptions& o, Metric metric) {
  std::string text = plural(static_cast<uint64_t>(s.pes), "PE");
  const bool paired = metric != Metric::kCollective;
  if (paired) text += fmt::format(" ({})", plural(static_cast<uint64_t>(s.pairs), "pair"));
  text += fmt::format(", {} scope", to_string(o.scope));
  if (o.blocks != 0) {
    text += fmt::format(", {} x {}", plural(o.blocks, "block"), plural(o.threads, "thread"));
  }
  return text + fmt::format(", {} per peer", plural(s.queues, "queue"));
}

std::string header(const Setting& s, const BenchmarkOptions& o, Metric metric) {
  std::string title = s.program;
  std::ranges::replace(title, '_', ' ');
  const Provenance& run = s.provenance;
  return fmt::format("# peal {}: {}{}, {}\n# transport {}, nic {}\n# peal {} on {} ({}{}{}), {}\n",
                     title, o.what.name, o.both_ways ? " both ways" : "", shape_of(s, o, metric),
                     s.transport, s.nic, run.version, run.host, run.cpu,
                     run.gpu.empty() ? "" : ", ", run.gpu, run.date);
}

/// By Metric.
constexpr const char* kColumns[] = {
    "# Size        Messages/s  Messages/s per pair          MB/s",
    "# Size              GB/s        GB/s per pair    Messages/s",
    "# Size       Median (us)             Min (us)      p99 (us)    p99.9 (us)",
    "# Size         Time (us)             alg GB/s      bus GB/s"};
constexpr const char* kSpreadColumns = "   Min of repeats   Max of repeats";
constexpr const char* kLastColumns = "  Operations    Errors\n";

Json what_and_where(const Setting& s, const Case& c) {
  return {{"op", c.what.name},     {"scope", to_string(c.scope)}, {"bytes", c.bytes},
          {"blocks", c.blocks},    {"threads", c.threads},        {"pes", s.pes},
          {"iters", c.iterations}, {"transport", s.transport},    {"nic", s.nic}};
}

double usec_of(const Record& r) {
  return r.operations == 0 ? 0 : r.seconds / static_cast<double>(r.operations) * 1e6;
}

double figure_of(Metric metric, uint64_t bytes, const Record& r) {
  if (metric == Metric::kCollective) return usec_of(r);
  if (metric == Metric::kLatency) return r.usec_median;
  const double rate = per_second(r.operations, r.seconds);
  return metric == Metric::kBandwidth ? rate * static_cast<double>(bytes) / 1e9 : rate / 1e6;
}

Json rates_of_pairs(const Setting& s, const Case& c, const Record& r) {
  const double rate = per_second(r.operations, r.seconds);
  const double bytes_rate = rate * static_cast<double>(c.bytes);
  return {{"pairs", s.pairs},
          {"bidirectional", c.both_ways},
          {"mops", rate / 1e6},
          {"gbytes_per_s", bytes_rate / 1e9},
          {"gbps", bytes_rate * 8 / 1e9}};
}

Json latencies(const Record& r) {
  return {{"usec", r.usec_median},  // as rows of the comparison call it
          {"usec_min", r.usec_min},
          {"usec_median", r.usec_median},
          {"usec_p99", r.usec_p99},
          {"usec_p99_9", r.usec_p99_9}};
}

Json rates_of_all(const Setting& s, const Case& c, const Record& r) {
  const Traffic traffic = traffic_of(c, s.pes);
  const double gbytes = per_second(r.operations, r.seconds) * traffic.bytes / 1e9;
  return {{"usec", usec_of(r)},
          {"algbw_gbytes_per_s", gbytes},
          {"busbw_gbytes_per_s", gbytes * traffic.bus_factor}};
}

Json row_of(const Setting& s, Metric metric, const Case& c, const Summary& summary) {
  const Record& r = summary.median;
  Json row{{"benchmark", s.program}};
  row.update(what_and_where(s, c));
  row.update({{"qps", s.queues}, {"operations", r.operations}, {"seconds", r.seconds}});
  row.update(metric == Metric::kCollective ? rates_of_all(s, c, r) : rates_of_pairs(s, c, r));
  if (metric == Metric::kLatency) row.update(latencies(r));
  const std::string figure = kFigures[static_cast<size_t>(metric)];
  row.update({{"repeats", summary.repeats},
              {figure + "_repeats_min", summary.figure.min},
              {figure + "_repeats_median", summary.figure.median},
              {figure + "_repeats_max", summary.figure.max},
              {"checked", r.verified},
              {"errors", r.errors},
              {"verified", r.errors == 0 && r.verified != 0}});
  row.update({{"date", s.provenance.date},
              {"version", s.provenance.version},
              {"host", s.provenance.host},
              {"cpu", s.provenance.cpu},
              {"gpu", s.provenance.gpu}});
  return row;
}

// Names of hosts and models may be no UTF-8.
std::string text_of(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string csv_names(const Json& row) {
  std::string line;
  for (const auto& [name, value] : row.items()) line += (line.empty() ? "" : ",") + name;
  return line + "\n";
}

std::string csv_values(const Json& row) {
  std::string line;
  for (const auto& [name, value] : row.items()) {
    if (&value != &row.front()) line += ',';
    line += value.is_string() ? csv_field(value.get<std::string>()) : text_of(value);
  }
  return line + "\n";
}

double rounded(double value) { return std::round(value * 1e5) / 1e5; }

void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace

Summary summary_of(Metric metric, uint64_t bytes, const std::vector<std::vector<Record>>& repeats) {
  std::vector<Record> totals;
  uint64_t verified = 0;
  uint64_t errors = 0;
  for (const std::vector<Record>& all : repeats) {
    totals.push_back(sum(all));
    verified += totals.back().verified;
    errors += totals.back().errors;
  }
  const auto figure = [&](const Record& total) { return figure_of(metric, bytes, total); };
  std::ranges::sort(totals, {}, figure);
  Summary summary{.repeats = totals.size()};
  if (totals.empty()) return summary;
  summary.median = totals[totals.size() / 2];
  summary.figure = {figure(totals.front()), figure(summary.median), figure(totals.back())};
  summary.median.verified = verified;
  summary.median.errors = errors;
  return summary;
}

Traffic traffic_of(const Case& c, int pes) {
  const double n = pes;
  const auto bytes = static_cast<double>(c.bytes);
  if (c.what.op == Op::kAllReduce) return {bytes, 2 * (n - 1) / n};
  if (c.what.op == Op::kAllGather || c.what.op == Op::kAllToAll) return {bytes * n, (n - 1) / n};
  return {bytes, 1};
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == text.npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

Report::Report(Setting setting, const BenchmarkOptions& options, Metric metric, bool speaks)
    : setting_(std::move(setting)),
      options_(options),
      metric_(metric),
      speaks_(speaks),
      last_progress_(std::chrono::steady_clock::now()) {
  if (!speaks_ || options_.form != Form::kTable) return;
  print(header(setting_, options_, metric) + kColumns[static_cast<size_t>(metric_)] +
        (options_.repeats > 1 ? kSpreadColumns : "") + kLastColumns);
}

std::string Report::table_row(const Case& c, const Summary& summary) const {
  const Record& r = summary.median;
  const double rate = per_second(r.operations, r.seconds);
  const double mbytes = rate * static_cast<double>(c.bytes) / 1e6;
  const int pairs = setting_.pairs;
  const int digits = metric_ == Metric::kBandwidth ? 3 : 2;
  const auto row = [&](double first, double second, double third) {
    return fmt::format("{:<8} {:>15.{}f} {:>20.{}f} {:>13.2f}", c.bytes, first, digits, second,
                       digits, third);
  };
  std::string line;
  if (metric_ == Metric::kMessageRate) line = row(rate, rate / pairs, mbytes);
  if (metric_ == Metric::kBandwidth) line = row(mbytes / 1e3, mbytes / 1e3 / pairs, rate);
  if (metric_ == Metric::kLatency) {
    line = row(r.usec_median, r.usec_min, r.usec_p99) + fmt::format(" {:>13.2f}", r.usec_p99_9);
  }
  if (metric_ == Metric::kCollective) {
    const Traffic traffic = traffic_of(c, setting_.pes);
    const double gbytes = rate * traffic.bytes / 1e9;
    line = fmt::format("{:<8} {:>15.2f} {:>20.3f} {:>13.3f}", c.bytes, usec_of(r), gbytes,
                       gbytes * traffic.bus_factor);
  }
  if (summary.repeats > 1) {
    const double unit = metric_ == Metric::kMessageRate ? 1e6 : 1;  // as the column of the figure
    line += fmt::format(" {:>16.{}f} {:>16.{}f}", summary.figure.min * unit, digits,
                        summary.figure.max * unit, digits);
  }
  return line + fmt::format(" {:>11} {:>9}\n", r.operations, r.errors);
}

void Report::print_row(const Case& c, const Summary& summary) {
  if (options_.form == Form::kTable) return print(table_row(c, summary));
  const Json row = row_of(setting_, metric_, c, summary);
  if (options_.form == Form::kJson) return print(text_of(row) + "\n");
  print((headed_ ? "" : csv_names(row)) + csv_values(row));
  headed_ = true;
}

void Report::row(const Case& c, const std::vector<std::vector<Record>>& repeats) {
  if (!speaks_) return;
  for (const std::vector<Record>& all : repeats) errors_ += print_failures(c, all);
  const Summary summary = summary_of(metric_, c.bytes, repeats);
  verified_ += summary.median.verified;
  print_row(c, summary);
}

void Report::progress(uint64_t bytes, uint64_t done, uint64_t all) {
  const auto now = std::chrono::steady_clock::now();
  if (!speaks_ || done == all || now - last_progress_ < std::chrono::seconds(3)) return;
  last_progress_ = now;
  fmt::print(stderr, "# {} bytes: {} % done\n", bytes, 100 * done / all);
}

bool Report::finish() const {
  if (!speaks_) return true;
  if (options_.form == Form::kTable) {
    const char* const what = metric_ == Metric::kCollective ? "elements" : "operations";
    print(fmt::format("verified: {} {}, {} errors\n", verified_, what, errors_));
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
