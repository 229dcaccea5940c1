// SPDX-License-Identifier: Apache-2.0
//
// Descriptors of memory, handed from PE to PE of one host over a channel of their own. No PE waits
// for another to be done: it sends as long as the others have room and takes what has come.
//
//   PE 0: descriptors 0..63 | 64..127 | ...   to each that wants them
//   PE 1: ...
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/fd.h"
#include "host/job/channel.h"

namespace peal {

class DescriptorExchange {
 public:
  /// Collective. `deadline` is that of each exchange.
  DescriptorExchange(Bootstrap& bootstrap, std::chrono::milliseconds deadline)
      : channel_(bootstrap), deadline_(deadline) {}

  /// Collective among PEs that are sent to or send. Sends `mine` to each PE of `to`, and answers by
  /// PE the `expected` descriptors that came from it: fewer where it has ended or the deadline has
  /// passed.
  std::vector<std::vector<Fd>> exchange(std::span<const Fd> mine, const std::vector<int>& to,
                                        const std::vector<size_t>& expected);

 private:
  struct Sending {
    int pe;
    size_t sent = 0;
  };
  bool send_more(std::span<const Fd> mine, std::vector<Sending>& sending) const;
  void take(std::vector<std::vector<Fd>>& taken, const std::vector<size_t>& expected) const;

  Channel channel_;
  std::chrono::milliseconds deadline_;
  uint64_t call_ = 0;
};

}  // namespace peal
