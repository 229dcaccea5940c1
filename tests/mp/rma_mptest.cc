// SPDX-License-Identifier: Apache-2.0
//
// Transfers between PEs: every operation by every scope on every kind of context, in sizes and
// alignments around each border of the implementation. Each message has guards on both sides.
#include <algorithm>
#include <mutex>
#include <vector>

#include "device/rma.h"
#include "tests/support/job.h"

namespace peal::api_test {
namespace {

constexpr std::byte kGuard{0xee};
constexpr size_t kGuardBytes = 64;

/// One message: where it lies in the sender's and in the receiver's arena.
struct Message {
  size_t from;
  size_t to;
  size_t bytes;
};

/// All sizes, with odd alignments of both sides.
std::vector<Message> messages() {
  struct Offsets {
    size_t from;
    size_t to;
  };
  std::vector<Message> list;
  size_t from = 0;
  size_t to = 0;
  const auto add = [&](size_t bytes, Offsets offsets) {
    from = (from + 15) / 16 * 16 + offsets.from;
    to = (to + 15) / 16 * 16 + kGuardBytes + offsets.to;
    list.push_back({from, to, bytes});
    from += bytes;
    to += bytes + kGuardBytes;
  };
  for (const size_t bytes : {0u, 1u, 2u, 3u, 7u, 8u, 12u, 13u, 28u, 29u, 63u, 64u, 4095u, 4096u}) {
    for (const Offsets offsets : {Offsets{0, 0}, {1, 0}, {0, 1}, {3, 5}, {7, 2}}) {
      add(bytes, offsets);
    }
  }
  add(65537, {5, 3});
  add((1u << 20) + 7, {3, 1});
  return list;
}

/// Both arenas of a PE, filled, and the check of what arrived.
class Arenas {
 public:
  explicit Arenas(Runtime& pe)
      : list_(messages()),
        bytes_(list_.back().to + list_.back().bytes + 2 * kGuardBytes),
        from(pe, bytes_),
        to(pe, bytes_) {
    fill(from.data(), bytes_, static_cast<uint64_t>(pe.my_pe()));
    std::fill_n(to.data(), bytes_, kGuard);
    pe.barrier();
  }

  /// Every message is the one of `sender`, and nothing else was touched.
  void check(int sender) const {
    size_t at = 0;
    for (const Message& m : list_) {
      ASSERT_EQ(first_other(to.data() + at, m.to - at, kGuard), m.to - at)
          << "bytes before the message of " << m.bytes;
      const auto seed = static_cast<uint64_t>(sender);
      ASSERT_EQ(first_difference(to.data() + m.to, m.bytes, seed, m.from), m.bytes)
          << "of the message to +" << m.to << " from +" << m.from;
      at = m.to + m.bytes;
    }
    ASSERT_EQ(first_other(to.data() + at, bytes_ - at, kGuard), bytes_ - at) << "behind the last";
  }

  const std::vector<Message>& list() const { return list_; }

 private:
  std::vector<Message> list_;
  size_t bytes_;

