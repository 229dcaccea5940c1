// SPDX-License-Identifier: Apache-2.0
#include "simt/simulation/story.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "simt/lanes/place.h"

namespace peal::simt {
namespace {

constexpr size_t kMostSteps = 1u << 20;  // kept: the story of a long run begins late

std::string place_or_nothing(uint64_t place) {
  const std::string text = place_text(place);
  return text.empty() ? "" : " at " + text;
}

}  // namespace

Story::Story(Simulation& simulation) : simulation_(simulation) {
  simulation_.memory().tell([this](const Step& step) { take(step); });
}

void Story::take(const Step& step) {
  const bool fence = std::strcmp(step.what, "fence") == 0;
  const std::string where = fence ? "" : simulation_.memory().name_of(step.where);
  if (where.starts_with("peal-")) return;  // the library's own
  if (entries_.size() == kMostSteps) {
    entries_.erase(entries_.begin(), entries_.begin() + kMostSteps / 2);
  }
  entries_.push_back({step, simulation_.slices(), who_runs(), where, place_of_access()});
}

// The entry itself is of those that are looked at: the store is before it.
std::string Story::writer(const Entry& entry, uint64_t agent, uint64_t value) const {
  if (agent == Step::kNobody) return "from before";
  for (const Entry* other = &entry; other-- != entries_.data();) {
    const Step& step = other->step;
    const bool stores =
        std::strcmp(step.what, "store") == 0 || std::strcmp(step.what, "atomic") == 0;
    if (stores && step.agent == agent && step.where == entry.step.where && step.value == value) {
      return "of " + other->who + place_or_nothing(other->place);
    }
  }
  return "of agent " + std::to_string(agent);
}

std::string Story::line(const Entry& entry) const {
  const Step& step = entry.step;
  std::string text = entry.who + place_or_nothing(entry.place) + ": " + step.what;
  if (entry.where.empty()) return text;
  text += " " + entry.where + " = " + std::to_string(step.value);
  if (!step.stale) return text;
  return text + ", an old value (" + writer(entry, step.writer, step.value) + "): the newest is " +
         std::to_string(step.newest) + " (" + writer(entry, step.newest_writer, step.newest) +
         "), and nothing orders that store before this load";
}

bool Story::alike(const Entry& a, const Entry& b) {
  return a.step.what == b.step.what && a.step.where == b.step.where &&
         a.step.value == b.step.value && a.step.stale == b.step.stale && a.place == b.place;
}

// An entry that repeats its agent's last one is part of that line: a loop that waits is told once.
std::vector<Story::Line> Story::lines() const {
  std::vector<Line> all;
  std::map<uint64_t, size_t> last;  // line, by agent
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    const bool fence = std::strcmp(entry.step.what, "fence") == 0;
    if (fence && place_text(entry.place).empty()) continue;  // where a kernel ends
    const auto [at, first] = last.try_emplace(entry.step.agent, all.size());
    if (!first && alike(entries_[all[at->second].first], entry)) {
      ++all[at->second].repeated;
      continue;
    }
    at->second = all.size();
    all.push_back({i, 0});
  }
  return all;
}

std::string Story::text(size_t most) const {
  const std::vector<Line> all = lines();
  const size_t begin = all.size() - std::min(most, all.size());
  std::string text;
  if (begin != 0) text += "  ... " + std::to_string(begin) + " lines before\n";
  uint64_t last_agent = Step::kNobody;
  for (size_t i = 0; i < all.size(); ++i) {
    const Entry& entry = entries_[all[i].first];
    if (i < begin && !entry.step.stale) continue;
    text += (entry.step.agent == last_agent ? "    " : "  > ") + line(entry) + "\n";
    last_agent = entry.step.agent;
    if (all[i].repeated == 0) continue;
    text += "      ... " + std::to_string(all[i].repeated) + " times more\n";
  }
  return text;
}

}  // namespace peal::simt
