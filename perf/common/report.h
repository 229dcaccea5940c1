// SPDX-License-Identifier: Apache-2.0
//
// What a run found out, for people (OSU style) or for programs (one JSON object a row). PE 0 alone
// prints.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "perf/common/options.h"

namespace peal::perf {

/// What one PE measured at one size. Plain data: it travels to PE 0 by a put.
struct Record {
  uint64_t operations = 0;  // that this PE initiated while the clock ran
  uint64_t verified = 0;    // operations whose data this PE checked, warm-up included
  uint64_t errors = 0;      // of those, how many left something wrong
  double seconds = 0;       // the clock, where this PE initiated
  double usec_min = 0;      // of one operation, where latency was measured
  double usec_median = 0;
  double usec_p99 = 0;
};

/// Where and how a program ran.
struct Setting {
  std::string program;  // "message_rate"
  Options options;
  int pes = 1;
  int pairs = 1;
  uint32_t queues = 0;  // per peer
  std::string transport;
  std::string nic;
};

enum class Metric { kMessageRate, kBandwidth, kLatency };

/// Prints nothing unless `speaks` (PE 0).
class Report {
 public:
  Report(Setting setting, Metric metric, bool speaks);

  /// A size is done; `all` holds the records of all PEs (on PE 0, elsewhere it is not looked at).
  void row(uint64_t bytes, uint64_t iterations, const std::vector<Record>& all);

  /// From time to time while a size takes long, on stderr.
  void progress(uint64_t bytes, uint64_t done, uint64_t all);

  /// The closing line of the table. True if nothing was found wrong.
  bool finish() const;

 private:
  std::string json_row(uint64_t bytes, uint64_t iterations, const Record& total) const;
  std::string table_row(uint64_t bytes, const Record& total) const;

  Setting setting_;
  Metric metric_;
  bool speaks_;
  uint64_t verified_ = 0;
  uint64_t errors_ = 0;
  std::chrono::steady_clock::time_point last_progress_;
};

}  // namespace peal::perf
