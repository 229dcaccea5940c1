// SPDX-License-Identifier: Apache-2.0
//
// A NIC that never was, and its model (device/nic/nic.h): what the protocol of queues needs of one,
// and no more. Blocks have 32 bytes, in the machine's byte order; counts are whole.
//
//   block 0   op, reports, fence, bytes | remote address | keys | local address, or a word's bits
//   block 1   inline bytes, or an atomic's operands
//
// The register is told how many blocks are posted; one word says what is complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

#include "device/base/order.h"
#include "device/nic/nic.h"

namespace peal::testing {

struct alignas(32) ToyBlock {
  uint64_t word[4];
};

/// As it lies in block 0.
struct ToyHead {
  enum class Op : uint8_t { kWrite, kInline, kWord, kRead, kUpdate, kCompareSwap, kDump };

  Op op;
  Update update;
  uint8_t word_bytes;  // of an atomic
  uint8_t flags;       // kReports, and the RequestFence shifted by kFenceShift
  uint32_t bytes;
  uint64_t remote;
  NicKey remote_key;
  NicKey local_key;
  uint64_t local;  // or the bits of a word

  static constexpr uint8_t kReports = 1, kFenceShift = 1;
};
static_assert(sizeof(ToyHead) == sizeof(ToyBlock));

/// Syndromes.
inline constexpr uint8_t kToyBadKey = 7, kToyFlushed = 9;

struct ToyModel {
  /// A request as it goes into the ring.
  template <uint32_t kCount>
  struct Entry {
    ToyBlock block[kCount];
  };
  using Op = ToyHead::Op;

  template <uint32_t kCount>
  static Entry<kCount> entry_of(const ToyHead& head) {
    Entry<kCount> entry{};
    std::memcpy(entry.block, &head, sizeof(head));
    return entry;
  }
  /// What moves bytes between the two ends, either way.
  template <class Transfer>
  static Entry<1> moving(Op op, const Transfer& t) {
    return entry_of<1>(
        {op, {}, 0, 0, t.bytes, t.remote.address, t.remote.key, t.local.key, t.local.address});
  }
  static Entry<1> encode(const nic::Write& w) { return moving(Op::kWrite, w); }
  template <uint32_t N>
  static Entry<2> encode(const nic::WriteInline<N>& w) {
    auto entry =
        entry_of<2>({Op::kInline, {}, 0, 0, w.bytes, w.remote.address, w.remote.key, {}, 0});
    std::memcpy(&entry.block[1], w.word, sizeof(w.word));
    return entry;
  }
  template <uint32_t kBytes>
  static Entry<1> encode(const nic::WriteWord<kBytes>& w) {
    return entry_of<1>({Op::kWord, {}, 0, 0, kBytes, w.remote.address, w.remote.key, {}, w.bits});
  }
  static Entry<1> encode(const nic::Read& r) { return moving(Op::kRead, r); }
  template <uint32_t kBytes>
  static Entry<1> encode(const nic::ReadWord<kBytes>& r) {
    return encode(nic::Read{r.remote, r.local, kBytes});
  }
  template <Update U, class W>
  static Entry<2> encode(const nic::Atomic<U, W>& a) {
    auto entry = entry_of<2>({Op::kUpdate, U, sizeof(W), 0, sizeof(W), a.remote.address,
                              a.remote.key, a.local.key, a.local.address});
    entry.block[1].word[0] = a.value;
    return entry;
  }
  template <class W>
  static Entry<2> encode(const nic::CompareSwap<W>& a) {
    auto entry = entry_of<2>({Op::kCompareSwap,
                              {},
                              sizeof(W),
                              0,
                              sizeof(W),
                              a.remote.address,
                              a.remote.key,
                              a.local.key,
                              a.local.address});
    entry.block[1].word[0] = a.value;
    entry.block[1].word[1] = a.compare;
    return entry;
  }
  static Entry<1> encode(const nic::Dump& d) {
    return entry_of<1>({Op::kDump, {}, 0, 0, d.bytes, 0, {}, d.local.key, d.local.address});
  }
  template <class Request>
  static auto encode(const nic::Fenced<Request>& fenced) {
    auto entry = encode(fenced.request);
    entry.block[0].word[0] |= uint64_t{static_cast<uint32_t>(fenced.fence)}
                              << (24 + ToyHead::kFenceShift);
    return entry;
  }

