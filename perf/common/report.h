// SPDX-License-Identifier: Apache-2.0
//
// What a run found out, for people (OSU style), as one JSON object a row, or as comma-separated
// values. PE 0 alone prints.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "device/status.h"
#include "perf/common/options.h"
#include "perf/common/provenance.h"

namespace peal::perf {

/// What one PE measured of one case. Plain data: PE 0 gets it.
struct Record {
  uint64_t operations = 0;      // that this PE initiated while the clock ran
  uint64_t verified = 0;        // operations whose data this PE checked, warm-up included
  uint64_t errors = 0;          // wrong words, wrong answers and failed calls
  Status status = Status::kOk;  // of the first call that failed
  double seconds = 0;           // the clock, where this PE initiated
  double usec_min = 0;          // of one operation, where latency was measured
  double usec_median = 0;
  double usec_p99 = 0;
  double usec_p99_9 = 0;
};

/// Where and how a program or a side of the comparison ran.
struct Setting {
  std::string program;  // "message_rate", "peal"
  int pes = 1;
  int pairs = 1;
  uint32_t queues = 0;  // per peer
  std::string transport;
  std::string nic;
  Provenance provenance{};
};

/// Smallest, middle and largest of several numbers. Of an even count the upper of the two in the
/// middle is taken.
struct Spread {
  double min = 0;
  double median = 0;
  double max = 0;
};

/// All PEs and all repeats of one size.
struct Summary {
  Record median{};  // the repeat whose figure is the median; what was checked and wrong in all
  Spread figure{};  // of the repeats: what the program is about (kFigures)
  size_t repeats = 0;
};

/// The fields of the rows that tell what a program is about, by Metric.
inline constexpr const char* kFigures[] = {"mops", "gbytes_per_s", "usec_median", "usec"};

/// What the bandwidth of a collective call is counted by, as in NCCL's benchmarks. `bytes` is the
/// size of the larger of source and result. `bytes` times `bus_factor` is what the slowest PE's
/// link moves at least, so that figures of different calls and numbers of PEs compare with the
/// link's.
struct Traffic {
  double bytes = 0;
  double bus_factor = 0;
};
Traffic traffic_of(const Case& c, int pes);

/// `repeats` holds for each repeat the records of all PEs.
Summary summary_of(Metric metric, uint64_t bytes, const std::vector<std::vector<Record>>& repeats);

/// A field of comma-separated values: in quotes where it needs them (RFC 4180).
std::string csv_field(const std::string& text);

/// Prints nothing unless `speaks` (PE 0).
class Report {
 public:
  Report(Setting setting, const BenchmarkOptions& options, Metric metric, bool speaks);

  /// A size is done; `repeats` is what summary_of() takes, on PE 0 (elsewhere it is not looked at).
  void row(const Case& c, const std::vector<std::vector<Record>>& repeats);

  /// From time to time while a size takes long, on stderr.
  void progress(uint64_t bytes, uint64_t done, uint64_t all);

  /// The closing line of the table. True if nothing was found wrong.
  bool finish() const;

 private:
  std::string table_row(const Case& c, const Summary& summary) const;
  void print_row(const Case& c, const Summary& summary);

  Setting setting_;
  BenchmarkOptions options_;
  Metric metric_;
  bool speaks_;
  uint64_t verified_ = 0;
  uint64_t errors_ = 0;
  bool headed_ = false;  // the names of the values are printed
  std::chrono::steady_clock::time_point last_progress_;
};

/// On stderr, which PEs' calls failed and why. The number of errors.
uint64_t print_failures(const Case& c, const std::vector<Record>& all);

/// A row of the comparison: what one variant of a side needs for one iteration, by repetition.
void print_compared(const Setting& side, const char* variant, const Case& c,
                    std::vector<double> usec, uint64_t errors);
/// How fine its clock is.
void print_clock(const Setting& side, uint64_t step_ns);

}  // namespace peal::perf
