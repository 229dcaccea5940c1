// SPDX-License-Identifier: Apache-2.0
//
// The collectives, as a star over any wire. One call:
//
//   rank 0  -- present -->  all          rank 0 has entered
//   others  -- request -->  rank 0       call number, kind, bytes, payload
//   rank 0  -- answer  -->  all          everybody's payload, or a failure: code and text
//
// Rank 0 knows who has not come and tells everybody the same text. The first failure breaks the
// group.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/forks.h"
#include "bootstrap/bootstraps.h"
#include "bootstrap/wire.h"
#include "host/base/error.h"

namespace peal::bootstrap {

enum class FrameKind : std::uint32_t {
  kStart = 1,
  kBarrier,
  kAllgather,
  kLeave,
  kQuit,
  kPresent,
  kAnswer,
  kFailure,
  kAbort
};

using CallName = std::array<char, 24>;

/// First bytes of every message. All machines of a job are little endian.
struct FrameHeader {
  std::uint64_t call = 0;
  FrameKind kind = FrameKind::kStart;
  std::uint32_t code = 0;   // ErrorCode of a failure
  std::uint64_t bytes = 0;  // of the payload that follows
  CallName name{};          // what the call is part of; zeros where nobody said
};
static_assert(sizeof(FrameHeader) == 48);

std::vector<std::byte> make_message(const FrameHeader& header, std::span<const std::byte> payload);

/// A kFailure message: what makes the receiver's collective call throw.
std::vector<std::byte> make_failure(ErrorCode code, const std::string& text);

/// "rank 2 of 8", "ranks 1-3, 5 of 8"; ascending.
std::string name_ranks(std::span<const int> ranks, int size);
/// "30 s", "250 ms".
std::string name_time(Deadline time);

/// Throws kInvalidArgument unless `deadline` is between 1 ms and 7 days.
void check_deadline(Deadline deadline);

/// Not thread-safe: one call at a time.
class Star : public Bootstrap {
 public:
  Star(std::unique_ptr<Wire> wire, Deadline deadline);

  int rank() const override { return wire_->rank(); }
  int size() const override { return wire_->size(); }
  void name_calls(std::string_view name) override;
  void name_hosts(std::vector<std::string> hosts) override { hosts_ = std::move(hosts); }
  void allgather(std::span<const std::byte> mine, std::span<std::byte> all) override;
  void barrier() override { collective(FrameKind::kBarrier, {}, {}); }
  void end(const std::function<bool()>& go_on = {}) override;
  void quit(const std::string& how) noexcept override;
  std::vector<int> connections() const override;
  [[noreturn]] void abort(const std::string& reason) override;

  /// A barrier whose errors speak of the job's start.
  void start() { collective(FrameKind::kStart, {}, {}); }

  /// Collective goodbye; true when all ranks took part. False at once in a broken group.
  bool leave() noexcept;

  /// Breaks the group: every rank's present or next call throws this error, and so does this
  /// function. Rank 0 only.
  [[noreturn]] void give_up(ErrorCode code, const std::string& text);

 protected:
  /// At rank 0, once all have come to their end and before any of them goes on from there.
  virtual void all_have_come() {}

 private:
  void collective(FrameKind kind, std::span<const std::byte> mine, std::span<std::byte> all);
  void gather(const FrameHeader& call, std::span<const std::byte> mine, std::span<std::byte> all);
  void admit(const FrameHeader& call, const Event& event, std::span<std::byte> all);
  std::optional<Event> next(TimePoint& until, Deadline again);
  void say_farewell(FrameKind kind, const std::string& text);
  void ask(const FrameHeader& call, std::span<const std::byte> mine, std::span<std::byte> all);
  void tell_all(std::span<const std::byte> message);
  /// name_ranks(), and on which hosts they are, where that is known.
  std::string name(std::span<const int> ranks) const;
  std::string name(int rank) const { return name(std::span(&rank, 1)); }

  std::unique_ptr<Wire> wire_;
  Deadline deadline_;
  const Maker maker_;
  std::function<bool()> go_on_;  // of the call under way
  CallName name_{};
  std::vector<std::string> hosts_;  // by rank
  std::uint64_t calls_ = 0;
  std::optional<Error> broken_;
};

}  // namespace peal::bootstrap
