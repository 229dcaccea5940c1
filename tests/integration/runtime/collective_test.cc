// SPDX-License-Identifier: Apache-2.0
//
// What a collective call leaves behind when it fails on one PE, how the end of a Runtime meets the
// peers, and collective calls whose algorithm is forced.
#include <gtest/gtest.h>

#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "device/shared/team_memory.h"
#include "host/base/algorithm_names.h"
#include "tests/support/error_of.h"
#include "tests/support/gpu_job.h"
#include "tests/support/require.h"

namespace peal::api_test {
namespace {

/// Hazard: a PE whose part of a collective call failed threw by itself, and the others waited for
/// it until PEAL_BOOTSTRAP_TIMEOUT.
TEST_F(RuntimeOnGpu, CallsThatFailOnOnePeFailOnAllWithItsWords) {
  config_.transport = TransportKind::kIbgda;
  bootstrap::run_processes(2, [&](Bootstrap& group) {
    Runtime pe = start(group);
    const auto fails = [&](const char* symbol, const char* part, const auto& call) {
      if (pe.my_pe() == 1) fake_.refuse[symbol] = 2;
      const std::string why = error_of(call).what();
      fake_.refuse.clear();
      const bool told = why.find("PE 1: ") == 0 && why.find(part) != std::string::npos;
      if (!told) std::cerr << "PE " << pe.my_pe() << ", " << symbol << ": " << why << "\n";
      pe.barrier();  // the group is as good as before
      return told;
    };
    const auto make = [&] { pe.make_context(); };
    const auto recover = [&] { pe.recover(); };
    const auto allocate = [&] { pe.allocate<uint64_t>(4); };
    auto* const words = pe.allocate<uint64_t>(4);
    const auto add_window = [&] { pe.register_window(words, 32); };
    if (!fails("cuMemAlloc", "of memory for queues on GPU 1", make)) return 1;
    if (!fails("cuMemcpyAsync", "cuMemcpyAsync", make)) return 2;
    if (!fails("cuMemcpyAsync", "cuMemcpyAsync", recover)) return 3;
    if (!fails("cuMemsetD8Async", "cuMemsetD8Async", recover)) return 4;
    if (!fails("cuMemsetD8Async", "cuMemsetD8Async", allocate)) return 5;
    if (!fails("cuMemcpyAsync", "cuMemcpyAsync", add_window)) return 7;
    if (pe.context().windows->count != 1) return 8;
    pe.recover();
    const auto more = pe.make_context();
    pe.barrier();
    return pe.status() == Status::kOk ? 0 : 6;
  });
}

/// A PE alone, whose barriers are counted.
class CountingBootstrap : public Bootstrap {
 public:
  explicit CountingBootstrap(int& barriers) : barriers_(barriers) {}
  int rank() const override { return one_->rank(); }
  int size() const override { return one_->size(); }
  void allgather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    one_->allgather(mine, all);
  }
  void barrier() override {
    ++barriers_;
    one_->barrier();
  }
  [[noreturn]] void abort(const std::string& reason) override {
    one_->abort(reason);
    std::abort();  // g++ does not know that the call above stays
  }

