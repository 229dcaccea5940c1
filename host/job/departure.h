// SPDX-License-Identifier: Apache-2.0
//
// How a PE's part in a job ends: what it tells the others (Message::Kind::kLeft), or what the
// operating system tells of its process.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace peal {

struct Departure {
  enum class How : uint32_t {
    kFinalized,   // its Runtime has ended
    kExited,      // exit(), or return from main(), with a Runtime; `code` is the exit code
    kQuickExit,   // quick_exit()
    kException,   // has ended its Runtime; `text` is the exception's, where it is known
    kTerminated,  // std::terminate(); the same
    kKilled,      // by signal `code`
    kEnded,       // somehow: its host says that the process is gone
    kSilent,      // its host has not answered for `code` ms; `text` says where
    kRejoins,     // its process lives, and waits in rejoin() for the others
  };
  How how = How::kFinalized;
  int code = 0;
  std::string text = {};

  /// Its memory stays until the others have come to their end, too.
  bool in_order() const { return how == How::kFinalized || (how == How::kExited && code == 0); }
};

/// The end of a sentence that begins with the PE: "called exit(3), or returned 3 from main()".
std::string describe(const Departure& departure);

/// What the operating system still knows of a process that has ended: as long as nobody has waited
/// for it. PIDs of this pid namespace.
std::optional<Departure> departure_of_process(int pid);

/// A Departure whose text need not be a string of its own: handlers of signals allocate none.
struct DepartureView {
  Departure::How how = Departure::How::kFinalized;
  int code = 0;
  std::string_view text = {};
};

/// What a PE tells the others when it leaves: how, and whose loss it has heard of. PEs that end
/// because another one did would else be taken for the first where their message arrives before
/// that one's.
struct Leaving {
  DepartureView own;
  int lost_pe = -1;  // none
  DepartureView loss = {};
};

/// A departure as it travels: texts are cut at 1,000 bytes. Allocates nothing.
class LeavingMessage {
 public:
  explicit LeavingMessage(const Leaving& leaving) noexcept;

  const std::array<uint64_t, 4>& word() const { return word_; }
  std::span<const std::byte> payload() const {
    return std::as_bytes(std::span(text_).first(length_));
  }

 private:
  static constexpr size_t kMaxText = 1000;

  std::array<uint64_t, 4> word_;
  std::array<char, 2 * kMaxText> text_;
  size_t length_ = 0;
};

struct HeardLeaving {
  Departure own;
  std::optional<std::pair<int, Departure>> loss;  // PE, as it was told
};

/// Nothing where the message is none that LeavingMessage makes.
std::optional<HeardLeaving> read_leaving(const std::array<uint64_t, 4>& word,
                                         std::span<const std::byte> payload);

}  // namespace peal
