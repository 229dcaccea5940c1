// SPDX-License-Identifier: Apache-2.0
//
// The guide's collective calls of every type, by a thread, a warp and a block of a kernel, from the
// host and on a stream, among all PEs and in teams; kernels that are launched together; order among
// many warps.
#include <sched.h>

#include "simt/lanes/kernels.h"
#include "tests/support/error_of.h"
#include "tests/support/nvshmem_job.h"

namespace peal::compat_test {
namespace {

constexpr int kCount = 5;

/// Element `i` of member `member`; small, for products of chars hold it.
PEAL_HD constexpr int sample(int member, int i) { return 1 + (member + i) % 2; }
PEAL_HD constexpr int sum_of(int members, int i) {
  int sum = 0;
  for (int m = 0; m < members; ++m) sum += sample(m, i);
  return sum;
}
PEAL_HD constexpr int product_of(int members, int i) {
  int product = 1;
  for (int m = 0; m < members; ++m) product *= sample(m, i);
  return product;
}

/// Who makes a call.
enum class By { kThread, kWarp, kBlock };
PEAL_DEVICE bool calls(By by) {
  return by == By::kBlock || (by == By::kWarp && threadIdx.x < 32) || threadIdx.x == 0;
}

// CALL_BY picks the form of a call by who makes it.
#define CALL_BY(by, STEM, ...)                             \
  (by == By::kThread ? nvshmem_##STEM(__VA_ARGS__)         \
   : by == By::kWarp ? nvshmemx_##STEM##_warp(__VA_ARGS__) \
                     : nvshmemx_##STEM##_block(__VA_ARGS__))

/// What came of a call in `dst`: of `wanted(i)`.
template <class T, class Wanted>
PEAL_DEVICE void expect_all(Verdict* verdict, const T* dst, int count, const Wanted& wanted,
                            unsigned line = __builtin_LINE()) {
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 0; i < count; ++i) {
      expect_eq(verdict, static_cast<unsigned long long>(dst[i]),
                static_cast<unsigned long long>(wanted(i)), line);
    }
  }
  __syncthreads();
}

// `dst` and `src` have kCount elements for each member.
#define TYPE_KERNEL(NAME, T)                                                                     \
  PEAL_KERNEL type_##NAME(Verdict* verdict, nvshmem_team_t team, By by, T* dst, T* src) {        \
    const int me = nvshmem_team_my_pe(team);                                                     \
    const int members = nvshmem_team_n_pes(team);                                                \
    if (threadIdx.x == 0) {                                                                      \
      for (int i = 0; i < kCount * members; ++i) src[i] = static_cast<T>(sample(me, i));         \
    }                                                                                            \
    __syncthreads();                                                                             \
    if (calls(by)) {                                                                             \
      expect_eq(verdict, CALL_BY(by, NAME##_broadcast, team, dst, src, kCount, members - 1), 0); \
    }                                                                                            \
    expect_all(verdict, dst, kCount, [&](int i) { return sample(members - 1, i); });             \
    if (calls(by)) {                                                                             \
      expect_eq(verdict, CALL_BY(by, NAME##_fcollect, team, dst, src, kCount), 0);               \
    }                                                                                            \
    expect_all(verdict, dst, kCount* members,                                                    \
               [&](int i) { return sample(i / kCount, i % kCount); });                           \
    if (calls(by)) {                                                                             \
      expect_eq(verdict, CALL_BY(by, NAME##_alltoall, team, dst, src, kCount), 0);               \
    }                                                                                            \
    expect_all(verdict, dst, kCount* members,                                                    \
               [&](int i) { return sample(i / kCount, me * kCount + i % kCount); });             \
    if (calls(by)) {                                                                             \
      expect_eq(verdict, CALL_BY(by, NAME##_sum_reduce, team, dst, src, kCount), 0);             \
    }                                                                                            \
    expect_all(verdict, dst, kCount, [&](int i) { return sum_of(members, i); });                 \
    if (calls(by)) {                                                                             \
      expect_eq(verdict, CALL_BY(by, NAME##_max_reducescatter, team, dst, src, kCount), 0);      \
    }                                                                                            \
    expect_all(verdict, dst, kCount,                                                             \
               [&](int i) { return members > 1 ? 2 : sample(0, me * kCount + i); });             \
    if (calls(by)) CALL_BY(by, barrier, team);                                                   \
  }
PEAL_COMPAT_RMA_TYPES(TYPE_KERNEL)

/// Runs `body` with the world, and with a team of every second PE at those that are in it.
template <class Body>
void in_teams(const Body& body) {
  body(NVSHMEM_TEAM_WORLD);
  const int half = (nvshmem_n_pes() + 1) / 2;
  nvshmem_team_t team = NVSHMEM_TEAM_INVALID;
  nvshmem_team_config_t config{};
  ASSERT_EQ(nvshmem_team_split_strided(NVSHMEM_TEAM_WORLD, 0, 2, half, &config, 0, &team), 0);
  ASSERT_EQ(team != NVSHMEM_TEAM_INVALID, nvshmem_my_pe() % 2 == 0);
  if (team != NVSHMEM_TEAM_INVALID) body(team);
  nvshmem_team_destroy(team);
  nvshmem_barrier_all();
}

template <class T>
void run_type(nvshmem_team_t team, By by, T* memory,
              void (*kernel)(Verdict*, nvshmem_team_t, By, T*, T*)) {
  T* const src = memory + 16 * kCount;
  api_test::run({.threads = 48}, kernel, team, by, memory, src);
}

template <class T>
void run_teams(By by, void (*kernel)(Verdict*, nvshmem_team_t, By, T*, T*)) {
  Symmetric<T> memory(32 * kCount);
  in_teams([&](nvshmem_team_t team) { run_type(team, by, memory.data(), kernel); });
  EXPECT_EQ(nvshmemx_peal_status(), 0) << nvshmemx_peal_failure();
}

TEST(NvshmemCollectives, OfEveryTypeInKernels) {
#define RUN_TYPE(NAME, T) run_teams<T>(By::kBlock, type_##NAME);
  PEAL_COMPAT_RMA_TYPES(RUN_TYPE)
}
TEST(NvshmemCollectives, ByAThreadAndAWarp) {
  run_teams<float>(By::kThread, type_float);
  run_teams<float>(By::kWarp, type_float);
}

// Every operation of every type that has it.
#define OP_KERNEL(NAME, T)                                                                     \
  PEAL_KERNEL ops_##NAME(Verdict* verdict, nvshmem_team_t team, By, T* dst, T* src) {          \
    const int me = nvshmem_team_my_pe(team);                                                   \
    const int members = nvshmem_team_n_pes(team);                                              \
    for (int i = 0; i < kCount * members; ++i) src[i] = static_cast<T>(sample(me, i));         \
    const auto either = [&](int i, int one) { return members > 1 ? 1 + one : sample(0, i); };  \
    nvshmem_##NAME##_prod_reduce(team, dst, src, kCount);                                      \
    expect_all(verdict, dst, kCount, [&](int i) { return product_of(members, i); });           \
    nvshmem_##NAME##_min_reduce(team, dst, src, kCount);                                       \
    expect_all(verdict, dst, kCount, [&](int i) { return either(i, 0); });                     \
    nvshmem_##NAME##_max_reduce(team, dst, src, kCount);                                       \
    expect_all(verdict, dst, kCount, [&](int i) { return either(i, 1); });                     \
    nvshmem_##NAME##_sum_reducescatter(team, dst, src, kCount);                                \
    expect_all(verdict, dst, kCount, [&](int i) { return sum_of(members, me * kCount + i); }); \
  }
#define BIT_KERNEL(NAME, T)                                                            \
  PEAL_KERNEL bits_##NAME(Verdict* verdict, nvshmem_team_t team, By, T* dst, T* src) { \
    const int me = nvshmem_team_my_pe(team);                                           \
    const int members = nvshmem_team_n_pes(team);                                      \
    for (int i = 0; i < kCount; ++i) src[i] = static_cast<T>(1 << (me % 4) | 0x40);    \
    int all = 0x40;                                                                    \
    int odd = members % 2 * 0x40;                                                      \
    for (int m = 0; m < members; ++m) {                                                \
      all |= 1 << (m % 4);                                                             \
      odd ^= 1 << (m % 4);                                                             \
    }                                                                                  \
    nvshmem_##NAME##_or_reduce(team, dst, src, kCount);                                \
    expect_all(verdict, dst, kCount, [&](int) { return all; });                        \
    nvshmem_##NAME##_xor_reduce(team, dst, src, kCount);                               \
    expect_all(verdict, dst, kCount, [&](int) { return odd; });                        \
    nvshmem_##NAME##_and_reduce(team, dst, src, kCount);                               \
    expect_all(verdict, dst, kCount, [&](int) { return members > 1 ? 0x40 : all; });   \
  }
OP_KERNEL(float, float)
OP_KERNEL(short, short)
OP_KERNEL(uint64, uint64_t)
BIT_KERNEL(uchar, unsigned char)
BIT_KERNEL(int, int)

TEST(NvshmemCollectives, OfEveryOperation) {
  const auto one_thread = [](auto* kernel, auto* memory) {
    in_teams([&](nvshmem_team_t team) {
      api_test::run({}, kernel, team, By::kThread, memory, memory + 16 * kCount);
    });
  };
#define RUN_OPS(KERNEL, T)             \
  {                                    \
    Symmetric<T> memory(32 * kCount);  \
    one_thread(KERNEL, memory.data()); \
  }
  RUN_OPS(ops_float, float)
  RUN_OPS(ops_short, short)
  RUN_OPS(ops_uint64, uint64_t)
  RUN_OPS(bits_uchar, unsigned char)
  RUN_OPS(bits_int, int)
}

// From the host, at once or on a stream.
class HostCallsOf : public testing::TestWithParam<bool> {
 protected:
  cudaStream_t stream() { return static_cast<cudaStream_t>(static_cast<void*>(stream_)); }
  bool on_stream() const { return GetParam(); }
  Stream stream_;
};

// On a stream of its own, or at once.
#define HOST_CALL(STEM, ...)                                                 \
  ASSERT_EQ(on_stream() ? nvshmemx_##STEM##_on_stream(__VA_ARGS__, stream()) \
                        : nvshmem_##STEM(__VA_ARGS__),                       \
            0);                                                              \
  if (on_stream()) stream_.synchronize();

TEST_P(HostCallsOf, Collectives) {
  Symmetric<double> memory(32 * kCount);
  double* const dst = memory.data();
  double* const src = memory.data() + 16 * kCount;
  in_teams([&](nvshmem_team_t team) {
    const int me = nvshmem_team_my_pe(team);
    const int members = nvshmem_team_n_pes(team);
    for (int i = 0; i < kCount * members; ++i) src[i] = sample(me, i);
    HOST_CALL(double_broadcast, team, dst, src, kCount, 0)
    for (int i = 0; i < kCount; ++i) EXPECT_EQ(dst[i], sample(0, i));
    HOST_CALL(double_fcollect, team, dst, src, kCount)
    for (int i = 0; i < kCount * members; ++i) EXPECT_EQ(dst[i], sample(i / kCount, i % kCount));
    HOST_CALL(double_alltoall, team, dst, src, kCount)
    for (int i = 0; i < kCount * members; ++i) {
      EXPECT_EQ(dst[i], sample(i / kCount, me * kCount + i % kCount));
    }
    HOST_CALL(double_sum_reduce, team, dst, src, kCount)
    for (int i = 0; i < kCount; ++i) EXPECT_EQ(dst[i], sum_of(members, i));
    HOST_CALL(double_sum_reducescatter, team, dst, src, kCount)
    for (int i = 0; i < kCount; ++i) EXPECT_EQ(dst[i], sum_of(members, me * kCount + i));
    HOST_CALL(broadcastmem, team, dst, src, kCount * sizeof(double), members - 1)
    for (int i = 0; i < kCount; ++i) EXPECT_EQ(dst[i], sample(members - 1, i));
    HOST_CALL(fcollectmem, team, dst, src, kCount * sizeof(double))
    EXPECT_EQ(dst[kCount * members - 1], sample(members - 1, kCount - 1));
    HOST_CALL(team_sync, team)
    HOST_CALL(sync, team)
    HOST_CALL(barrier, team)
  });
  EXPECT_EQ(nvshmemx_peal_status(), 0) << nvshmemx_peal_failure();
}
INSTANTIATE_TEST_SUITE_P(Nvshmem, HostCallsOf, testing::Bool());

TEST(NvshmemTeams, ThePredefinedOnes) {
  const int me = nvshmem_my_pe();
  const int all = nvshmem_n_pes();
  EXPECT_EQ(nvshmem_team_my_pe(NVSHMEM_TEAM_WORLD), me);
  EXPECT_EQ(nvshmem_team_n_pes(NVSHMEM_TEAM_WORLD), all);
  // mpirun of one machine.
  EXPECT_EQ(nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE), me);
  EXPECT_EQ(nvshmem_team_n_pes(NVSHMEMX_TEAM_NODE), all);
  EXPECT_EQ(nvshmem_team_n_pes(NVSHMEMX_TEAM_SAME_MYPE_NODE), 1);
  EXPECT_GE(nvshmem_team_n_pes(NVSHMEM_TEAM_SHARED), 1);
  EXPECT_EQ(nvshmem_team_my_pe(NVSHMEM_TEAM_INVALID), -1);
  EXPECT_EQ(nvshmem_team_n_pes(NVSHMEM_TEAM_INVALID), -1);
  nvshmem_team_config_t config{};
  EXPECT_EQ(nvshmem_team_get_config(NVSHMEM_TEAM_WORLD, &config), 0);
  nvshmem_barrier_all();
}

PEAL_KERNEL ask_teams(Verdict* verdict, nvshmem_team_t row, nvshmem_team_t column, int columns) {
  const int me = nvshmem_my_pe();
  const auto eq = [&](int seen, int wanted, unsigned line = __builtin_LINE()) {
    expect_eq(verdict, static_cast<unsigned>(seen), static_cast<unsigned>(wanted), line);
  };
  eq(nvshmem_team_my_pe(row), me % columns);
  eq(nvshmem_team_my_pe(column), me / columns);
  eq(nvshmem_team_translate_pe(row, 0, NVSHMEM_TEAM_WORLD), me - me % columns);
  eq(nvshmem_team_translate_pe(NVSHMEM_TEAM_WORLD, me, column), me / columns);
  eq(nvshmem_team_translate_pe(row, 99, NVSHMEM_TEAM_WORLD), -1);
  eq(nvshmem_team_my_pe(NVSHMEM_TEAM_INVALID), -1);
  eq(nvshmem_team_n_pes(NVSHMEM_TEAM_INVALID), -1);
  eq(nvshmem_team_sync(row), 0);
  eq(nvshmemx_sync_warp(column), 0);
}

TEST(NvshmemTeams, RowsAndColumns) {
  constexpr int kColumns = 2;
  nvshmem_team_t row = NVSHMEM_TEAM_INVALID;
  nvshmem_team_t column = NVSHMEM_TEAM_INVALID;
  ASSERT_EQ(
      nvshmem_team_split_2d(NVSHMEM_TEAM_WORLD, kColumns, nullptr, 0, &row, nullptr, 0, &column),
      0);
  const int me = nvshmem_my_pe();
  EXPECT_EQ(nvshmem_team_my_pe(row), me % kColumns);
  EXPECT_EQ(nvshmem_team_my_pe(column), me / kColumns);
  EXPECT_EQ(nvshmem_team_translate_pe(column, 0, NVSHMEM_TEAM_WORLD), me % kColumns);
  EXPECT_EQ(nvshmem_team_translate_pe(NVSHMEM_TEAM_WORLD, nvshmem_n_pes(), row), -1);
  run_here({}, ask_teams, row, column, kColumns);
  nvshmem_team_destroy(row);
  nvshmem_team_destroy(column);
  nvshmem_barrier_all();
}

// Handles are used again, and a team that is gone is nobody's.
TEST(NvshmemTeams, ManyInTurn) {
  for (int i = 0; i < 300; ++i) {
    nvshmem_team_t team = NVSHMEM_TEAM_INVALID;
    ASSERT_EQ(nvshmem_team_split_strided(NVSHMEM_TEAM_WORLD, nvshmem_n_pes() - 1, -1,
                                         nvshmem_n_pes(), nullptr, 0, &team),
              0);
    ASSERT_EQ(nvshmem_team_my_pe(team), nvshmem_n_pes() - 1 - nvshmem_my_pe());
    nvshmem_team_destroy(team);
  }
  nvshmem_barrier_all();
}

PEAL_KERNEL try_without_a_pe(int* seen, int* box, uint64_t* word) {
  seen[0] = nvshmem_my_pe();
  seen[1] = nvshmem_n_pes();
  nvshmem_int_p(box, 1, (nvshmem_my_pe() + 1) % nvshmem_n_pes());
  seen[2] = nvshmem_int_g(box, 0);
  nvshmem_int_put(box, seen, 1, 0);
  nvshmem_quiet();
  nvshmem_uint64_wait_until(word, NVSHMEM_CMP_EQ, 1);
  seen[3] = nvshmem_team_my_pe(NVSHMEM_TEAM_WORLD);
  seen[4] = nvshmem_int_sum_reduce(NVSHMEM_TEAM_WORLD, box, box, 1);
  nvshmem_barrier_all();
  nvshmem_sync_all();
  seen[5] = nvshmemx_peal_status();
}

// Hazard: a kernel before nvshmem_init(), or after nvshmem_finalize(), was a SIGSEGV.
TEST(NvshmemFailures, OfAKernelWithoutAPeAreToldInASentence) {
  nvshmem_finalize();
  std::vector<int> seen(6);
  std::vector<int> box(1);
  std::vector<uint64_t> word(1);
  testing::internal::CaptureStderr();
  launch({}, try_without_a_pe, seen.data(), box.data(), word.data()).wait();
  const std::string told = testing::internal::GetCapturedStderr();
  expect_in(told, {"peal: ", "nvshmem_init()", "nvshmem_finalize()"});
  EXPECT_EQ(told.find('\n'), told.size() - 1) << "more than one line: " << told;
  EXPECT_EQ(seen[0], -1);
  EXPECT_EQ(seen[1], -1);
  EXPECT_EQ(seen[3], -1);
  EXPECT_NE(seen[4], 0);
  EXPECT_EQ(seen[5], static_cast<int>(Status::kBadPe));
  EXPECT_EQ(nvshmemx_peal_status(), static_cast<int>(Status::kBadPe));
  EXPECT_EQ(box[0], 0);
  nvshmem_init();
  EXPECT_EQ(nvshmemx_peal_status(), 0) << nvshmemx_peal_failure();
}

// NVSHMEM's ping-pong clears its flag and calls nvshmemx_collective_launch, without a barrier: what
// a PE did before its call comes before the kernel of every other.
PEAL_KERNEL tell_all(uint64_t* flag) {
  for (int pe = 0; pe < nvshmem_n_pes(); ++pe) nvshmemx_signal_op(flag, 1, NVSHMEM_SIGNAL_ADD, pe);
}
const simt::OfferedKernel<&tell_all> offered;

TEST(NvshmemLaunch, IsAMeetingOfAllPes) {
  Symmetric<uint64_t> flag(1);
  Symmetric<uint64_t> called(1);
  simt::WorkStream stream;
  uint64_t* const word = flag.data();
  void* arguments[] = {const_cast<uint64_t**>(&word)};
  const auto launch = [&] {
    const auto* const kernel = reinterpret_cast<const void*>(tell_all);
    EXPECT_EQ(nvshmemx_collective_launch(kernel, 1, 1, arguments, 0,
                                         reinterpret_cast<cudaStream_t>(&stream)),
              0);
  };
  if (nvshmem_my_pe() == 0) {
    launch();
    const simt::Mark told = stream.mark();
    for (int turn = 0; turn < 10'000 && !told.reached(); ++turn) ::sched_yield();
    EXPECT_FALSE(told.reached()) << "its kernel ran ahead of the other PEs' calls";
    for (int pe = 1; pe < nvshmem_n_pes(); ++pe) nvshmem_uint64_p(called.data(), 1, pe);
  } else {
    simt::WorkStream other;
    EXPECT_EQ(nvshmemx_uint64_wait_until_on_stream(called.data(), NVSHMEM_CMP_EQ, 1,
                                                   reinterpret_cast<cudaStream_t>(&other)),
              0);
    other.synchronize();
    flag[0] = 0;
    launch();
  }
  stream.synchronize();
  nvshmem_barrier_all();
  EXPECT_EQ(flag[0], static_cast<uint64_t>(nvshmem_n_pes()));
  nvshmem_barrier_all();
}

// More warps than queues, which therefore change queues while they post (queue_choice.h): each lane
// has a box of its own at the next PE. A signal vouches for its data, and a fence for what is ahead
// of it, whatever queue each went by.
constexpr unsigned kBlocks = 5, kThreads = 96;
constexpr int kLanes = kBlocks * kThreads;
constexpr int kRounds = 6;
constexpr int kWords = 9;  // more than a request holds

PEAL_KERNEL many_warps(Verdict* verdict, uint64_t* box, uint64_t* mine, uint64_t* flags) {
  const int next = (nvshmem_my_pe() + 1) % nvshmem_n_pes();
  const uint64_t lane = blockIdx.x * blockDim.x + threadIdx.x;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t at = (round * kLanes + lane) * kWords;
    for (int i = 0; i < kWords; ++i) mine[at + i] = at + i + 1;
    const uint64_t told = static_cast<uint64_t>(round) + 1;
    if (round % 2 == 0) {
      nvshmem_put64_signal_nbi(box + at, mine + at, kWords, flags + lane, told, NVSHMEM_SIGNAL_SET,
                               next);
    } else {
      nvshmem_uint64_put_nbi(box + at, mine + at, kWords, next);
      nvshmem_fence();
      nvshmem_uint64_p(flags + lane, told, next);
    }
    nvshmem_signal_wait_until(flags + lane, NVSHMEM_CMP_GE, told);
    for (int i = 0; i < kWords; ++i) expect_eq(verdict, box[at + i], at + i + 1);
  }
  nvshmem_quiet();
}

TEST(NvshmemOrder, HoldsWhereWarpsChangeQueues) {
  setenv("PEAL_QUEUES", "9", 1);
  begin_anew();
  {
    Symmetric<uint64_t> box(kRounds * kLanes * kWords);
    Symmetric<uint64_t> mine(kRounds * kLanes * kWords);
    Symmetric<uint64_t> flags(kLanes);
    run_here({.blocks = kBlocks, .threads = kThreads}, many_warps, box.data(), mine.data(),
             flags.data());
  }
  unsetenv("PEAL_QUEUES");
  begin_anew();
}

}  // namespace
}  // namespace peal::compat_test
