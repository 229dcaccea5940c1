// SPDX-License-Identifier: Apache-2.0
//
// How one queue pair's requests get on: how many packets may be on their way, and after how long a
// silence they are sent again.
//
//   packets   kMost |            .--           doubles while everything arrives;
//                   |     .--'|.'              halves, to kLeast at least, when something was lost,
//             kLeast|____/    '                and goes on by one for each time round
//
// The peer tells nobody how much its socket has room for, so it is tried out. Each time round costs
// two threads that must find a core: on a busy machine the window decides how fast puts are, and
// how long an answer takes is not known beforehand either.
#pragma once

#include <algorithm>
#include <cstdint>

#include "softnic/engine/packet.h"

namespace peal::softnic::roce {

/// What is older than this is no repeat but of another connection.
inline constexpr int32_t kOldestRepeat = 1 << 16;

class SendWindow {
 public:
  /// What a socket with the kernel's usual limit (net.core.rmem_max) has room for, of the largest.
  static constexpr uint32_t kLeast = 40;
  /// 2 MiB of the largest; of the smallest what such a socket has room for.
  static constexpr uint32_t kMost = 512;

  uint32_t packets() const { return packets_; }

  /// So many more have arrived.
  void widen(uint32_t arrived) {
    if (packets_ < calm_) {
      packets_ += arrived;
    } else {
      credit_ += arrived;
      packets_ += credit_ / packets_;
      credit_ %= packets_;
    }
    packets_ = std::min(packets_, kMost);
  }
  /// Something was lost.
  void narrow() {
    packets_ = calm_ = std::max(packets_ / 2, kLeast);
    credit_ = 0;
  }

 private:
  uint32_t packets_ = kLeast;
  uint32_t calm_ = kMost;  // below it nothing was lost
  uint32_t credit_ = 0;    // arrived, and not yet one more packet
};

/// Of one queue pair; times in ns.
class Flow {
 public:
  // A try of the engine's is as long as the client says, a second and more: what a network loses is
  // asked for again much earlier. Nobody gives up earlier for that.
  static constexpr uint64_t kLeastPatience = 2'000'000;
  static constexpr uint64_t kMostPatience = 64'000'000;

  Flow(uint32_t acked_psn, uint64_t now) : acked_(acked_psn), highest_(acked_psn), since_(now) {}

  /// The packet has to wait. What is sent again need not: the peer may have all of it, and then its
  /// answer names what is sent last.
  bool holds(uint32_t psn) const {
    return !known(psn) && psn_distance(psn, acked_) > static_cast<int32_t>(window_.packets());
  }
  void sent(uint32_t psn, uint64_t now) {
    if (known(psn)) return;
    highest_ = psn;
    if (timed_at_ != 0) return;
    timed_ = psn;
    timed_at_ = now;
  }
  /// Everything up to that packet has arrived.
  void acknowledged(uint32_t psn, uint64_t now) {
    const int32_t arrived = psn_distance(psn, acked_);
    if (arrived == 0) return;
    acked_ = psn;
    quiet(now);
    if (arrived < 0) {  // the queue pair was connected anew
      highest_ = psn;
      timed_at_ = 0;
      return;
    }
    window_.widen(static_cast<uint32_t>(arrived));
    if (timed_at_ != 0 && psn_distance(psn, timed_) >= 0) take_time(now - timed_at_);
  }
  /// Nothing is to come, or nothing yet.
  void quiet(uint64_t now) { since_ = now; }
  /// Packets were lost, and are sent again. To whom it takes how long their answers do not tell.
  void lost() {
    window_.narrow();
    timed_at_ = 0;
  }
  /// True once an answer has been waited for too long; from then on it is waited for twice as long,
  /// until the answer to something that was not repeated tells how long it takes.
  bool tired(uint64_t now) {
    if (now - since_ < patience_) return false;
    since_ = now;
    patience_ = std::min(2 * patience_, kMostPatience);
    lost();
    return true;
  }

 private:
  /// It has been sent before. That may be windows ago: a READ or an atomic without an answer is
  /// sent again with all that follows it, acknowledged or not.
  bool known(uint32_t psn) const {
    const int32_t behind = psn_distance(highest_, psn);
    return behind >= 0 && behind <= kOldestRepeat;
  }
  /// RFC 6298: the mean of the times that answers take, and of how far they are off.
  void take_time(uint64_t ns) {
    timed_at_ = 0;
    if (usual_ == 0) {
      usual_ = ns;
      spread_ = ns / 2;
    } else {
      const uint64_t off = ns > usual_ ? ns - usual_ : usual_ - ns;
      spread_ = (3 * spread_ + off) / 4;
      usual_ = (7 * usual_ + ns) / 8;
    }
    patience_ = std::clamp(usual_ + 4 * spread_, kLeastPatience, kMostPatience);
  }

  SendWindow window_;
  uint32_t acked_;
  uint32_t highest_;    // that was sent
  uint32_t timed_ = 0;  // whose answer is timed
  uint64_t timed_at_ = 0;
  uint64_t since_;  // nothing came
  uint64_t patience_ = kLeastPatience;
  uint64_t usual_ = 0;  // until an answer comes
  uint64_t spread_ = 0;
};

}  // namespace peal::softnic::roce
