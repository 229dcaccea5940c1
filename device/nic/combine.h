// SPDX-License-Identifier: Apache-2.0
//
// How the requests of one post lie in a queue's ring: those of each lane one after the other; or,
// where lanes of a warp store a few words each that follow one another at the peer, one request of
// all (write combining). One request of 32 words of 8 bytes takes 5 blocks of a ConnectX' ring
// instead of 32, and as much less of what the NIC fetches and of packets.
#pragma once

#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "device/base/target.h"
#include "device/nic/landing.h"
#include "device/nic/nic.h"
#include "device/nic/request.h"
#include "device/shared/send_queue.h"

namespace peal::nic {

/// A request as it goes into the queue's ring: what nobody wants lands in the queue's sink.
template <AnyQueue Q, class Request>
PEAL_HD const Request& placed(const Q&, const Request& request) {
  return request;
}
template <AnyQueue Q, uint32_t kBytes>
PEAL_HD ReadWord<kBytes> placed(const Q& q, const ReadWord<kBytes, Nowhere>& read) {
  return {read.remote, sink(q)};
}
template <AnyQueue Q, Update U, class W>
PEAL_HD Atomic<U, W> placed(const Q& q, const Atomic<U, W, Nowhere>& atomic) {
  return {atomic.remote, sink(q), atomic.value};
}
template <AnyQueue Q, class Request>
PEAL_HD auto placed(const Q& q, const Fenced<Request>& fenced) {
  return Fenced<std::remove_cvref_t<decltype(placed(q, fenced.request))>>{
      fenced.fence, placed(q, fenced.request)};
}

template <AnyQueue Q, class Request>
PEAL_HD const Request& placed(const Q&, const MayCombine<Request>& one) {
  return one.request;
}

/// Blocks that a request takes of a queue's ring.
template <AnyQueue Q, class Request>
inline constexpr uint32_t kBlocksOf =
    Q::Model::template kBlocks<std::remove_cvref_t<decltype(placed(
        std::declval<const Q&>(), std::declval<const Request&>()))>>;

/// A queue, and what writing asks of its fixed part.
template <AnyQueue Q>
struct PostTarget {
  const Q& queue;
  const typename Q::Model::WorkQueue& nic;
  uint32_t mask;
};

/// Writes the requests from `at` on; only the very last one of the last lane asks for a completion.
template <AnyQueue Q, class First, class... Rest>
PEAL_DEVICE void write_all(const PostTarget<Q>& to, uint64_t at, bool reports, const First& first,
                           const Rest&... rest) {
  constexpr bool kFinal = sizeof...(Rest) == 0;
  Q::Model::write(to.nic, to.mask, at, placed(to.queue, first), kFinal && reports);
  if constexpr (!kFinal) write_all(to, at + kBlocksOf<Q, First>, reports, rest...);
}

/// Each lane's requests one after the other.
template <AnyQueue Q, class Group, class... Requests>
class RingLayout {
 public:
  PEAL_DEVICE RingLayout(const Q&, const Group&, const Requests&...) {}

  PEAL_DEVICE uint32_t blocks(const Group& group) const { return group.size() * kBlocks; }
  /// Of the last request.
  PEAL_DEVICE uint32_t last_blocks() const {
    return kBlocksOf<Q, std::tuple_element_t<sizeof...(Requests) - 1, std::tuple<Requests...>>>;
  }
  /// Stores what the calling lane has of them, from block `first` on.
  PEAL_DEVICE void write(const PostTarget<Q>& to, uint64_t first, const Group& group,
                         const Requests&... requests) const {
    write_all(to, first + group.rank() * kBlocks, group.last(), requests...);
  }

 private:
  static constexpr uint32_t kBlocks = (kBlocksOf<Q, Requests> + ...);
};

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

template <AnyQueue Q, class Group, class Request>
requires MayBeOne<Q, Group, Request>
class RingLayout<Q, Group, MayCombine<Request>> {
 public:
  PEAL_DEVICE RingLayout(const Q& q, const Group& group, const MayCombine<Request>& one) {
    if (group.size() == 1 || !group.adjacent() || q.by_cpu()) return;
    const auto own = words_of(one.request);
    if (follow_one_another(group, one.request.remote, own)) {
      combined_ = Q::Model::combined_blocks(group.size() * own.bytes);
    }
  }

  PEAL_DEVICE uint32_t blocks(const Group& group) const {
    return combined_ != 0 ? combined_ : group.size() * kBlocks;
  }
  PEAL_DEVICE uint32_t last_blocks() const { return combined_ != 0 ? combined_ : kBlocks; }
  PEAL_DEVICE void write(const PostTarget<Q>& to, uint64_t first, const Group& group,
                         const MayCombine<Request>& one) const {
    if (combined_ == 0) {
      return write_all(to, first + group.rank() * kBlocks, group.last(), one.request);
    }
    const auto own = words_of(one.request);
    Q::Model::write_combined(to.nic, to.mask, first, Combined{group, own, one.request.remote});
  }

 private:
  static constexpr uint32_t kBlocks = kBlocksOf<Q, Request>;
  uint32_t combined_ = 0;  // blocks of the one request of all lanes; 0: each has its own
};

}  // namespace peal::nic