 private:
  std::unique_ptr<Bootstrap> one_ = bootstrap::make_single();
  int& barriers_;
};

/// Hazard: assignment released a Runtime's memory while peers could still be using it. The end of
/// a Runtime meets the peers before and after the mappings end, however it comes.
TEST(Runtime, ThatIsAssignedToEndsAsADestroyedOneDoes) {
  int destroyed = 0, assigned = 0, next = 0;
  const auto start = [](int& barriers) {
    return Runtime(std::make_unique<CountingBootstrap>(barriers), small_config());
  };
  int before = 0;
  {
    const Runtime pe = start(destroyed);
    before = destroyed;
  }
  Runtime pe = start(assigned);
  ASSERT_EQ(assigned, before);
  pe = start(next);
  EXPECT_EQ(assigned, destroyed);
  EXPECT_EQ(assigned, before + 2);
  EXPECT_EQ(next, before) << "the new one goes on";
  EXPECT_EQ(pe.status(), Status::kOk);
}

// Hazard: a PE in malloc and one in register_window were told of an "allgather #107 of 108 bytes".
TEST(CollectiveCalls, AreNamedWherePesMakeDifferentOnes) {
  bootstrap::run_threads(2, [](Bootstrap& group) {
    Runtime pe = peal::api_test::start(group);
    std::vector<uint64_t> memory(8);
    const Error error = error_of([&] {
      if (pe.my_pe() == 0) return static_cast<void>(pe.malloc(64));
      pe.register_window(memory.data(), 64);
    });
    expect_error(error, ErrorCode::kInvalidArgument,
                 {"rank 1 of 2 is in register_window #", "rank 0 in malloc #"});
  });
}

// PEAL_ALGORITHM: a call goes by the algorithm that is forced, as its counters tell, and gives the
// same result; one that does not fit is refused, and no other call.

constexpr int kPes = 3;

/// What one PE calls: words at `dst` and `src`, `count` to each member.
struct Words {
  uint64_t* dst;
  uint64_t* src;
  size_t count;
};

PEAL_DEVICE Status make(const Context& ctx, const Team& team, Call which, const Words& words) {
  const auto& [dst, src, count] = words;
  switch (which) {
    case Call::kBroadcast:
      return broadcast(ctx, block, team, dst, src, count, 1);
    case Call::kAllGather:
      return all_gather(ctx, block, team, dst, src, count);
    case Call::kAllToAll:
      return all_to_all(ctx, block, team, dst, src, count);
    case Call::kScan:
      return scan(ctx, block, team, dst, src, count, op::sum);
    default:
      return all_reduce(ctx, block, team, dst, src, count, op::sum);
  }
}
PEAL_KERNEL make_call(Context ctx, Team team, Call which, Words words, Status* answer) {
  const Status status = make(ctx, team, which, words);
  if (thread_in_block() == 0) *answer = status;
}

uint64_t word_of(int pe, size_t k) { return 1000 * static_cast<uint64_t>(pe + 1) + k; }

/// What word `k` of the destination becomes at a PE; all members give word_of().
uint64_t result_of(Call which, int pe, size_t count, size_t k) {
  const int block = static_cast<int>(k / count);
  uint64_t sum = 0;
  for (int i = 0; i < kPes && (which != Call::kScan || i <= pe); ++i) sum += word_of(i, k);
  if (which == Call::kBroadcast) return word_of(1, k);
  if (which == Call::kAllGather) return word_of(block, k % count);
  if (which == Call::kAllToAll) return word_of(block, static_cast<size_t>(pe) * count + k % count);
  return sum;
}

size_t blocks_of(Call which) {
  return which == Call::kAllGather || which == Call::kAllToAll ? kPes : 1;
}

struct Case {
  const char* forced;
  size_t count;
  bool in_place = false;
  uint32_t meetings = 0;  // that the call makes
  uint32_t exchanges = 0;
};

/// One call, on memory of its own; its answer, and what it counted.
struct Made {
  Status status;
  uint32_t meetings;
  uint32_t exchanges;
};
Made call_once(Runtime& pe, Call which, const Words& words) {
  const Context ctx = pe.context();
  const auto& counters = collective::Part::of(pe.world(), ctx.slot).counters(0);
  const uint32_t meetings = counters.meetings;
  const uint32_t exchanges = counters.exchanges;
  Status answer = Status::kAborted;
  launch({.blocks = 1, .threads = 64}, make_call, ctx, pe.world(), which, words, &answer).wait();
  return {answer, counters.meetings - meetings, counters.exchanges - exchanges};
}

void try_case(Runtime& pe, const Case& tested) {
  const Call which = forced_algorithm(tested.forced).call;
  const size_t words = blocks_of(which) * tested.count;
  const Symmetric<uint64_t> dst(pe, words);
  const Symmetric<uint64_t> src(pe, words);
  uint64_t* const from = tested.in_place ? dst.data() : src.data();
  for (size_t k = 0; k < words; ++k) from[k] = word_of(pe.my_pe(), k);
  pe.barrier();
  const Made made = call_once(pe, which, {dst.data(), from, tested.count});
  EXPECT_EQ(made.status, Status::kOk) << tested.forced << ": " << pe.failure().text;
  EXPECT_EQ(made.meetings, tested.meetings) << tested.forced;
  EXPECT_EQ(made.exchanges, tested.exchanges) << tested.forced;
  for (size_t k = 0; k < words; ++k) {
    ASSERT_EQ(dst[k], result_of(which, pe.my_pe(), tested.count, k)) << tested.forced << ", " << k;
  }
  pe.barrier();
}

/// `body` on every PE of a job in which the algorithm is forced.
void with_forced(TransportKind transport, const std::string& forced,
                 const std::function<void(Runtime&)>& body) {
  Config config = small_config();
  config.transport = transport;
  config.report_failures = false;
  config.algorithm = forced_algorithm(forced);
  require(config.algorithm.algorithm != collective::Algorithm::kAny, forced);
  bootstrap::run_threads(kPes, [&](Bootstrap& group) {
    Runtime pe = start(group, config);
    body(pe);
    pe.barrier();
  });
}

void try_all(TransportKind transport, const std::vector<Case>& cases) {
  for (const Case& tested : cases) {
    with_forced(transport, tested.forced, [&](Runtime& pe) { try_case(pe, tested); });
  }
}

TEST(ForcedAlgorithm, IsTakenOverMappedMemory) {
  try_all(TransportKind::kP2p, {{"all_reduce:exchange", 4, false, 0, 1},
                                {"all_reduce:shares", 4, false, 2, 0},
                                {"scan:shares", 4, true, 2, 0},
                                {"broadcast:fetch", 3, false, 2, 0},
                                {"broadcast:relay", 3, false, 2, 0},
                                {"broadcast:fetch", 5000, false, 2, 0},
                                {"all_gather:store", 2, false, 2, 0},
                                {"all_to_all:store", 2, false, 2, 0},
                                {"all_to_all:swap", 2, true, 2, 0}});
}

TEST(ForcedAlgorithm, IsTakenByTheNic) {
  try_all(TransportKind::kIbgda, {{"all_reduce:bruck", 4, false, 1, 0},
                                  {"all_reduce:stage", 30, false, 2, 0},
                                  {"all_reduce:in_destination", 30, false, 4, 0},
                                  {"scan:stage", 4, true, 2, 0},
                                  {"broadcast:scatter", 30, false, 3, 0},
                                  {"all_gather:put", 2, false, 2, 0},
                                  {"all_to_all:put", 2, false, 2, 0},
                                  {"all_to_all:stage", 2, true, 3, 0}});
}

TEST(ForcedAlgorithm, LeavesOtherCallsAlone) {
  with_forced(TransportKind::kP2p, "broadcast:relay", [](Runtime& pe) {
    try_case(pe, {"all_reduce:exchange", 4, false, 0, 1});
    try_case(pe, {"all_reduce:shares", 5000, false, 2, 0});
    const Team half = pe.split_team(pe.world(), pe.my_pe() / 2);
    EXPECT_EQ(collective::ForcedAlgorithm::of(half.apart).algorithm, collective::Algorithm::kRelay);
    pe.free_team(half);
  });
}

struct Misfit {
  const char* forced;
  TransportKind transport;
  size_t count;
  bool in_place;
  std::vector<std::string> told;  // the constraint, and the remedy
};

TEST(ForcedAlgorithm, ThatDoesNotFitIsRefusedAndToldOf) {
  const std::string unset = "unset PEAL_ALGORITHM";
  const auto p2p = TransportKind::kP2p;
  const auto nic = TransportKind::kIbgda;
  const std::vector<Misfit> misfits = {
      {"all_reduce:exchange", p2p, 5000, false, {"up to W / 4n", "TeamOptions::workspace", unset}},
      {"all_reduce:exchange", nic, 4, false, {"all mapped", "split_node_team"}},
      {"all_reduce:bruck", p2p, 4, false, {"some by the NIC only", "PEAL_TRANSPORT=ibgda"}},
      {"all_reduce:bruck", nic, 5000, false, {"up to W / 2n", "TeamOptions::workspace", unset}},
      {"all_reduce:in_destination", nic, 30, true, {"not in place", "another dst", unset}},
      {"all_reduce:in_destination", nic, 1, false, {"room in `dst`", "more elements", unset}},
      {"all_to_all:swap", p2p, 2, false, {"in place", unset}},
      {"all_to_all:put", nic, 2, true, {"not in place", unset}},
  };
  for (const Misfit& misfit : misfits) {
    with_forced(misfit.transport, misfit.forced, [&](Runtime& pe) {
      const Call which = forced_algorithm(misfit.forced).call;
      const Symmetric<uint64_t> dst(pe, kPes * misfit.count);
      const Symmetric<uint64_t> src(pe, kPes * misfit.count);
      uint64_t* const from = misfit.in_place ? dst.data() : src.data();
      const Made made = call_once(pe, which, {dst.data(), from, misfit.count});
      EXPECT_EQ(made.status, Status::kBadAlgorithm) << misfit.forced;
      EXPECT_EQ(made.meetings + made.exchanges, 0u) << "nobody was told of it";
      const Failure failure = pe.failure();
      EXPECT_EQ(failure.status, Status::kBadAlgorithm);
      const std::string begin = std::string("PEAL_ALGORITHM=") + misfit.forced;
      expect_in(failure.text, {begin, std::to_string(8 * misfit.count) + " bytes"});
      for (const std::string& part : misfit.told) expect_in(failure.text, {part});
      pe.recover();
      EXPECT_EQ(pe.status(), Status::kOk);
    });
  }
}

TEST(ForcedAlgorithm, IsAlikeOnAllPes) {
  bootstrap::run_threads(2, [](Bootstrap& group) {
    Config config = small_config();
    if (group.rank() == 1) config.algorithm = forced_algorithm("all_reduce:stage");
    expect_error(error_of([&] { start(group, config); }), ErrorCode::kConfiguration,
                 {"PE 1 has", "another PEAL_ALGORITHM"});
  });
}

}  // namespace
}  // namespace peal::api_test

int main(int argc, char** argv) { return peal::api_test::run_tests(argc, argv); }
