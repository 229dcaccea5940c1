// SPDX-License-Identifier: Apache-2.0
#include "host/job/host_watch.h"

#include <algorithm>

namespace peal {

HostWatch::HostWatch(std::span<const Place> places, int rank, Time limit)
    : rank_(rank), limit_(limit > Time(0) ? std::max(limit, kLeastLimit) : limit) {
  for (size_t pe = 0; pe < places.size(); ++pe) {
    size_t first = 0;
    while (first < pe && is_elsewhere(places[first], places[pe])) ++first;
    hosts_.push_back(static_cast<int>(first));
  }
}

bool HostWatch::speaks(const std::vector<int>& live) const {
  const int host = host_of(rank_);
  const auto first = std::ranges::find_if(live, [&](int pe) { return host_of(pe) == host; });
  return first != live.end() && *first == rank_;
}

std::vector<int> HostWatch::asked(const std::vector<int>& live, Time now) {
  int next = -1;   // the first host behind this one that has live PEs
  int first = -1;  // of all others
  const int own = host_of(rank_);
  for (const int pe : speaks(live) ? live : std::vector<int>{}) {
    const int host = host_of(pe);
    if (host > own && (next < 0 || host < next)) next = host;
    if (host < own && (first < 0 || host < first)) first = host;
  }
  const int host = next >= 0 ? next : first;
  if (host != asked_host_) asked_since_ = now;
  asked_host_ = host;
  std::vector<int> pes;
  std::ranges::copy_if(live, std::back_inserter(pes),
                       [&](int pe) { return host >= 0 && host_of(pe) == host; });
  return pes;
}

std::vector<int> HostWatch::to_ask(const std::vector<int>& live, Time now, const HeardOf& heard) {
  if (now - asked_at_ < kAskAgain) return {};
  asked_at_ = now;
  std::vector<int> pes = asked(live, now);
  std::vector<int> hosts{host_of(rank_), asked_host_};
  for (const int pe : pes.empty() ? std::vector<int>{} : live) {
    if (std::ranges::find(hosts, host_of(pe)) != hosts.end()) continue;
    hosts.push_back(host_of(pe));
    if (!heard(pe).ever) pes.push_back(pe);
  }
  for (auto& [pe, hang_up] : hung_up_) {
    if (now >= hang_up.counts() && hang_up.questions < kQuestions) {
      ++hang_up.questions;
      hang_up.asked_at = now;
    }
    if (std::ranges::find(pes, pe) == pes.end()) pes.push_back(pe);
  }
  return pes;
}

// A connection that ends is no proof: a firewall may forget it. What came just behind it may have
// been sent before.
std::vector<HostWatch::Loss> HostWatch::ended(const std::vector<int>& live, Time now,
                                              const HeardOf& heard) {
  std::vector<Loss> found;
  std::erase_if(hung_up_, [&](const auto& entry) {
    const auto& [pe, hang_up] = entry;
    if (std::ranges::find(live, pe) == live.end()) return true;
    if (hang_up.questions < kQuestions || now - hang_up.asked_at < kAskAgain) return false;
    const UdpChannel::Heard known = heard(pe);
    if (known.ever && known.at < hang_up.counts()) found.emplace_back(pe, false);
    return true;
  });
  return found;
}

std::vector<HostWatch::Loss> HostWatch::losses(const std::vector<int>& live, Time now,
                                               const HeardOf& heard) {
  std::vector<Loss> lost = ended(live, now, heard);
  std::vector<Loss> silent;
  bool answers = false;
  const std::vector<int> of_host = asked(live, now);
  // Whoever of it was heard: packets come from there.
  bool ever = false;
  for (size_t pe = 0; pe < hosts_.size() && !ever && !of_host.empty(); ++pe) {
    ever = hosts_[pe] == asked_host_ && heard(static_cast<int>(pe)).ever;
  }
  for (const int pe : of_host) {
    const UdpChannel::Heard known = heard(pe);
    if (known.refused) {
      lost.emplace_back(pe, false);
      continue;
    }
    silent.emplace_back(pe, true);
    answers |= now - std::max(known.at, asked_since_) <= limit_;
  }
  if (limit_ > Time(0) && ever && !answers) lost.insert(lost.end(), silent.begin(), silent.end());
  return lost;
}

}  // namespace peal
