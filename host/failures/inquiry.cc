// SPDX-License-Identifier: Apache-2.0
#include "host/failures/inquiry.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "host/job/process_stat.h"

namespace peal {
namespace {

bool lasts(const WaitNote& note) { return note.status == Status::kOk; }

// One line: what find_circle() needs, then the sentence.
std::string write_notes(const std::vector<WaitNote>& notes) {
  std::string text;
  for (const WaitNote& n : notes) {
    const std::string line = fmt::format("{} {} {} {}\n", static_cast<uint32_t>(n.status),
                                         static_cast<uint32_t>(n.kind), n.from, n.text);
    if (text.size() + line.size() > Channel::kMaxPayload) break;
    text += line;
  }
  return text;
}

std::vector<WaitNote> read_notes(const std::string& text) {
  std::vector<WaitNote> notes;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    uint32_t status = 0;
    uint32_t kind = 0;
    WaitNote n;
    if (!(fields >> status >> kind >> n.from)) continue;
    n.status = static_cast<Status>(status);
    n.kind = static_cast<WaitKind>(kind);
    fields.get();
    std::getline(fields, n.text);
    notes.push_back(std::move(n));
  }
  return notes;
}

// Waits of one PE for another, and who waits.
class WaitGraph {
 public:
  WaitGraph(std::span<const PeWaits> all, int n_pes) : all_(all), n_pes_(n_pes) {}

  std::string circle_from(int pe) {
    path_.clear();
    return follow(pe) ? describe() : "";
  }

 private:
  // The PE that a wait would end by, or -1. A word can be written by any other PE: with two there
  // is one.
  int source(int pe, const WaitNote& note) const {
    if (note.from >= 0) return note.from;
    const bool by_a_peer = note.kind == WaitKind::kWord || note.kind == WaitKind::kSignal;
    return by_a_peer && n_pes_ == 2 ? 1 - pe : -1;
  }

  // Extends the path until it comes back to its first PE.
  bool follow(int pe) {
    const auto waits = std::ranges::find(all_, pe, &PeWaits::pe);
    if (waits == all_.end()) return false;
    for (const WaitNote& note : waits->notes) {
      const int next = source(pe, note);
      if (!lasts(note) || next < 0 || next == pe) continue;
      path_.emplace_back(pe, &note);
      if (next == path_.front().first) return true;
      const bool seen = std::ranges::any_of(path_, [&](const auto& s) { return s.first == next; });
      if (!seen && follow(next)) return true;
      path_.pop_back();
    }
    return false;
  }

  std::string describe() const {
    std::string text;
    for (const auto& [pe, note] : path_) {
      text += fmt::format("{}PE {}: {}", text.empty() ? "" : "; ", pe, note->text);
      if (note->from < 0) text += fmt::format(", which only PE {} can write", source(pe, *note));
    }
    return text;
  }

  std::span<const PeWaits> all_;
  const int n_pes_;
  std::vector<std::pair<int, const WaitNote*>> path_;
};

}  // namespace

std::string find_circle(std::span<const PeWaits> all, int n_pes) {
  WaitGraph graph(all, n_pes);
  for (const PeWaits& one : all) {
    if (std::string circle = graph.circle_from(one.pe); !circle.empty()) return circle;
  }
  return "";
}

std::vector<PeWaits> Inquiry::ask(std::chrono::milliseconds patience, std::vector<int>* silent) {
  const int me = group_.rank();
  std::unique_lock lock(mutex_);
  const uint64_t round = ++round_;
  told_.clear();
  lock.unlock();
  std::vector<int> asked;
  for (const int pe : group_.live_pes()) {
    if (pe == me) continue;
    const auto sent = group_.channel().send(pe, Message::Kind::kWaitsAsked, {round, 0, 0, 0}, {});
    if (sent == Channel::Sent::kDone) asked.push_back(pe);
  }
  std::vector<WaitNote> own = mine_();
  lock.lock();
  changed_.wait_for(lock, patience, [&] { return told_.size() >= asked.size(); });
  std::vector<PeWaits> all{{me, std::move(own)}};
  for (const int pe : asked) {
    if (const auto answer = told_.find(pe); answer != told_.end()) {
      all.push_back({pe, answer->second});
    } else {
      silent->push_back(pe);
    }
  }
  std::ranges::sort(all, {}, &PeWaits::pe);
  return all;
}

std::string Inquiry::describe(std::chrono::milliseconds patience) {
  const std::lock_guard one_at_a_time(asking_);
  std::vector<int> silent;
  const std::vector<PeWaits> all = ask(patience, &silent);
  std::string text;
  for (const PeWaits& one : all) {
    for (const WaitNote& note : one.notes) text += fmt::format("PE {}: {}\n", one.pe, note.text);
  }
  for (const int pe : silent) text += fmt::format("PE {} did not say what it waits for\n", pe);
  if (const std::string stopped = stopped_pes(group_.places(), group_.rank(), group_.live_pes());
      !stopped.empty())
    text += stopped + "\n";
  const std::string circle = find_circle(all, group_.size());
  if (!circle.empty()) text += fmt::format("waiting in a circle: {}\n", circle);
  return text;
}

void Inquiry::deliver(const Message& message) {
  const uint64_t round = message.word[0];
  if (message.kind == Message::Kind::kWaitsAsked) {
    const std::string text = write_notes(mine_());
    // The asking PE waits no longer than its patience, so an answer that finds no room is not
    // repeated.
    group_.channel().send(message.from, Message::Kind::kWaitsTold, {round, 0, 0, 0},
                          std::as_bytes(std::span(text)));
    return;
  }
  std::vector<WaitNote> notes =
      read_notes({reinterpret_cast<const char*>(message.payload.data()), message.payload.size()});
  const std::lock_guard lock(mutex_);
  if (round != round_) return;
  told_[message.from] = std::move(notes);
  changed_.notify_all();
}

}  // namespace peal
