// SPDX-License-Identifier: Apache-2.0
//
// The guide's calls from the host: at once, in a stream's order, kernels by their address, memory,
// and what goes wrong.

#include <climits>
#include <cstring>
#include <string>
#include <vector>

#include "simt/lanes/kernels.h"
#include "tests/support/nvshmem_job.h"

namespace peal::compat_test {
namespace {

constexpr size_t kCount = 100;

int sample(int pe, size_t i) { return pe * 1000 + static_cast<int>(i); }

/// `box` of the next PE is written to, `mine` is where it comes from.
class Host : public testing::TestWithParam<bool> {
 protected:
  Host() {
    for (size_t i = 0; i < kCount; ++i) mine_[i] = sample(nvshmem_my_pe(), i);
    nvshmem_barrier_all();
  }
  cudaStream_t stream() { return static_cast<cudaStream_t>(static_cast<void*>(stream_)); }
  bool on_stream() const { return GetParam(); }
  /// All puts have arrived everywhere; then they are looked at.
  void expect_box(int pe, size_t count) {
    finish();
    for (size_t i = 0; i < count; ++i) ASSERT_EQ(box_[i], sample(pe, i)) << i;
    memset(box_.data(), 0, kCount * sizeof(int));
    nvshmem_barrier_all();
  }
  void finish() {
    if (on_stream()) {
      EXPECT_EQ(nvshmemx_barrier_all_on_stream(stream()), 0);
      stream_.synchronize();
    }
    nvshmem_barrier_all();
  }

