// SPDX-License-Identifier: Apache-2.0
//
// Write combining: where lanes of a warp store a few words each that follow one another at the
// peer, what they post may be one request of all (post.h). One request of 32 words of 8 bytes takes
// 5 blocks of a ConnectX' ring instead of 32, and as much less of what the NIC fetches and of
// packets.
#pragma once

#include <cstdint>

#include "device/base/target.h"
#include "device/nic/nic.h"
#include "device/nic/request.h"

namespace peal::nic {

/// The words of a request that may be combined, and their bytes.
template <uint32_t N>
struct FewWords {
  uint32_t word[N];
  uint32_t bytes;
};
PEAL_HD FewWords<3> words_of(const WriteInline<3>& w) {
  return {{w.word[0], w.word[1], w.word[2]}, w.bytes};
}
template <uint32_t kBytes>
PEAL_HD FewWords<2> words_of(const WriteWord<kBytes>& w) {
  static_assert(kBytes % sizeof(uint32_t) == 0, "whole words alone may be combined");
  return {{static_cast<uint32_t>(w.bits), static_cast<uint32_t>(w.bits >> 32)}, kBytes};
}

/// One store of all lanes of a group, as one of them sees it.
template <class Group, uint32_t N>
struct Combined {
  const Group& group;
  const FewWords<N>& own;
  Remote remote;  // of the first lane, by that lane

  PEAL_DEVICE uint32_t rank() const { return group.rank(); }
  PEAL_DEVICE uint32_t bytes() const { return group.size() * own.bytes; }
  PEAL_DEVICE uint32_t word(uint32_t index) const {
    const uint32_t words = own.bytes / static_cast<uint32_t>(sizeof(uint32_t));
    const uint32_t of = index / words;
    const uint32_t which = index % words;
    uint32_t found = 0;
    PEAL_UNROLL
    for (uint32_t i = 0; i < N; ++i) {
      const uint32_t theirs = group.of_rank(own.word[i], of < group.size() ? of : 0);
      if (which == i && of < group.size()) found = theirs;
    }
    return found;
  }
};

/// True for all lanes of a group where each has the same number of whole words, and they follow one
/// another at the peer in the order of the lanes.
template <class Group, uint32_t N>
PEAL_DEVICE bool follow_one_another(const Group& group, const Remote& remote,
                                    const FewWords<N>& own) {
  // All lanes meet in each of these, so none of them may depend on another's answer.
  const uint64_t begin = group.of_rank(static_cast<unsigned long long>(remote.address), 0);
  const uint32_t key = group.of_rank(remote.key.bits, 0);
  const uint32_t bytes = group.of_rank(own.bytes, 0);
  return group.all(remote.address == begin + uint64_t{group.rank()} * bytes &&
                   remote.key.bits == key && own.bytes == bytes && bytes % sizeof(uint32_t) == 0);
}

template <class Q, class Group, class Request>
concept MayBeOne = AnyQueue<Q> && requires(const Request& request, const Group& group) {
  requires Combines<typename Q::Model,
                    Combined<Group, sizeof(words_of(request).word) / sizeof(uint32_t)>>;
  group.adjacent();
};

}  // namespace peal::nic
