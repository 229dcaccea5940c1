// SPDX-License-Identifier: Apache-2.0
#include "host/job/departure.h"

#include <fmt/format.h>
#include <string.h>
#include <sys/wait.h>

#include <algorithm>

#include "host/job/process_stat.h"

namespace peal {
namespace {

std::string with_text(const char* what, const std::string& text) {
  return text.empty() ? what : fmt::format("{}: {}", what, text);
}

// A PE's own part is word 0 and 1, that of the loss word 2 and 3:
//   bits 63..32: PE + 1 (0: no loss; of its own part, the length of its text)
//   bits 31..0:  How
uint64_t packed(uint64_t high, Departure::How how) {
  return high << 32 | static_cast<uint64_t>(how);
}

std::optional<Departure> unpacked(uint64_t how, uint64_t code, std::string_view text) {
  const auto known = static_cast<Departure::How>(static_cast<uint32_t>(how));
  if (known > Departure::How::kRejoins) return std::nullopt;
  return Departure{known, static_cast<int>(code), std::string(text)};
}

}  // namespace

std::string describe(const Departure& departure) {
  const int code = departure.code;
  switch (departure.how) {
    case Departure::How::kFinalized:
      return "has finalized";
    case Departure::How::kExited:
      return fmt::format("called exit({0}), or returned {0} from main(), without finalize", code);
    case Departure::How::kQuickExit:
      return "called quick_exit()";
    case Departure::How::kException:
      return with_text("left by an exception", departure.text);
    case Departure::How::kTerminated:
      return with_text("was terminated by std::terminate()", departure.text);
    case Departure::How::kKilled: {
      const char* const name = ::sigabbrev_np(code);
      return with_text(
          fmt::format("was ended by signal {} (SIG{})", code, name ? name : "?").c_str(),
          departure.text);
    }
    case Departure::How::kEnded:
      return with_text("has ended, as its host says", departure.text);
    case Departure::How::kSilent:
      return fmt::format("has not answered for {} ms, nor has any PE of its host{}", code,
                         departure.text.empty() ? "" : ": " + departure.text);
    case Departure::How::kRejoins:
      return "waits in rejoin() for the others";
  }
  return "has left";
}

std::optional<Departure> departure_of_process(int pid) {
  const ProcessStat stat = stat_of_process(pid);
  if (stat.state != 'Z' || !stat.wait_status) return std::nullopt;
  const int status = *stat.wait_status;
  if (WIFSIGNALED(status)) return Departure{Departure::How::kKilled, WTERMSIG(status)};
  return Departure{Departure::How::kExited, WEXITSTATUS(status)};
}

LeavingMessage::LeavingMessage(const Leaving& leaving) noexcept {
  const std::string_view own = leaving.own.text.substr(0, kMaxText);
  const std::string_view lost = leaving.loss.text.substr(0, kMaxText);
  std::ranges::copy(own, text_.begin());
  std::ranges::copy(lost, text_.begin() + own.size());
  length_ = own.size() + lost.size();
  word_ = {packed(own.size(), leaving.own.how), static_cast<uint64_t>(leaving.own.code),
           packed(static_cast<uint64_t>(leaving.lost_pe + 1), leaving.loss.how),
           static_cast<uint64_t>(leaving.loss.code)};
}

std::optional<HeardLeaving> read_leaving(const std::array<uint64_t, 4>& word,
                                         std::span<const std::byte> payload) {
  const std::string_view text(reinterpret_cast<const char*>(payload.data()), payload.size());
  const size_t own_length = word[0] >> 32;
  if (own_length > text.size()) return std::nullopt;
  auto own = unpacked(word[0], word[1], text.substr(0, own_length));
  if (!own) return std::nullopt;
  HeardLeaving heard{std::move(*own), std::nullopt};
  const auto pe = static_cast<int64_t>(word[2] >> 32) - 1;
  if (pe < 0 || pe > INT32_MAX) return heard;
  if (auto lost = unpacked(word[2], word[3], text.substr(own_length))) {
    heard.loss = {static_cast<int>(pe), std::move(*lost)};
  }
  return heard;
}

}  // namespace peal
