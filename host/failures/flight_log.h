// SPDX-License-Identifier: Apache-2.0
//
// What becomes of the flight recorder's rings: lines behind a failure and in dump(), counters, a
// file for peal-trace.
#pragma once

#include <string>
#include <vector>

#include "host/base/config.h"
#include "host/contexts/context_owner.h"
#include "host/contexts/recorder.h"
#include "host/failures/counters.h"
#include "host/failures/trace.h"
#include "host/job/live_group.h"

namespace peal {

/// Thread-safe where the recorder is. All of it says nothing while the recorder is off.
class FlightLog {
 public:
  struct Dependencies {
    const Config& config;
    const LiveGroup& group;
    const ContextTable& table;
    const Recorder& recorder;
    PlaceOf place_of;
    const std::byte* heap;
    uint64_t heap_bytes;
    bool on_gpu;
  };

  /// Writes a first file, without calls. Throws kConfiguration where PEAL_RECORD_FILE does not fit
  /// the job, kSystem where it cannot be written.
  explicit FlightLog(Dependencies dependencies);

  /// The last calls of one context by its slot, or of all (-1), as lines.
  std::string last_calls(int context) const;
  /// The counters of all contexts there are, and of dropped ones whose slot nobody took.
  std::vector<Counters> counters() const;
  std::string describe_counters() const;
  /// Replaces the file, if one was asked for. Throws kSystem.
  void write() const;

 private:
  void check_settings() const;
  std::string clock() const;

  Dependencies dependencies_;
  std::string path_;  // "": no file
};

}  // namespace peal
