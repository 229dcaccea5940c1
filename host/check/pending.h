// SPDX-License-Identifier: Apache-2.0
//
// The operations of a PE that have begun and are not known to be complete: what they read at home
// must stay, and what they write at home is not there yet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "device/shared/call_note.h"

namespace peal {
struct ContextState;
}

namespace peal::checking {

/// Rows of bytes, `pitch` from one to the next.
struct ByteRows {
  const std::byte* first = nullptr;
  uint64_t bytes = 0;
  uint64_t count = 1;
  int64_t pitch = 0;

  bool overlap(const std::byte* begin, const std::byte* end) const;
  bool overlap(const ByteRows& other) const;
  bool operator==(const ByteRows&) const = default;
};

/// A number that changes when the bytes do.
uint64_t sum_of(const ByteRows& rows);

struct Pending {
  const ContextState* context;
  int pe;
  bool gets;       // `here` is written, else read
  ByteRows here;   // at home
  ByteRows there;  // at `pe`, by this PE's addresses
  uint64_t sum;
  uint32_t stamp;
  uint16_t site;
  bool open;  // the call that starts it has not returned
  const void* queue;
  uint64_t index;

  bool changed() const { return !gets && sum_of(here) != sum; }
};

/// Not thread-safe.
class PendingList {
 public:
  static constexpr size_t kMax = 256;  // more displace the earliest, which nobody looks at then

  using Which = std::function<bool(const Pending&)>;

  void begin(const Pending& started) { add(started); }
  /// The call has returned with a ticket; without `ticket` nothing was started. Of operations that
  /// are alike on one queue the last stands for all; the earlier one comes back if its source is
  /// not what it was.
  std::optional<Pending> started(const ContextState* context, const CallNote& note, bool ticket);
  /// Takes out what is complete. What has not returned to its caller stays.
  std::vector<Pending> complete(const Which& which);
  /// The entries that `which` holds for, as complete() would take them.
  std::vector<Pending> matching(const Which& which) const;
  void clear() { list_.clear(); }
  bool empty() const { return list_.empty(); }
  const std::deque<Pending>& all() const { return list_; }

 private:
  void add(const Pending& started);

  std::deque<Pending> list_;
};

ByteRows here_of(const CallNote& note);
ByteRows there_of(const CallNote& note);

}  // namespace peal::checking
