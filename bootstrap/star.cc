// SPDX-License-Identifier: Apache-2.0
//
// The star: rank 0 gathers requests and answers them, the others ask. See star.h for the messages.
#include "bootstrap/star.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/ranges.h"

namespace peal::bootstrap {
namespace {

static_assert(std::endian::native == std::endian::little, "headers travel as they lie in memory");

// What an answer that is already on its way may take beyond the deadline of the wait it ends.
constexpr Deadline kGrace{2'000};

// A CallName may have no zero at its end.
std::string_view text_of_name(const CallName& name) {
  return {name.data(), strnlen(name.data(), name.size())};
}

// What must be the same on all ranks: all of it, or what a colon ends.
std::string_view family_of(const CallName& name) {
  const std::string_view text = text_of_name(name);
  return text.substr(0, text.find(':'));
}

// What the message is part of, and which of the group's exchanges. A name comes from another
// process: bytes that cannot be printed become question marks.
std::string name_call(const FrameHeader& header) {
  const std::string_view text = text_of_name(header.name);
  std::string name;
  for (const char letter : text.substr(text.find(':') + 1)) {
    name += letter > ' ' && letter <= '~' ? letter : '?';
  }
  if (!name.empty()) return fmt::format("{} #{}", name, header.call);
  switch (header.kind) {
    case FrameKind::kStart:
      return "start of the job";
    case FrameKind::kBarrier:
      return fmt::format("barrier #{}", header.call);
    case FrameKind::kAllgather:
      return fmt::format("allgather #{} of {} bytes", header.call, header.bytes);
    case FrameKind::kLeave:
      return "end of the job";
    default:
      return fmt::format("unknown call {}", static_cast<std::uint32_t>(header.kind));
  }
}

struct Parsed {
  FrameHeader header;
  std::span<const std::byte> payload;
};

Parsed parse(const Event& event) {
  Parsed parsed;
  if (event.message.size() < sizeof(FrameHeader)) {
    fail(ErrorCode::kInternal, "rank {} sent a message of {} bytes without a header", event.peer,
         event.message.size());
  }
  std::memcpy(&parsed.header, event.message.data(), sizeof(FrameHeader));
  parsed.payload = std::span(event.message).subspan(sizeof(FrameHeader));
  if (parsed.header.bytes != parsed.payload.size()) {
    fail(ErrorCode::kInternal, "rank {} announced {} bytes and sent {}", event.peer,
         parsed.header.bytes, parsed.payload.size());
  }
  return parsed;
}

std::string text_of(std::span<const std::byte> payload) {
  return {reinterpret_cast<const char*>(payload.data()), payload.size()};
}

// `to` may overlap `from`: an allgather in place is allowed.
void copy(std::span<const std::byte> from, std::span<std::byte> to) {
  if (!from.empty()) std::memmove(to.data(), from.data(), from.size());
}

}  // namespace

std::vector<std::byte> make_message(const FrameHeader& header, std::span<const std::byte> payload) {
  std::vector<std::byte> message(sizeof(FrameHeader) + payload.size());
  std::memcpy(message.data(), &header, sizeof(FrameHeader));
  copy(payload, std::span(message).subspan(sizeof(FrameHeader)));
  return message;
}

std::vector<std::byte> make_failure(ErrorCode code, const std::string& text) {
  const FrameHeader header{
      .kind = FrameKind::kFailure, .code = static_cast<std::uint32_t>(code), .bytes = text.size()};
  return make_message(header, std::as_bytes(std::span(text)));
}

std::string name_ranks(std::span<const int> ranks, int size) {
  return fmt::format("{} {} of {}", ranks.size() == 1 ? "rank" : "ranks", ranges(ranks), size);
}

std::string name_time(Deadline time) {
  if (time.count() % 1000 == 0) return fmt::format("{} s", time.count() / 1000);
  return fmt::format("{} ms", time.count());
}

void check_deadline(Deadline deadline) {
  if (deadline < Deadline(1) || deadline > std::chrono::hours(7 * 24)) {
    fail(ErrorCode::kInvalidArgument,
         "bootstrap deadline of {} ms: give at least 1 ms and at most 7 days", deadline.count());
  }
}

Star::Star(std::unique_ptr<Wire> wire, Deadline deadline)
    : wire_(std::move(wire)), deadline_(deadline) {
  check_deadline(deadline);
}

void Star::name_calls(std::string_view name) {
  name_ = {};
  name.copy(name_.data(), name_.size());
}

std::string Star::name(std::span<const int> ranks) const {
  std::vector<std::string> hosts;
  for (const int rank : ranks) {
    if (hosts_.size() <= static_cast<std::size_t>(rank)) continue;
    const std::string& host = hosts_[static_cast<std::size_t>(rank)];
    if (std::ranges::find(hosts, host) == hosts.end()) hosts.push_back(host);
  }
  return fmt::format("{}{}{}", name_ranks(ranks, size()), hosts.empty() ? "" : " on ",
                     fmt::join(hosts, ", "));
}

void Star::allgather(std::span<const std::byte> mine, std::span<std::byte> all) {
  const auto ranks = static_cast<std::size_t>(size());
  if (all.size() != mine.size() * ranks) {
    fail(ErrorCode::kInvalidArgument,
         "allgather of {} bytes among {} ranks needs {} bytes of room, not {}", mine.size(), ranks,
         mine.size() * ranks, all.size());
  }
  if (all.size() > kMaxMessage - sizeof(FrameHeader)) {
    fail(ErrorCode::kInvalidArgument, "allgather of {} bytes in all: at most {}; split it",
         all.size(), kMaxMessage - sizeof(FrameHeader));
  }
  collective(FrameKind::kAllgather, mine, all);
}

void Star::collective(FrameKind kind, std::span<const std::byte> mine, std::span<std::byte> all) {
  if (!maker_.here()) {
    fail(ErrorCode::kInvalidArgument, "this process was forked from rank {} of {}, and is no rank",
         rank(), size());
  }
  if (broken_) fail(broken_->code(), "the group is broken since: {}", broken_->what());
  const FrameHeader call{.call = calls_++,
                         .kind = kind,
                         .bytes = mine.size(),
                         .name = kind == FrameKind::kLeave ? CallName{} : name_};
  try {
    if (rank() == 0) {
      gather(call, mine, all);
    } else {
      ask(call, mine, all);
    }
  } catch (const Error& error) {
    if (!broken_) broken_ = error;
    throw;
  }
}

void Star::end(const std::function<bool()>& go_on) {
  go_on_ = go_on;
  collective(FrameKind::kLeave, {}, {});
}

// The next event, or nothing once `until` has passed and nobody wants to go on: then for `again`.
std::optional<Event> Star::next(TimePoint& until, Deadline again) {
  for (;;) {
    std::optional<Event> event = wire_->next(until);
    if (event || !go_on_ || !go_on_()) return event;
    until = Clock::now() + again;
  }
}

void Star::gather(const FrameHeader& call, std::span<const std::byte> mine,
                  std::span<std::byte> all) {
  tell_all(make_message({.call = call.call, .kind = FrameKind::kPresent}, {}));
  TimePoint until = Clock::now() + deadline_;
  copy(mine, all.first(mine.size()));
  std::vector<bool> came(static_cast<std::size_t>(size()), false);
  for (int missing = size() - 1; missing > 0; --missing) {
    const std::optional<Event> event = next(until, deadline_);
    if (!event) {
      std::vector<int> absent;
      for (int r = 1; r < size(); ++r) {
        if (!came[static_cast<std::size_t>(r)]) absent.push_back(r);
      }
      give_up(ErrorCode::kTimeout, fmt::format("{}: {} did not arrive within {}", name_call(call),
                                               name(absent), name_time(deadline_)));
    }
    admit(call, *event, all);
    came[static_cast<std::size_t>(event->peer)] = true;
  }
  if (call.kind == FrameKind::kLeave) all_have_come();
  tell_all(make_message({.call = call.call, .kind = FrameKind::kAnswer, .bytes = all.size()}, all));
  wire_->flush(Clock::now() + deadline_);
}

// Takes one rank's request for `call`, or breaks the group. A rank that was lost after its request
// counts as lost too: it cannot have left in order before the answer.
void Star::admit(const FrameHeader& call, const Event& event, std::span<std::byte> all) {
  const std::string who = name(event.peer);
  if (event.lost) {
    give_up(ErrorCode::kPeerLost, fmt::format("{}: {} died or disconnected", name_call(call), who));
  }
  Parsed request;
  try {
    request = parse(event);
  } catch (const Error& error) {
    give_up(error.code(), error.what());
  }
  const FrameHeader& header = request.header;
  if (header.kind == FrameKind::kAbort) {
    give_up(ErrorCode::kPeerLost,
            fmt::format("{}: {} aborted: {}", name_call(call), who, text_of(request.payload)));
  }
  if (header.kind == FrameKind::kQuit) {
    give_up(ErrorCode::kPeerLost,
            fmt::format("{}: {} {}", name_call(call), who, text_of(request.payload)));
  }
  if (header.kind != call.kind &&
      (header.kind == FrameKind::kLeave || call.kind == FrameKind::kLeave)) {
    const bool root_left = call.kind == FrameKind::kLeave;
    give_up(ErrorCode::kPeerLost,
            fmt::format("{}: {} has left the group", name_call(root_left ? header : call),
                        root_left ? name(0) : who));
  }
  if (header.kind != call.kind || header.call != call.call || header.bytes != call.bytes ||
      family_of(header.name) != family_of(call.name)) {
    give_up(ErrorCode::kInvalidArgument,
            fmt::format("collective calls do not match: {} is in {}, rank 0 in {}; all ranks must "
                        "make the same calls "
                        "in the same order",
                        who, name_call(header), name_call(call)));
  }
  copy(request.payload, all.subspan(static_cast<std::size_t>(event.peer) * request.payload.size()));
}

void Star::ask(const FrameHeader& call, std::span<const std::byte> mine, std::span<std::byte> all) {
  wire_->send(0, make_message(call, mine));
  TimePoint until = Clock::now() + deadline_;
  const TimePoint last = until + deadline_ + kGrace;  // rank 0 may come late, and wait then
  bool present = false;
  for (;;) {
    const std::optional<Event> event = next(until, deadline_ + kGrace);
    if (!event) {
      fail(ErrorCode::kTimeout, "{}: {} did not {} within {}", name_call(call), name(0),
           present ? "answer" : "arrive", name_time(deadline_));
    }
    if (event->lost) {
      fail(ErrorCode::kPeerLost, "{}: {} died or disconnected", name_call(call), name(0));
    }
    const auto [header, payload] = parse(*event);
    switch (header.kind) {
      case FrameKind::kPresent:
        // Rank 0 waits for the others from now on; only it can say for whom.
        present = true;
        until = std::min(last, Clock::now() + deadline_ + kGrace);
        continue;
      case FrameKind::kQuit:
      case FrameKind::kAbort:
        fail(ErrorCode::kPeerLost, "{}: {} {}{}", name_call(call), name(0),
             header.kind == FrameKind::kAbort ? "aborted: " : "", text_of(payload));
      case FrameKind::kFailure:
        throw Error(static_cast<ErrorCode>(header.code), text_of(payload));
      case FrameKind::kAnswer:
        if (header.call != call.call || payload.size() != all.size()) break;
        copy(payload, all);
        return;
      default:
        break;
    }
    fail(ErrorCode::kInternal, "{}: rank 0 answered with {} bytes for call #{}", name_call(call),
         payload.size(), header.call);
  }
}

bool Star::leave() noexcept {
  if (broken_) return false;
  try {
    end();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

void Star::tell_all(std::span<const std::byte> message) {
  for (int r = 1; r < size(); ++r) wire_->send(r, message);
}

void Star::give_up(ErrorCode code, const std::string& text) {
  broken_ = Error(code, text);
  tell_all(make_failure(code, text));
  wire_->flush(Clock::now() + kGrace);
  throw *broken_;
}

// The others will find out by themselves where they cannot be told.
void Star::say_farewell(FrameKind kind, const std::string& text) {
  const auto message =
      make_message({.kind = kind, .bytes = text.size()}, std::as_bytes(std::span(text)));
  try {
    rank() == 0 ? tell_all(message) : wire_->send(0, message);
    wire_->flush(Clock::now() + kGrace);
  } catch (const std::exception&) {
  }
}

void Star::quit(const std::string& how) noexcept {
  if (broken_ || !maker_.here()) return;
  say_farewell(FrameKind::kQuit, how);
  broken_.emplace(ErrorCode::kPeerLost, "this rank has left");
}

std::vector<int> Star::connections() const {
  std::vector<int> sockets;
  for (int peer = 0; peer < size(); ++peer) sockets.push_back(wire_->connection(peer));
  return sockets;
}

void Star::abort(const std::string& reason) {
  const std::string line = fmt::format("peal: rank {} of {} aborts: {}\n", rank(), size(), reason);
  // One write, so that the lines of several ranks do not mix. Nothing to be done when it fails.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  say_farewell(FrameKind::kAbort, reason);
  wire_->abort_job();
  ::_exit(1);
}

}  // namespace peal::bootstrap
