// SPDX-License-Identifier: Apache-2.0
//
// PEAL_ALGORITHM: a call goes by the algorithm that is forced, as its counters tell, and gives the
// same result; one that does not fit is refused, and no other call.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "device/shared/team_memory.h"
#include "host/base/algorithm_names.h"
#include "tests/support/error_of.h"
#include "tests/support/job.h"
#include "tests/support/require.h"

namespace peal::api_test {
namespace {

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
  config.timeout = std::chrono::seconds(10);
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
