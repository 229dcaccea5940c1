// SPDX-License-Identifier: Apache-2.0
//
// Who makes an access, in words that other PEs can read: a lane, its kernel and the line of the
// kernel, numbered in the segment. The text of a line is looked up once, on a thread of its own: a
// lane's stack is too small for it.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>

#include "device/shared/call_note.h"
#include "device/shared/wait_record.h"
#include "host/check/segment.h"

namespace peal::checking {

/// What an access belongs to: a Call, one that returns before it is done (+ kStarts), a plain load
/// or store of a kernel, or free().
enum class AccessKind : uint32_t { kStarts = 64, kPlainLoad = 128, kPlainStore, kFree };

/// What the call of a note is.
AccessKind operation_of(const CallNote& note);
/// "put", "put_nbi", "a plain store", ...
std::string name_of(AccessKind operation);

/// The sites of one PE. Thread-safe; lanes may call.
class Sites {
 public:
  explicit Sites(const Segment& segment);

  /// The number of what the caller's lane does at `place` (simt/lanes/place.h; 0: where it is now).
  uint16_t here(AccessKind operation, uint64_t place);

  /// "kernel ring (ring.cc:17), block 0, thread 3, put", of any PE's.
  std::string text(uint16_t number) const;
  AccessKind operation(uint16_t number) const;
  /// Alike for the same operation at the same line.
  std::string line(uint16_t number) const;

 private:
  using Key = std::tuple<uint64_t, uint64_t, uint32_t, uint32_t, uint32_t>;
  using Text = std::pair<std::string, std::string>;  // of kernel and line

  uint16_t number_of(const Key& key, bool has_lane);
  const Text& text_of(uint64_t kernel, uint64_t place);

  const Segment& segment_;
  const uint64_t number_;  // of all that this process ever had
  std::mutex mutex_;
  std::map<Key, uint16_t> numbers_;
  std::map<std::pair<uint64_t, uint64_t>, Text> texts_;
};

}  // namespace peal::checking
