// SPDX-License-Identifier: Apache-2.0
//
// A peer that is late may find the descriptors of this call and of the next one, or those of a call
// that failed: messages carry the number of their call, older ones are dropped. A newer one cannot
// come: between two calls of map() all PEs meet.
#include "host/transport/descriptor_exchange.h"

#include <poll.h>

#include <algorithm>

#include "base/run_clock.h"

namespace peal {

// Answers whether anything is left to send.
bool DescriptorExchange::send_more(std::span<const Fd> mine, std::vector<Sending>& sending) const {
  std::erase_if(sending, [&](Sending& one) {
    while (one.sent < mine.size()) {
      const auto batch =
          mine.subspan(one.sent, std::min(mine.size() - one.sent, Channel::kMaxDescriptors));
      const Channel::Sent sent =
          channel_.send(one.pe, Message::Kind::kDescriptors, {call_, one.sent, 0, 0}, {}, batch);
      if (sent == Channel::Sent::kFull) return false;
      if (sent == Channel::Sent::kGone) return true;  // it will say so itself, or has ended
      one.sent += batch.size();
    }
    return true;
  });
  return !sending.empty();
}

void DescriptorExchange::take(std::vector<std::vector<Fd>>& taken,
                              const std::vector<size_t>& expected) const {
  while (auto message = channel_.receive()) {
    const auto from = static_cast<size_t>(message->from);
    std::vector<Fd>& here = taken[from];
    // In the order sent, as datagrams between two sockets of a host are.
    if (message->kind != Message::Kind::kDescriptors || message->word[0] != call_ ||
        message->word[1] != here.size()) {
      continue;
    }
    for (Fd& fd : message->descriptors) {
      if (here.size() < expected[from]) here.push_back(std::move(fd));
    }
  }
}

std::vector<std::vector<Fd>> DescriptorExchange::exchange(std::span<const Fd> mine,
                                                          const std::vector<int>& to,
                                                          const std::vector<size_t>& expected) {
  ++call_;
  std::vector<std::vector<Fd>> taken(expected.size());
  std::vector<Sending> sending;
  if (!mine.empty()) {
    for (const int pe : to) sending.push_back({pe});
  }
  const auto end = RunClock::now() + deadline_;
  for (;;) {
    const bool more = send_more(mine, sending);
    take(taken, expected);
    const bool all = std::ranges::equal(
        taken, expected, [](const auto& got, size_t wanted) { return got.size() >= wanted; });
    if ((all && !more) || RunClock::now() >= end) return taken;
    // No event tells that a peer has room again, so while something is to be sent it is tried soon.
    pollfd here{channel_.fd(), POLLIN, 0};
    ::poll(&here, 1, more ? 1 : 100);
  }
}

}  // namespace peal