  Stream stream_;
  Symmetric<int> box_{kCount};
  Symmetric<int> mine_{kCount};
  Symmetric<uint64_t> flag_{1};
};

#define CALL(STEM, ...)                                               \
  if (on_stream()) {                                                  \
    EXPECT_EQ(nvshmemx_##STEM##_on_stream(__VA_ARGS__, stream()), 0); \
  } else {                                                            \
    nvshmem_##STEM(__VA_ARGS__);                                      \
  }

TEST_P(Host, Puts) {
  CALL(int_put, box_.data(), mine_.data(), kCount, next_pe())
  expect_box(previous_pe(), kCount);
  CALL(int_put_nbi, box_.data(), mine_.data(), kCount, next_pe())
  expect_box(previous_pe(), kCount);
  CALL(putmem, box_.data(), mine_.data(), kCount * sizeof(int), next_pe())
  expect_box(previous_pe(), kCount);
  CALL(put64, box_.data(), mine_.data(), kCount / 2, next_pe())
  expect_box(previous_pe(), kCount);
  CALL(int_p, box_.data(), sample(nvshmem_my_pe(), 0), next_pe())
  expect_box(previous_pe(), 1);
  CALL(int_iput, box_.data(), mine_.data(), 1, 1, 5, next_pe())
  expect_box(previous_pe(), 5);
}

TEST_P(Host, StridedPutsPassOverWhatLiesBetween) {
  CALL(int_iput, box_.data(), mine_.data(), 3, 2, 4, next_pe())
  finish();
  for (size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(box_[i], i % 3 == 0 ? sample(previous_pe(), i / 3 * 2) : 0) << i;
  }
  nvshmem_barrier_all();
}

TEST_P(Host, Gets) {
  CALL(int_get, box_.data(), mine_.data(), kCount, next_pe())
  expect_box(next_pe(), kCount);
  CALL(int_get_nbi, box_.data(), mine_.data(), kCount, next_pe())
  if (!on_stream()) nvshmem_quiet();
  expect_box(next_pe(), kCount);
  CALL(getmem, box_.data(), mine_.data(), kCount * sizeof(int), next_pe())
  expect_box(next_pe(), kCount);
  CALL(int_iget, box_.data(), mine_.data(), 1, 1, 5, next_pe())
  expect_box(next_pe(), 5);
  EXPECT_EQ(on_stream() ? nvshmemx_int_g_on_stream(&mine_[7], next_pe(), stream())
                        : nvshmem_int_g(&mine_[7], next_pe()),
            sample(next_pe(), 7));
  nvshmem_barrier_all();
}

TEST_P(Host, Signals) {
  CALL(int_put_signal, box_.data(), mine_.data(), kCount, flag_.data(), 3, NVSHMEM_SIGNAL_SET,
       next_pe())
  if (on_stream()) {
    EXPECT_EQ(nvshmemx_signal_wait_until_on_stream(flag_.data(), NVSHMEM_CMP_EQ, 3, stream()), 0);
    stream_.synchronize();
    EXPECT_EQ(box_[kCount - 1], sample(previous_pe(), kCount - 1));
  }
  finish();
  EXPECT_EQ(flag_[0], 3u);
  nvshmem_barrier_all();
  CALL(putmem_signal_nbi, box_.data(), mine_.data(), 8, flag_.data(), 2, NVSHMEM_SIGNAL_ADD,
       next_pe())
  finish();
  EXPECT_EQ(flag_[0], 5u);
  nvshmem_barrier_all();
  if (on_stream()) {
    EXPECT_EQ(
        nvshmemx_signal_op_on_stream(flag_.data(), 4, NVSHMEM_SIGNAL_ADD, next_pe(), stream()), 0);
    EXPECT_EQ(nvshmemx_uint64_wait_until_on_stream(flag_.data(), NVSHMEM_CMP_GE, 9, stream()), 0);
    EXPECT_EQ(nvshmemx_uint64_wait_until_all_on_stream(flag_.data(), 1, nullptr, NVSHMEM_CMP_GE, 9,
                                                       stream()),
              0);
    EXPECT_EQ(nvshmemx_quiet_on_stream(stream()), 0);
    EXPECT_EQ(nvshmemx_sync_all_on_stream(stream()), 0);
  } else {
    nvshmemx_signal_op(flag_.data(), 4, NVSHMEM_SIGNAL_ADD, next_pe());
    nvshmem_fence();
    nvshmem_quiet();
    nvshmem_sync_all();
  }
  finish();
  EXPECT_EQ(flag_[0], 9u);
  nvshmem_barrier_all();
}
TEST_P(Host, CallsToOneselfTakeAnyMemory) {
  const int me = nvshmem_my_pe();
  std::vector<int> plain(kCount);
  uint64_t word = 0;
  const auto expect_plain = [&](size_t count) {
    finish();
    for (size_t i = 0; i < count; ++i) EXPECT_EQ(plain[i], sample(me, i)) << i;
    plain.assign(kCount, -1);
  };
  CALL(int_put, plain.data(), mine_.data(), kCount, me)
  expect_plain(kCount);
  CALL(int_iput, plain.data(), mine_.data(), 1, 1, 5, me)
  expect_plain(5);
  CALL(int_p, plain.data(), sample(me, 0), me)
  expect_plain(1);
  CALL(int_put_signal, plain.data(), mine_.data(), kCount, &word, 3, NVSHMEM_SIGNAL_SET, me)
  expect_plain(kCount);
  if (on_stream()) {
    EXPECT_EQ(nvshmemx_signal_op_on_stream(&word, 4, NVSHMEM_SIGNAL_ADD, me, stream()), 0);
  } else {
    nvshmemx_signal_op(&word, 4, NVSHMEM_SIGNAL_ADD, me);
  }
  CALL(int_put, plain.data(), mine_.data(), kCount, me)
  finish();
  EXPECT_EQ(word, 7u);
  std::vector<int> other(kCount);
  CALL(int_get, other.data(), plain.data(), kCount, me)
  finish();
  EXPECT_EQ(other, plain);
  EXPECT_EQ(nvshmem_int_g(plain.data() + 1, me), sample(me, 1));
  EXPECT_EQ(nvshmemx_peal_status(), 0) << nvshmemx_peal_failure();
  nvshmem_barrier_all();
}

INSTANTIATE_TEST_SUITE_P(Nvshmem, Host, testing::Bool());

TEST(NvshmemStreams, NullIsTheStreamWithoutAName) {
  Symmetric<int> box(1);
  nvshmemx_int_p_on_stream(box.data(), 1 + nvshmem_my_pe(), next_pe(), nullptr);
  nvshmemx_barrier_all_on_stream(nullptr);
  simt::default_stream().synchronize();
  EXPECT_EQ(box[0], 1 + previous_pe());
  nvshmem_barrier_all();
}

// Starts by address: all blocks meet within, which needs all to run at a time.
PEAL_KERNEL meet_and_tell(int* box, int value, uint64_t* arrived) {
  if (threadIdx.x == 0) {
    atomicAdd(arrived, uint64_t{1});
    nvshmem_uint64_wait_until(arrived, NVSHMEM_CMP_GE, gridDim.x);
    if (blockIdx.x == 0) {
      nvshmem_int_p(box, value, (nvshmem_my_pe() + 1) % nvshmem_n_pes());
      nvshmem_barrier_all();
    }
  }
}
const simt::OfferedKernel<&meet_and_tell> offered;

PEAL_KERNEL nobody_offers() {}

TEST(NvshmemLaunch, OfKernelsThatMeet) {
  Symmetric<int> box(1);
  Symmetric<uint64_t> arrived(1);
  int* const place = box.data();
  int value = 1 + nvshmem_my_pe();
  uint64_t* const word = arrived.data();
  void* arguments[] = {const_cast<int**>(&place), &value, const_cast<uint64_t**>(&word)};
  const auto* const kernel = reinterpret_cast<const void*>(meet_and_tell);
  int most = 0;
  EXPECT_EQ(nvshmemx_collective_launch_query_gridsize(kernel, 4, arguments, 0, &most), 0);
  EXPECT_GE(most, 1);
  EXPECT_EQ(nvshmemx_collective_launch(kernel, 3, 4, arguments, 0, nullptr), 0);
  value = -1;  // arguments were copied
  simt::default_stream().synchronize();
  EXPECT_EQ(box[0], 1 + previous_pe());
  EXPECT_EQ(arrived[0], 3u);
  nvshmem_barrier_all();
  EXPECT_EQ(nvshmemx_peal_status(), 0) << nvshmemx_peal_failure();
}

TEST(NvshmemMemory, ComesAlignedAndZeroed) {
  EXPECT_EQ(nvshmem_malloc(0), nullptr);
  void* const aligned = nvshmem_align(4096, 100);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(aligned) % 4096, 0u);
  Symmetric<int> zeroed(64);
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(zeroed[i], 0);
  nvshmem_free(aligned);
  nvshmem_free(nullptr);
}

// Memory of the program's own as a source at home.
TEST(NvshmemMemory, OfTheProgramCanBeSent) {
  static int own[1024];
  ASSERT_EQ(nvshmemx_buffer_register(own, sizeof own), 0);
  for (int i = 0; i < 1024; ++i) own[i] = sample(nvshmem_my_pe(), static_cast<size_t>(i));
  Symmetric<int> box(1024);
  nvshmem_int_put(box.data(), own, 1024, next_pe());
  nvshmem_barrier_all();
  for (size_t i = 0; i < 1024; ++i) ASSERT_EQ(box[i], sample(previous_pe(), i));
  EXPECT_EQ(nvshmemx_buffer_unregister(own), 0);
  nvshmem_barrier_all();
}

// What a call that answers nothing was refused for must not vanish.
TEST(NvshmemFailures, OfACallOfTheHostAreTold) {
  int nowhere = 0;
  testing::internal::CaptureStderr();
  nvshmem_int_p(&nowhere, 1, next_pe());
  EXPECT_EQ(nvshmemx_int_p_on_stream(&nowhere, 1, INT_MAX, nullptr), 1);
  EXPECT_EQ(nvshmem_team_sync(7), 1);
  EXPECT_EQ(nvshmemx_collective_launch(reinterpret_cast<const void*>(nobody_offers), 1, 1, nullptr,
                                       0, nullptr),
            1);
  EXPECT_EQ(nvshmemx_cumodule_init(nullptr), 1);
  const std::string told = testing::internal::GetCapturedStderr();
  for (const char* part :
       {"peal: nvshmem_int_p: p: ", "not symmetric memory", "allocation of nvshmem_malloc or one",
        "nvshmemx_int_p_on_stream: p: there is", "nvshmem_team_sync: team 7",
        "nvshmemx_cumodule_init: no CUDA driver", "nvshmemx_collective_launch: kernel started"}) {
    EXPECT_NE(told.find(part), std::string::npos) << part << " in\n" << told;
  }
  EXPECT_EQ(nvshmemx_peal_status(), -1);
  EXPECT_NE(std::string(nvshmemx_peal_failure()).find("nvshmem_int_p: p: "), std::string::npos);
  begin_anew();
}

PEAL_KERNEL write_nowhere(int* seen, int* box) {
  nvshmem_int_p(box, 1, nvshmem_n_pes());
  nvshmem_quiet();
  *seen = nvshmemx_peal_status();
}
TEST(NvshmemFailures, OfAKernelAreToldAtTheNextBarrier) {
  {
    Symmetric<int> box(1);
    Symmetric<int> seen(1);
    testing::internal::CaptureStderr();
    launch({}, write_nowhere, seen.data(), box.data()).wait();
    EXPECT_EQ(seen[0], static_cast<int>(Status::kBadPe));
    EXPECT_EQ(nvshmemx_peal_status(), static_cast<int>(Status::kBadPe));
    EXPECT_NE(std::string(nvshmemx_peal_failure()).find("no such pe"), std::string::npos)
        << nvshmemx_peal_failure();
    nvshmem_barrier_all();
    nvshmem_barrier_all();
    const std::string told = testing::internal::GetCapturedStderr();
    // By the barrier, or before it where this PE had to wait for a CPU.
    EXPECT_TRUE(told.starts_with("peal: nvshmem_barrier_all: ") || told.find("kernel: ") < 10)
        << told;
    EXPECT_EQ(told.find('\n'), told.size() - 1) << "more than one line: " << told;
  }
  begin_anew();
}

// To others, and where nothing can be, a wrong address stays one.
PEAL_KERNEL write_to(int* seen, int* box, int pe) {
  nvshmem_int_p(box, 1, pe);
  nvshmem_quiet();
  *seen = nvshmemx_peal_status();
}
void expect_not_symmetric(int* box, int pe) {
  {
    Symmetric<int> seen(1);
    testing::internal::CaptureStderr();
    launch({}, write_to, seen.data(), box, pe).wait();
    EXPECT_EQ(seen[0], static_cast<int>(Status::kNotSymmetric));
    nvshmem_barrier_all();
    EXPECT_NE(testing::internal::GetCapturedStderr().find("address not symmetric"),
              std::string::npos);
  }
  begin_anew();
}
TEST(NvshmemFailures, OfPlainMemoryAreToldWhereItIsNoTransferToOneself) {
  int plain = 0;
  expect_not_symmetric(&plain, next_pe());
  expect_not_symmetric(nullptr, nvshmem_my_pe());
  const Window heap = nvshmemx_peal_runtime()->context().heap;
  expect_not_symmetric(reinterpret_cast<int*>(heap.base + heap.bytes - 2), nvshmem_my_pe());
}

PEAL_KERNEL read_nowhere(int* seen, const int* box) {
  int got = 0;
  nvshmem_int_get(&got, box, 1, nvshmem_n_pes());
  *seen = nvshmemx_peal_status();
}
TEST(NvshmemFailures, OfAGetItsKernelHearsAtOnce) {
  {
    Symmetric<int> box(1);
    Symmetric<int> seen(1);
    launch({}, read_nowhere, seen.data(), box.data()).wait();
    EXPECT_EQ(seen[0], static_cast<int>(Status::kBadPe));
  }
  begin_anew();
}

TEST(NvshmemFailures, BeforeTheBeginningAreToldToo) {
  nvshmem_finalize();
  testing::internal::CaptureStderr();
  EXPECT_EQ(nvshmem_malloc(8), nullptr);
  EXPECT_EQ(nvshmem_my_pe(), -1);
  nvshmem_quiet();
  nvshmem_finalize();
  nvshmemx_init_attr_t attributes = NVSHMEMX_INIT_ATTR_INITIALIZER;
  EXPECT_NE(nvshmemx_init_attr(NVSHMEMX_INIT_WITH_MPI_COMM, &attributes), 0);
  EXPECT_NE(nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attributes), 0);
  EXPECT_NE(nvshmemx_init_attr(NVSHMEMX_INIT_WITH_SHMEM, &attributes), 0);
  const std::string told = testing::internal::GetCapturedStderr();
  for (const char* part : {"nvshmem_malloc: call nvshmem_init() first", "mpi_comm is null",
                           "no unique id", "joins no OpenSHMEM job"}) {
    EXPECT_NE(told.find(part), std::string::npos) << part << " in\n" << told;
  }
  nvshmem_init();
  EXPECT_EQ(nvshmemx_peal_status(), 0) << nvshmemx_peal_failure();
}

}  // namespace
}  // namespace peal::compat_test
