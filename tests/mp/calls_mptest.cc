// SPDX-License-Identifier: Apache-2.0
//
// What the host calls: on a stream, at once, by ticket, recorded in a graph.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/job.h"

namespace peal::api_test {
namespace {

int next_of(const Runtime& pe) { return (pe.my_pe() + 1) % pe.n_pes(); }
int before(const Runtime& pe) { return (pe.my_pe() + pe.n_pes() - 1) % pe.n_pes(); }

/// What `body` throws, or nothing.
template <class Body>
std::string thrown(const Body& body) {
  try {
    body();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

PEAL_KERNEL fill(uint64_t* data, size_t count, uint64_t from) {
  for (size_t i = thread_in_block(); i < count; i += threads_in_block()) data[i] = from + i;
}

PEAL_KERNEL add_one(uint64_t* to, const uint64_t* from, size_t count) {
  for (size_t i = thread_in_block(); i < count; i += threads_in_block()) to[i] = from[i] + 1;
}

/// Kernel, put, signal, wait, kernel: each relies on the one before it.
void pass_on(Runtime& pe, Stream& stream, uint64_t* data, uint64_t* flag, size_t count) {
  const StreamCalls on = pe.on(stream);
  const auto me = static_cast<uint64_t>(pe.my_pe());
  launch({.threads = 64, .stream = stream}, fill, data, count, 1000 * me);
  on.put_signal(data + count, data, count, Signal::add(flag, 1, next_of(pe)));
  on.wait_until(flag, Compare::kGe, 1);
  launch({.threads = 64, .stream = stream}, add_one, data + 2 * count, data + count, count);
}

TEST(Calls, AStreamKeepsTheOrderOfKernelsAndCalls) {
  on_every_pe([](Runtime& pe) {
    for (const size_t count : {size_t{1}, size_t{1000}, size_t{50000}}) {
      Symmetric<uint64_t> data(pe, 3 * count);
      Symmetric<uint64_t> flag(pe, 1);
      Stream stream;
      pass_on(pe, stream, data.data(), flag.data(), count);
      stream.synchronize();
      pe.check();
      const auto from = static_cast<uint64_t>(before(pe));
      EXPECT_EQ(data[2 * count], 1000 * from + 1);
      EXPECT_EQ(data[3 * count - 1], 1000 * from + count);
      pe.barrier();
    }
  });
}

TEST(Calls, GetSignalsQuietAndBarriers) {
  on_every_pe([](Runtime& pe) {
    Symmetric<uint64_t> data(pe, 6);
    Symmetric<uint64_t> flag(pe, 2);
    Stream stream;
    const StreamCalls on = pe.on(stream);
    data[0] = 70 + static_cast<uint64_t>(pe.my_pe());
    on.barrier_all();
    on.get(data.data() + 1, data.data(), 1, next_of(pe));
    on.put(data.data() + 2, data.data(), 1, next_of(pe));
    on.p(data.data() + 3, 5, next_of(pe));
    on.fence();
    on.signal(Signal::set(flag.data(), 3, next_of(pe)));
    on.signal(Signal::add(flag.data() + 1, 4, next_of(pe)));
    on.quiet();
    on.wait_until(flag.data(), Compare::kEq, 3);
    on.wait_until(flag.data() + 1, Compare::kEq, 4);
    on.sync_all();
    stream.synchronize();
    pe.check();
    EXPECT_EQ(data[1], 70 + static_cast<uint64_t>(next_of(pe)));
    EXPECT_EQ(data[2], 70 + static_cast<uint64_t>(before(pe)));
    EXPECT_EQ(data[3], 5u);
  });
}

TEST(Calls, FromTheHostOneAfterTheOther) {
  on_every_pe([](Runtime& pe) {
    const HostCalls host = pe.host();
    Symmetric<uint64_t> data(pe, 4);
    Symmetric<int32_t> word(pe, 1);
    host.p(data.data(), 9 + static_cast<uint64_t>(pe.my_pe()), next_of(pe));
    host.barrier_all();
    EXPECT_EQ(data[0], 9 + static_cast<uint64_t>(before(pe)));
    EXPECT_EQ(host.g(data.data(), next_of(pe)), 9 + static_cast<uint64_t>(pe.my_pe()));
    host.atomic_add(data.data() + 1, 3, 0);
    host.atomic_inc(data.data() + 1, 0);
    host.barrier_all();
    EXPECT_EQ(host.atomic_fetch(data.data() + 1, 0), 4 * static_cast<uint64_t>(pe.n_pes()));
    host.barrier_all();
    if (pe.my_pe() == 0) {
      const int peer = pe.n_pes() - 1;
      host.atomic_set(word.data(), 6, peer);
      EXPECT_EQ(host.atomic_swap(word.data(), -7, peer), 6);
      EXPECT_EQ(host.atomic_compare_swap(word.data(), 1, 2, peer), -7);
      EXPECT_EQ(host.atomic_compare_swap(word.data(), -7, 12, peer), -7);
      EXPECT_EQ(host.atomic_fetch_add(word.data(), -2, peer), 12);
      EXPECT_EQ(host.atomic_fetch_inc(word.data(), peer), 10);
      EXPECT_EQ(host.atomic_fetch_and(word.data(), 3, peer), 11);
      EXPECT_EQ(host.atomic_fetch_or(word.data(), 4, peer), 3);
      EXPECT_EQ(host.atomic_fetch_xor(word.data(), 1, peer), 7);
      host.atomic_or(word.data(), 8, peer);
      host.atomic_and(word.data(), 12, peer);
      host.atomic_xor(word.data(), 5, peer);
      EXPECT_EQ(host.atomic_fetch(word.data(), peer), 9);
    }
    host.barrier_all();
  });
}

TEST(Calls, TicketsTellOfWhatIsDone) {
  on_every_pe([](Runtime& pe) {
    const TicketCalls calls = pe.host_nbi();
    Symmetric<uint64_t> data(pe, 2);
    Symmetric<uint64_t> flag(pe, 1);
    data[0] = 40 + static_cast<uint64_t>(pe.my_pe());
    const CallTicket put =
        calls.put_signal(data.data() + 1, data.data(), 1, Signal::set(flag.data(), 1, next_of(pe)));
    const CallTicket waited = calls.wait_until(flag.data(), Compare::kEq, 1);
    waited.wait();
    EXPECT_TRUE(put.test());
    EXPECT_TRUE(waited.test());
    EXPECT_EQ(data[1], 40 + static_cast<uint64_t>(before(pe)));
    pe.barrier();
  });
}

/// A captured round: what PE `before` has in `data`, and the sum of all.
void capture_round(Runtime& pe, const Stream& stream, const Team& team, uint64_t* data,
                   uint64_t* flag) {
  const StreamCalls on = pe.on(stream);
  on.put_signal(data + 1, data, 1, Signal::add(flag, 1, next_of(pe)));
  on.all_reduce(team, data + 2, data, 1, op::sum);
  on.barrier_all();
  launch({.stream = stream}, add_one, data, data, 1);
}

TEST(Calls, AGraphRunsManyTimesAndAcrossChanges) {
  on_every_pe([](Runtime& pe) {
    constexpr uint64_t kRounds = 20;
    Symmetric<uint64_t> data(pe, 3);
    Symmetric<uint64_t> flag(pe, 1);
    const Team team = pe.split_team(pe.world(), 0, 0, {.contexts = 1});
    const Stream stream;  // as on a GPU
    stream.begin_capture();
    capture_round(pe, stream, team, data.data(), flag.data());
    const Graph graph = stream.end_capture();
    EXPECT_EQ(flag[0], 0u);
    const auto rounds = [&](uint64_t done) {
      for (uint64_t i = 0; i < kRounds; ++i) graph.launch(stream);
      stream.synchronize();
      pe.check();
      const uint64_t last = done + kRounds - 1;
      EXPECT_EQ(data[1], last);
      EXPECT_EQ(data[2], last * static_cast<uint64_t>(pe.n_pes()));
      EXPECT_EQ(flag[0], done + kRounds);
      pe.barrier();
    };
    pe.barrier();
    rounds(0);
    const auto other = pe.make_context();
    rounds(kRounds);
    pe.recover();
    pe.barrier();
    rounds(2 * kRounds);
    pe.barrier();
    pe.free_team(team);
  });
}

TEST(Calls, AGraphOfATeamThatWasFreedFails) {
  on_every_pe([](Runtime& pe) {
    Symmetric<uint64_t> data(pe, 2);
    const Team team = pe.split_team(pe.world(), 0, 0, {.contexts = 1});
    Stream stream;
    stream.begin_capture();
    pe.on(stream).all_reduce(team, data.data() + 1, data.data(), 1, op::sum);
    const Graph graph = stream.end_capture();
    pe.free_team(team);
    // Another team in its place is not taken for it.
    const Team other = pe.split_team(pe.world(), 0, 0, {.contexts = 1});
    data[1] = 77;
    graph.launch(stream);
    stream.synchronize();
    EXPECT_EQ(pe.status(), Status::kBadTeam);
    EXPECT_TRUE(has(pe.failure().text, "all_reduce")) << pe.failure().text;
    EXPECT_EQ(data[1], 77u);
    pe.barrier();
    pe.recover();
    EXPECT_EQ(pe.status(), Status::kOk);
    pe.free_team(other);
  });
}

TEST(Calls, WrongArgumentsAreRefusedByName) {
  on_every_pe([](Runtime& pe) {
    Symmetric<uint64_t> data(pe, 8);
    Stream stream;
    const StreamCalls on = pe.on(stream);
    uint64_t outside = 0;
    const int none = pe.n_pes();
    EXPECT_TRUE(
        has(thrown([&] { on.put(data.data(), data.data(), 1, none); }), "put: there is no PE"));
    EXPECT_TRUE(
        has(thrown([&] { on.get(data.data(), data.data(), 1, -1); }), "get: there is no PE"));
    EXPECT_TRUE(has(thrown([&] { on.put(&outside, data.data(), 1, 0); }), "not symmetric"));
    EXPECT_TRUE(has(thrown([&] { on.put(data.data(), data.data(), size_t{1} << 40, 0); }),
                    "not symmetric"));
    // 16 bytes, in the 64 bits that a product has.
    const size_t wraps = (size_t{1} << 61) + 2;
    const Team all = pe.world();
    const std::string beyond = "more bytes than there are addresses";
    EXPECT_TRUE(has(thrown([&] { on.put(data.data(), data.data(), wraps, 0); }), beyond));
    EXPECT_TRUE(has(thrown([&] { on.get(data.data(), data.data(), wraps, 0); }), beyond));
    EXPECT_TRUE(
        has(thrown([&] { on.broadcast(all, data.data(), data.data(), wraps, 0); }), beyond));
    EXPECT_TRUE(
        has(thrown([&] { on.all_reduce(all, data.data(), data.data(), wraps, op::sum); }), beyond));
    const size_t each = wraps / static_cast<size_t>(none) + 1;  // wraps with all members' blocks
    EXPECT_TRUE(has(thrown([&] { on.all_gather(all, data.data(), data.data(), each); }), "dst"));
    // A call of no bytes asks nothing of its arguments.
    uint64_t* const nowhere = nullptr;
    on.put(nowhere, nowhere, 0, 0);
    on.get(nowhere, nowhere, 0, 0);
    on.broadcast(all, nowhere, nowhere, 0, 0);
    on.all_reduce(all, nowhere, nowhere, 0, op::sum);
    on.all_gather(all, nowhere, nowhere, 0);
    EXPECT_TRUE(has(thrown([&] { on.signal(Signal::set(&outside, 1, 0)); }), "signal: the word"));
    auto* const odd = reinterpret_cast<uint64_t*>(reinterpret_cast<char*>(data.data()) + 4);
    EXPECT_TRUE(has(thrown([&] { on.atomic_add(odd, 1, 0); }), "no multiple of 8"));
    EXPECT_TRUE(has(thrown([&] { on.wait_until(&outside, Compare::kEq, 1); }), "wait_until"));
    EXPECT_TRUE(has(thrown([&] { on.broadcast(pe.world(), data.data(), data.data(), 1, none); }),
                    "there is no root"));
    EXPECT_TRUE(has(thrown([&] { on.sync(Team{}); }), "sync: PE"));
    EXPECT_TRUE(has(thrown([&] { pe.on(nullptr).quiet(); }), without_nic(pe) ? "" : "stream null"));
    stream.begin_capture();
    EXPECT_TRUE(has(thrown([&] { stream.synchronize(); }), "captures"));
    stream.end_capture();
    stream.synchronize();
    pe.check();
    pe.barrier();
  });
}

/// Two calls at once of one context and team: the other PEs' first, of which nobody knows which
/// comes first, waits for PE 0; their second one is refused. `begin(stream)` gives one to a stream.
template <class Begin>
void expect_one_refused(Runtime& pe, uint64_t* data, const Begin& begin) {
  const bool late = pe.my_pe() == 0;
  Stream streams[2];
  data[0] = 1;
  data[1] = 0;
  pe.barrier();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  if (!late) {
    begin(streams[0]);
    begin(streams[1]);
    while (pe.status() == Status::kOk && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
    EXPECT_EQ(pe.status(), Status::kTeamBusy) << pe.failure().text;
    EXPECT_TRUE(has(pe.failure().text, "all_reduce from the host, team 0x0")) << pe.failure().text;
    EXPECT_TRUE(has(pe.failure().text, "all_reduce, of another stream")) << pe.failure().text;
  }
  pe.barrier();
  if (late) begin(streams[0]);
  for (Stream& stream : streams) stream.synchronize();
  EXPECT_EQ(data[1], static_cast<uint64_t>(pe.n_pes()));  // of the call that was under way
  pe.barrier();
  pe.recover();
  pe.host().all_reduce(pe.world(), data + 2, data, 1, op::sum);
  EXPECT_EQ(data[2], static_cast<uint64_t>(pe.n_pes()));
}

/// Hazard: calls of one context and team on two streams took each other's lines for their own, and
/// 397 of 400 sums were wrong, with kOk.
TEST(Calls, OfOneContextAndTeamOnTwoStreamsAreRefused) {
  on_every_pe([](Runtime& pe) {
    if (pe.n_pes() == 1) return;
    Symmetric<uint64_t> data(pe, 4);
    expect_one_refused(pe, data.data(), [&](Stream& stream) {
      pe.on(stream).all_reduce(pe.world(), data.data() + 1, data.data(), 1, op::sum);
    });
    expect_one_refused(pe, data.data(), [&](Stream& stream) {
      stream.begin_capture();
      pe.on(stream).all_reduce(pe.world(), data.data() + 1, data.data(), 1, op::sum);
      stream.end_capture().launch(stream);
    });
  });
}

TEST(Calls, HostsCompareTheArgumentsOfCollectiveCalls) {
  on_every_pe([](Runtime& pe) {
    if (pe.n_pes() == 1) return;
    Symmetric<int> data(pe, 64);
    const size_t count = pe.my_pe() == 0 ? 5 : 6;
    const std::string text = thrown(
        [&] { pe.host().all_reduce(pe.world(), data.data() + 32, data.data(), count, op::sum); });
    EXPECT_TRUE(has(text, "all_reduce of team 0x0: PE 0 has count 5, PE 1 has 6")) << text;
    pe.check();
    pe.host().all_reduce(pe.world(), data.data() + 32, data.data(), 5, op::sum);
  });
}

TEST(Calls, AWaitInAStreamEndsAndIsTold) {
  on_every_pe([](Runtime& pe) {
    Symmetric<uint64_t> flag(pe, 1);
    Stream stream;
    pe.on(stream).wait_until(flag.data(), Compare::kEq, 1);
    pe.barrier();
    if (pe.my_pe() == 0) pe.abort("enough");
    stream.synchronize();
    EXPECT_EQ(pe.status(), Status::kAborted);
    EXPECT_TRUE(has(thrown([&] { pe.check(); }), "enough"));
    pe.barrier();
    pe.recover();
  });
}

}  // namespace
}  // namespace peal::api_test
