// SPDX-License-Identifier: Apache-2.0
#include "host/job/host_watch.h"

#include <algorithm>

namespace peal {

HostWatch::HostWatch(std::span<const Place> places, int rank, Time limit)
    : rank_(rank), limit_(limit) {
  for (size_t pe = 0; pe < places.size(); ++pe) {
    size_t first = 0;
    while (first < pe && is_elsewhere(places[first], places[pe])) ++first;
    hosts_.push_back(static_cast<int>(first));
  }
}

bool HostWatch::speaks(const std::vector<int>& live) const {
  const int host = hosts_[static_cast<size_t>(rank_)];
  const auto first =
      std::ranges::find_if(live, [&](int pe) { return hosts_[static_cast<size_t>(pe)] == host; });
  return first != live.end() && *first == rank_;
}

std::vector<int> HostWatch::asked(const std::vector<int>& live) const {
  if (!speaks(live)) return {};
  const int own = hosts_[static_cast<size_t>(rank_)];
  int next = -1;   // the first host behind this one that has live PEs
  int first = -1;  // of all others
  for (const int pe : live) {
    const int host = hosts_[static_cast<size_t>(pe)];
    if (host > own && (next < 0 || host < next)) next = host;
    if (host < own && (first < 0 || host < first)) first = host;
  }
  const int host = next >= 0 ? next : first;
  std::vector<int> pes;
  std::ranges::copy_if(live, std::back_inserter(pes),
                       [&](int pe) { return hosts_[static_cast<size_t>(pe)] == host; });
  return pes;
}

std::vector<int> HostWatch::to_ask(const std::vector<int>& live, Time now) {
  if (now - asked_at_ < kAskAgain) return {};
  asked_at_ = now;
  return asked(live);
}

std::vector<HostWatch::Loss> HostWatch::losses(
    const std::vector<int>& live, Time now,
    const std::function<FarChannel::Heard(int pe)>& heard) const {
  std::vector<Loss> ended;
  std::vector<Loss> silent;
  bool answers = false;  // somebody of that host, or nobody has ever been heard there
  bool ever = false;
  for (const int pe : asked(live)) {
    const FarChannel::Heard known = heard(pe);
    if (known.refused) {
      ended.emplace_back(pe, false);
      continue;
    }
    silent.emplace_back(pe, true);
    ever |= known.ever;
    answers |= known.ever && now - known.at <= limit_;
  }
  if (limit_ > Time(0) && ever && !answers) ended.insert(ended.end(), silent.begin(), silent.end());
  return ended;
}

}  // namespace peal