  struct WorkQueue {
    ToyBlock* blocks;
    uint64_t* posted;          // the register
    const uint64_t* complete;  // index << 2 | what
    const uint8_t* syndrome;
  };
  /// The word `complete`.
  struct Seen {
    enum : uint64_t { kNone, kDone, kFailed };
    uint64_t word;

    PEAL_HD bool none() const { return (word & 3) == kNone; }
    PEAL_HD bool failed() const { return (word & 3) == kFailed; }
    PEAL_HD uint64_t count() const { return word >> 2; }
    PEAL_HD uint32_t tag() const { return 0; }
  };
  static constexpr uint32_t kMaxDepth = 1 << 20;
  static constexpr uint64_t kMaxMessageBytes = 1 << 20;
  static constexpr uint32_t kMaxInlineBytes = 28;
  static constexpr uint64_t kCountMask = ~uint64_t{0} >> 2;

  template <class Request>
  static constexpr uint32_t kBlocks = sizeof(encode(std::declval<const Request&>())) /
                                      sizeof(ToyBlock);

  template <class Request>
  PEAL_HD static void write(const WorkQueue& queue, uint32_t mask, uint64_t index,
                            const Request& request, bool reports) {
    auto entry = encode(request);
    if (reports) entry.block[0].word[0] |= uint64_t{ToyHead::kReports} << 24;
    for (uint32_t i = 0; i < kBlocks<Request>; ++i) {
      ToyBlock& to = queue.blocks[(index + i) & mask];
      for (uint32_t k = 0; k < 4; ++k) store_payload(&to.word[k], entry.block[i].word[k]);
    }
  }
  PEAL_HD static bool is_numbered(const WorkQueue&) { return true; }
  template <Reach R>
  PEAL_HD static void tell(const WorkQueue& queue, uint64_t posted) {
    fence_posted<R, Edge::kPostedBeforeDoorbell>();
    store_relaxed<Reach::kSystem>(queue.posted, posted);
  }
  PEAL_HD static Seen look(const WorkQueue& queue) {
    return {load_acquire<Reach::kSystem, Edge::kResultBeforePoll>(queue.complete)};
  }
  PEAL_HD static void describe(const WorkQueue& queue, uint32_t, QueueError& error) {
    error.syndrome = *queue.syndrome;
  }
  template <class W>
  static constexpr bool kLandsAsIs = true;
  template <class W>
  PEAL_HD static W fetched(uint64_t landed) {
    return static_cast<W>(landed);
  }
};
static_assert(nic::Nic<ToyModel>);

struct ToyQueue : BasicSendQueue<ToyModel> {};

/// The NIC: executes what is posted, one after the other, between memories it was told of.
class ToyNic {
 public:
  /// What it has executed.
  struct Done {
    uint64_t index;
    ToyHead head;
    bool reports() const { return (head.flags & ToyHead::kReports) != 0; }
    nic::RequestFence fence() const {
      return static_cast<nic::RequestFence>(head.flags >> ToyHead::kFenceShift);
    }
  };

  ToyNic(const ToyBlock* blocks, uint32_t depth, uint64_t start)
      : blocks_(blocks), depth_(depth), head_(start), posted_(start) {}

  /// Makes memory reachable under a key, by offset from `base`.
  void know(NicKey key, void* base) { memory_[key.bits] = static_cast<std::byte*>(base); }

  /// Executes up to `limit` of the requests that are posted; answers how many.
  size_t step(size_t limit = ~size_t{0});

  const std::vector<Done>& done() const { return done_; }
  uint64_t* reg() { return &posted_; }
  const uint64_t* complete() const { return &complete_; }
  const uint8_t* syndrome() const { return &syndrome_; }