 public:
  Symmetric<std::byte> from;
  Symmetric<std::byte> to;
};

/// What a kernel is told: the messages and with whom to exchange them.
struct Exchange {
  const Message* list;
  size_t count;
  std::byte* from;
  std::byte* to;
  int pe;
};

template <Reach R, class S>
PEAL_KERNEL put_all(Verdict* verdict, BasicContext<R> ctx, S scope, Exchange x) {
  for (size_t i = 0; i < x.count; ++i) {
    const Message m = x.list[i];
    expect_ok(verdict, put<R, S, void>(ctx, scope, x.to + m.to, x.from + m.from, m.bytes, x.pe));
  }
  expect_ok(verdict, quiet(ctx, scope));
}

template <Reach R, class S>
PEAL_KERNEL put_all_at_once(Verdict* verdict, BasicContext<R> ctx, S scope, Exchange x) {
  for (size_t i = 0; i < x.count; ++i) {
    const Message m = x.list[i];
    const Ticket ticket = put_nbi(ctx, scope, x.to + m.to, x.from + m.from, m.bytes, x.pe);
    expect_ok(verdict, ticket.status);
  }
  expect_ok(verdict, quiet(ctx, scope));
}

template <Reach R, class S>
PEAL_KERNEL put_by_tickets(Verdict* verdict, BasicContext<R> ctx, S scope, Exchange x) {
  for (size_t i = 0; i < x.count; ++i) {
    const Message m = x.list[i];
    const Ticket ticket = put_nbi(ctx, scope, x.to + m.to, x.from + m.from, m.bytes, x.pe);
    if (scope.leader()) {
      expect_ok(verdict, wait(ctx, ticket));
      expect(verdict, test(ctx, ticket));
      expect_ok(verdict, wait(ctx, ticket));  // may be repeated
    }
    scope.sync();
  }
  expect_ok(verdict, quiet(ctx, scope));
}

template <Reach R, class S>
PEAL_KERNEL get_all(Verdict* verdict, BasicContext<R> ctx, S scope, Exchange x) {
  for (size_t i = 0; i < x.count; ++i) {
    const Message m = x.list[i];
    expect_ok(verdict, get<R, S, void>(ctx, scope, x.to + m.to, x.from + m.from, m.bytes, x.pe));
    // Visible at once, to every lane.
    for (size_t at = scope.rank(); at < m.bytes; at += scope.size() * 61) {
      expect_eq(verdict, static_cast<unsigned>(x.to[m.to + at]),
                static_cast<unsigned>(pattern(static_cast<uint64_t>(x.pe), m.from + at)));
    }
  }
}

template <Reach R, class S>
PEAL_KERNEL get_all_at_once(Verdict* verdict, BasicContext<R> ctx, S scope, Exchange x) {
  for (size_t i = 0; i < x.count; ++i) {
    const Message m = x.list[i];
    const Ticket ticket = get_nbi(ctx, scope, x.to + m.to, x.from + m.from, m.bytes, x.pe);
    expect_ok(verdict, ticket.status);
  }
  expect_ok(verdict, quiet(ctx, scope));
}

template <Reach R, class S>
PEAL_KERNEL get_by_tickets(Verdict* verdict, BasicContext<R> ctx, S scope, Exchange x) {
  for (size_t i = 0; i < x.count; ++i) {
    const Message m = x.list[i];
    const Ticket ticket = get_nbi(ctx, scope, x.to + m.to, x.from + m.from, m.bytes, x.pe);
    if (scope.leader()) {
      while (!test(ctx, ticket)) relax();
      expect_ok(verdict, wait(ctx, ticket));
    }
    expect_ok(verdict, wait(ctx, scope, ticket));
    if (scope.leader() && m.bytes != 0) {
      expect_eq(verdict, static_cast<unsigned>(x.to[m.to + m.bytes - 1]),
                static_cast<unsigned>(pattern(static_cast<uint64_t>(x.pe), m.from + m.bytes - 1)));
    }
    scope.sync();
  }
}

template <class C>
class RmaBy : public testing::Test {
 protected:
  using Scope = typename C::Scope;
  static constexpr Reach kReach = C::kReach;
  using Kernel = void (*)(Verdict*, BasicContext<kReach>, Scope, Exchange);