 private:
  const ToyBlock& block(uint64_t index) const { return blocks_[index & (depth_ - 1)]; }
  std::byte* at(NicKey key, uint64_t offset) const {
    const auto found = memory_.find(key.bits);
    return found == memory_.end() ? nullptr : found->second + offset;
  }
  bool perform(const ToyHead& head, const ToyBlock& operands);
  template <class W>
  static W updated_word(const ToyHead& head, const ToyBlock& operands, W old);
  template <class W>
  void atomic(const ToyHead& head, const ToyBlock& operands, std::byte* word, std::byte* result);

  const ToyBlock* blocks_;
  uint32_t depth_;
  uint64_t head_;
  uint64_t posted_;
  uint64_t complete_ = 0;
  uint8_t syndrome_ = 0;
  std::map<uint32_t, std::byte*> memory_;
  std::vector<Done> done_;
};

inline size_t ToyNic::step(size_t limit) {
  const uint64_t posted = __atomic_load_n(&posted_, __ATOMIC_ACQUIRE);
  size_t count = 0;
  for (; count < limit && head_ != posted; ++count) {
    ToyHead head;
    std::memcpy(&head, &block(head_), sizeof(head));
    const uint64_t index = head_;
    const bool two = head.op == ToyHead::Op::kInline || head.op == ToyHead::Op::kUpdate ||
                     head.op == ToyHead::Op::kCompareSwap;
    head_ += two ? 2 : 1;
    const bool flushed = syndrome_ != 0;
    if (!flushed) done_.push_back({index, head});
    const bool good = !flushed && perform(head, block(index + 1));
    if (!good) __atomic_store_n(&syndrome_, flushed ? kToyFlushed : kToyBadKey, __ATOMIC_RELAXED);
    if (good && !done_.back().reports()) continue;
    const uint64_t what = good ? ToyModel::Seen::kDone : ToyModel::Seen::kFailed;
    if (!flushed) __atomic_store_n(&complete_, index << 2 | what, __ATOMIC_RELEASE);
  }
  return count;
}

inline bool ToyNic::perform(const ToyHead& head, const ToyBlock& operands) {
  using Op = ToyHead::Op;
  std::byte* const remote = at(head.remote_key, head.remote);
  std::byte* const local = at(head.local_key, head.local);
  switch (head.op) {
    case Op::kDump:
      return local != nullptr;
    case Op::kInline:
      if (remote != nullptr) std::memcpy(remote, &operands, head.bytes);
      return remote != nullptr;
    case Op::kWord:
      if (remote != nullptr) std::memcpy(remote, &head.local, head.bytes);
      return remote != nullptr;
    default:
      break;
  }
  if (remote == nullptr || local == nullptr) return false;
  if (head.op == Op::kWrite) {
    std::memcpy(remote, local, head.bytes);
  } else if (head.op == Op::kRead) {
    std::memcpy(local, remote, head.bytes);
  } else if (head.word_bytes == 4) {
    atomic<uint32_t>(head, operands, remote, local);
  } else {
    atomic<uint64_t>(head, operands, remote, local);
  }
  return true;
}

template <class W>
W ToyNic::updated_word(const ToyHead& head, const ToyBlock& operands, W old) {
  const auto value = static_cast<W>(operands.word[0]);
  if (head.op == ToyHead::Op::kCompareSwap) {
    return old == static_cast<W>(operands.word[1]) ? value : old;
  }
  switch (head.update) {
    case Update::kAdd:
      return static_cast<W>(old + value);
    case Update::kAnd:
      return static_cast<W>(old & value);
    case Update::kOr:
      return static_cast<W>(old | value);
    case Update::kXor:
      return static_cast<W>(old ^ value);
    default:
      return value;
  }
}

template <class W>
void ToyNic::atomic(const ToyHead& head, const ToyBlock& operands, std::byte* word,
                    std::byte* result) {
  W old;
  std::memcpy(&old, word, sizeof(W));
  const W fresh = updated_word<W>(head, operands, old);
  std::memcpy(word, &fresh, sizeof(W));
  std::memcpy(result, &old, sizeof(W));
}

}  // namespace peal::testing