  /// Every PE exchanges with the next one; `sender` says whose data then lies in a PE's arena.
  static void exchange(Kernel kernel, int sender_offset) {
    on_every_pe([&](Runtime& pe) {
      const auto context = pe.make_context<kReach>();
      const Arenas arenas(pe);
      const int next = (pe.my_pe() + 1) % pe.n_pes();
      const Exchange x{arenas.list().data(), arenas.list().size(), arenas.from.data(),
                       arenas.to.data(), next};
      run_clean(pe, C::grid(), kernel, context.value(), Scope{}, x);
      pe.barrier();
      arenas.check((pe.my_pe() + sender_offset + pe.n_pes()) % pe.n_pes());
      pe.barrier();
    });
  }
};

using Callers = testing::Types<Caller<Thread, Reach::kGpu, 1>, Caller<Thread, Reach::kBlock, 1>,
                               Caller<Thread, Reach::kLane, 1>, Caller<Warp, Reach::kGpu, 32>,
                               Caller<Warp, Reach::kBlock, 32>, Caller<Warp, Reach::kLane, 20>,
                               Caller<Block, Reach::kGpu, 80>, Caller<Block, Reach::kBlock, 64>,
                               Caller<Block, Reach::kLane, 33>>;
TYPED_TEST_SUITE(RmaBy, Callers);

TYPED_TEST(RmaBy, PutsEverySizeAndAlignment) {
  this->exchange(put_all<TestFixture::kReach, typename TestFixture::Scope>, -1);
}
TYPED_TEST(RmaBy, PutsAllBeforeOneQuiet) {
  this->exchange(put_all_at_once<TestFixture::kReach, typename TestFixture::Scope>, -1);
}
TYPED_TEST(RmaBy, WaitsForEachPutByItsTicket) {
  this->exchange(put_by_tickets<TestFixture::kReach, typename TestFixture::Scope>, -1);
}
TYPED_TEST(RmaBy, GetsEverySizeAndAlignment) {
  this->exchange(get_all<TestFixture::kReach, typename TestFixture::Scope>, 1);
}
TYPED_TEST(RmaBy, GetsAllBeforeOneQuiet) {
  this->exchange(get_all_at_once<TestFixture::kReach, typename TestFixture::Scope>, 1);
}
TYPED_TEST(RmaBy, TestsEachGetByItsTicket) {
  this->exchange(get_by_tickets<TestFixture::kReach, typename TestFixture::Scope>, 1);
}

PEAL_KERNEL put_to_all(Verdict* verdict, Context ctx, std::byte* to, const std::byte* from,
                       size_t bytes) {
  // One block a peer, this PE among them; every PE has its own place at each.
  const int peer = static_cast<int>(block_in_grid()) % n_pes(ctx);
  const size_t round = block_in_grid() / static_cast<uint32_t>(n_pes(ctx));
  const size_t slot = round * static_cast<size_t>(n_pes(ctx)) + static_cast<size_t>(my_pe(ctx));
  expect_ok(verdict, put(ctx, block, to + slot * bytes, from + round * bytes, bytes, peer));
  expect_ok(verdict, quiet(ctx, block));
}

TEST(Rma, AllPairsAtOnceFromManyBlocks) {
  on_every_pe([](Runtime& pe) {
    constexpr size_t kRounds = 4;
    constexpr size_t kBytes = 5003;
    const auto n = static_cast<size_t>(pe.n_pes());
    Symmetric<std::byte> from(pe, kRounds * kBytes);
    Symmetric<std::byte> to(pe, kRounds * n * kBytes);
    for (size_t r = 0; r < kRounds; ++r) {
      fill(from.data() + r * kBytes, kBytes, r * 100 + static_cast<size_t>(pe.my_pe()));
    }
    pe.barrier();
    run_clean(pe, {.blocks = static_cast<unsigned>(kRounds * n), .threads = 64}, put_to_all,
              pe.context(), to.data(), from.data(), kBytes);
    pe.barrier();
    for (size_t slot = 0; slot < kRounds * n; ++slot) {
      EXPECT_EQ(first_difference(to.data() + slot * kBytes, kBytes, slot / n * 100 + slot % n),
                kBytes)
          << "slot " << slot;
    }
    pe.barrier();
  });
}

PEAL_KERNEL put_by_each_lane(Verdict* verdict, Context ctx, uint32_t* to, const uint32_t* from,
                             size_t each) {
  const size_t lane = block_in_grid() * threads_in_block() + thread_in_block();
  const int peer = static_cast<int>(lane) % n_pes(ctx);
  const size_t lanes = size_t{blocks_in_grid()} * threads_in_block();
  const size_t slot = static_cast<size_t>(my_pe(ctx)) * lanes + lane;
  expect_ok(verdict, put(ctx, to + slot * each, from + lane * each, each, peer));
  expect_ok(verdict, quiet(ctx));
}

TEST(Rma, LanesPutDifferentDataToDifferentPeers) {
  on_every_pe([](Runtime& pe) {
    constexpr size_t kLanes = 6 * 96;
    for (const size_t each : {1u, 3u, 7u, 8u, 40u}) {
      const auto n = static_cast<size_t>(pe.n_pes());
      Symmetric<uint32_t> from(pe, kLanes * each);
      Symmetric<uint32_t> to(pe, n * kLanes * each);
      for (size_t i = 0; i < kLanes * each; ++i) {
        from[i] = static_cast<uint32_t>(i * 64 + static_cast<size_t>(pe.my_pe()) + 1);
      }
      pe.barrier();
      run_clean(pe, {.blocks = 6, .threads = 96}, put_by_each_lane, pe.context(), to.data(),
                from.data(), each);
      pe.barrier();
      for (size_t sender = 0; sender < n; ++sender) {
        for (size_t i = 0; i < kLanes * each; ++i) {
          const bool mine = i / each % n == static_cast<size_t>(pe.my_pe());
          ASSERT_EQ(to[sender * kLanes * each + i], mine ? i * 64 + sender + 1 : 0)
              << "lane " << i / each << " of PE " << sender;
        }
      }
      pe.barrier();
    }
  });
}

template <class T>
PEAL_KERNEL put_and_read_back(Verdict* verdict, Context ctx, T* box, int peer) {
  const auto value =
      static_cast<T>(0x0123456789abcdefu * (static_cast<uint64_t>(peer) + 3) + thread_in_block());
  T* const mine = box + static_cast<uint32_t>(my_pe(ctx)) * threads_in_block() + thread_in_block();
  expect_ok(verdict, p(ctx, mine, value, peer));
  expect_ok(verdict, quiet(ctx));
  const auto back = g(ctx, mine, peer);
  expect_ok(verdict, back.status);
  expect_eq(verdict, static_cast<unsigned long long>(back.value),
            static_cast<unsigned long long>(value));
}

template <class T>
class RmaValue : public testing::Test {};
using Values = testing::Types<uint8_t, uint16_t, uint32_t, uint64_t, int8_t, int64_t>;
TYPED_TEST_SUITE(RmaValue, Values);

TYPED_TEST(RmaValue, WhatPWritesGReads) {
  on_every_pe([](Runtime& pe) {
    constexpr unsigned kThreads = 70;
    const auto n = static_cast<size_t>(pe.n_pes());
    Symmetric<TypeParam> box(pe, kThreads * n);
    for (int distance = 0; distance < pe.n_pes(); ++distance) {
      const int peer = (pe.my_pe() + distance) % pe.n_pes();
      run_clean(pe, {.blocks = 1, .threads = kThreads}, put_and_read_back<TypeParam>, pe.context(),
                box.data(), peer);
    }
    pe.barrier();
    for (size_t i = 0; i < kThreads * n; ++i) {
      ASSERT_EQ(box[i],
                static_cast<TypeParam>(
                    0x0123456789abcdefu * (static_cast<uint64_t>(pe.my_pe()) + 3) + i % kThreads));
    }
    pe.barrier();
  });
}

struct Triple {
  uint32_t a;
  float b;
  char c;
};

PEAL_KERNEL put_typed(Verdict* verdict, Context ctx, Triple* to, const Triple* from,
                      double* numbers, int peer) {
  expect_ok(verdict, put(ctx, warp, to, from, 5, peer));
  expect_ok(verdict, get(ctx, warp, numbers, numbers + 10, 3, peer));
  expect_ok(verdict, quiet(ctx, warp));
}

TEST(Rma, CountsAreInElements) {
  on_every_pe([](Runtime& pe) {
    Symmetric<Triple> to(pe, 6);
    Symmetric<Triple> from(pe, 6);
    Symmetric<double> numbers(pe, 13);
    const int me = pe.my_pe();
    for (int i = 0; i < 6; ++i) {
      from[static_cast<size_t>(i)] = {static_cast<uint32_t>(i + 10 * me), 0.5f, 'x'};
    }
    for (size_t i = 10; i < 13; ++i) numbers[i] = me + 0.25;
    pe.barrier();
    const int peer = (me + 1) % pe.n_pes();
    run_clean(pe, {.blocks = 1, .threads = 32}, put_typed, pe.context(), to.data(), from.data(),
              numbers.data(), peer);
    pe.barrier();
    const int sender = (me + pe.n_pes() - 1) % pe.n_pes();
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(to[static_cast<size_t>(i)].a, static_cast<uint32_t>(i + 10 * sender));
      EXPECT_EQ(to[static_cast<size_t>(i)].c, 'x');
    }
    EXPECT_EQ(to[5].c, 0);
    EXPECT_EQ(numbers[2], peer + 0.25);
    EXPECT_EQ(numbers[3], 0);
    pe.barrier();
  });
}

template <Reach R, class S>
PEAL_KERNEL strided(Verdict* verdict, BasicContext<R> ctx, S scope, uint32_t* to, uint32_t* from,
                    uint32_t* back, size_t count, int peer) {
  expect_ok(verdict, iput(ctx, scope, to, from, {.dst = 3, .src = 2}, count, peer));
  expect_ok(verdict, quiet(ctx, scope));
  expect_ok(verdict, iget(ctx, scope, back, to, {.dst = 2, .src = 3}, count, peer));
  for (size_t i = scope.rank(); i < count; i += scope.size()) {
    expect_eq(verdict, back[2 * i], from[2 * i]);
  }
}

TYPED_TEST(RmaBy, CopiesElementsWithStrides) {
  on_every_pe([](Runtime& pe) {
    constexpr size_t kCount = 700;  // more than the queue holds
    const auto context = pe.make_context<TestFixture::kReach>({.depth = 128});
    Symmetric<uint32_t> to(pe, 3 * kCount);
    Symmetric<uint32_t> from(pe, 2 * kCount);
    Symmetric<uint32_t> back(pe, 2 * kCount);
    const auto me = static_cast<uint32_t>(pe.my_pe());
    for (uint32_t i = 0; i < 2 * kCount; ++i) from[i] = 1 + i * 16 + me;
    pe.barrier();
    run_clean(pe, TypeParam::grid(), strided<TestFixture::kReach, typename TestFixture::Scope>,
              context.value(), typename TestFixture::Scope{}, to.data(), from.data(), back.data(),
              kCount, (pe.my_pe() + 1) % pe.n_pes());
    pe.barrier();
    const auto n = static_cast<uint32_t>(pe.n_pes());
    const uint32_t sender = (me + n - 1) % n;
    for (uint32_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(to[3 * i], 1 + 2 * i * 16 + sender);
      ASSERT_EQ(to[3 * i + 1], 0u);
      ASSERT_EQ(to[3 * i + 2], 0u);
      ASSERT_EQ(back[2 * i + 1], 0u);
    }
    pe.barrier();
  });
}

PEAL_KERNEL strided_backwards(Verdict* verdict, Context ctx, uint16_t* to, const uint16_t* from,
                              size_t count, int peer) {
  expect_ok(verdict, iput(ctx, warp, to + count - 1, from, {.dst = -1, .src = 1}, count, peer));
  expect_ok(verdict, quiet(ctx, warp));
}

TEST(Rma, StridesMayBeNegative) {
  on_every_pe([](Runtime& pe) {
    Symmetric<uint16_t> to(pe, 50);
    Symmetric<uint16_t> from(pe, 50);
    for (uint16_t i = 0; i < 50; ++i) from[i] = static_cast<uint16_t>(i + 1);
    pe.barrier();
    run_clean(pe, {.blocks = 1, .threads = 32}, strided_backwards, pe.context(), to.data(),
              from.data(), size_t{50}, (pe.my_pe() + 1) % pe.n_pes());
    pe.barrier();
    for (size_t i = 0; i < 50; ++i) ASSERT_EQ(to[i], 50 - i);
    pe.barrier();
  });
}

}  // namespace
}  // namespace peal::api_test
