// SPDX-License-Identifier: Apache-2.0
//
// How an NVSHMEM program begins and ends its job: by MPI, a communicator, a unique id, more than
// once.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <mpi.h>

#include <cstring>
#include <string>
#include <vector>

#include "host/base/address.h"
#include "tests/support/error_of.h"
#include "tests/support/nvshmem_job.h"

namespace peal::compat_test {
namespace {

TEST(NvshmemSetup, TellsWhatItIs) {
  int major = 0;
  int minor = 0;
  int patch = -1;
  char name[NVSHMEM_MAX_NAME_LEN] = {};
  nvshmem_info_get_version(&major, &minor);
  nvshmem_info_get_name(name);
  EXPECT_EQ(major, NVSHMEM_MAJOR_VERSION);
  EXPECT_EQ(minor, NVSHMEM_MINOR_VERSION);
  EXPECT_STREQ(name, NVSHMEM_VENDOR_STRING);
  nvshmemx_vendor_get_version_info(&major, &minor, &patch);
  EXPECT_EQ(major, NVSHMEM_VENDOR_MAJOR_VERSION);
  EXPECT_EQ(patch, NVSHMEM_VENDOR_PATCH_VERSION);
  EXPECT_EQ(nvshmemx_init_status(), NVSHMEM_STATUS_IS_INITIALIZED);
  EXPECT_EQ(nvshmemx_mc_ptr(NVSHMEM_TEAM_WORLD, name), nullptr);
  EXPECT_NE(nvshmemx_peal_runtime(), nullptr);
  nvshmem_barrier_all();
}

// A second nvshmem_init is counted, and needs its nvshmem_finalize.
TEST(NvshmemSetup, BeginsMayBeNested) {
  nvshmem_init();
  int provided = -1;
  EXPECT_EQ(nvshmem_init_thread(NVSHMEM_THREAD_MULTIPLE, &provided), 0);
  EXPECT_EQ(provided, NVSHMEM_THREAD_SERIALIZED);
  nvshmem_finalize();
  nvshmem_finalize();
  EXPECT_EQ(nvshmemx_init_status(), NVSHMEM_STATUS_IS_INITIALIZED);
  nvshmem_barrier_all();
}

/// The second nvshmemx_init_attr is told what it got wrong.
void refuse_another_job(unsigned flags, nvshmemx_init_attr_t attributes,
                        const std::vector<std::string>& parts) {
  testing::internal::CaptureStderr();
  EXPECT_NE(nvshmemx_init_attr(flags, &attributes), 0);
  expect_in(testing::internal::GetCapturedStderr(), parts);
}

// Hazard: one that named another job answered 0, and the program went on with wrong numbers.
TEST(NvshmemSetup, BeginsOfAnotherJobAreRefused) {
  nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
  memset(id.internal, 'a', 44);
  nvshmemx_init_attr_t by_id = NVSHMEMX_INIT_ATTR_INITIALIZER;
  const std::string running =
      fmt::format("PE {} of {} of a job that runs", nvshmem_my_pe(), nvshmem_n_pes());
  ASSERT_EQ(nvshmemx_set_attr_uniqueid_args(1, 7, &id, &by_id), 0);
  refuse_another_job(NVSHMEMX_INIT_WITH_UNIQUEID, by_id,
                     {"nvshmemx_init_attr: ", "rank 1 of 7", running, "nvshmem_finalize()"});
  ASSERT_EQ(nvshmemx_set_attr_uniqueid_args(0, 0, &id, &by_id), 0);
  refuse_another_job(NVSHMEMX_INIT_WITH_UNIQUEID, by_id, {"rank 0 of 0", running});
  MPI_Comm alone = MPI_COMM_SELF;
  nvshmemx_init_attr_t by_comm = NVSHMEMX_INIT_ATTR_INITIALIZER;
  by_comm.mpi_comm = &alone;
  if (nvshmem_n_pes() > 1) {
    refuse_another_job(NVSHMEMX_INIT_WITH_MPI_COMM, by_comm, {"rank 0 of 1", running});
  }
  MPI_Comm none = MPI_COMM_NULL;
  by_comm.mpi_comm = &none;
  refuse_another_job(NVSHMEMX_INIT_WITH_MPI_COMM, by_comm, {"MPI_COMM_NULL"});
  // The same job counts, however it is named.
  MPI_Comm world = MPI_COMM_WORLD;
  by_comm.mpi_comm = &world;
  EXPECT_EQ(nvshmemx_init_attr(NVSHMEMX_INIT_WITH_MPI_COMM, &by_comm), 0);
  EXPECT_EQ(nvshmemx_init_attr(0, nullptr), 0);
  nvshmem_finalize();
  nvshmem_finalize();
  EXPECT_EQ(nvshmemx_init_status(), NVSHMEM_STATUS_IS_INITIALIZED);
  EXPECT_EQ(nvshmemx_peal_status(), -1) << "it was told";
  nvshmem_barrier_all();
  begin_anew();
}

// The heap is as large as NVSHMEM's would be, unless PEAL_HEAP_SIZE says otherwise.
TEST(NvshmemMemory, IsAsMuchAsNvshmemHas) {
  void* const most = nvshmem_malloc(size_t{1000} << 20);
  EXPECT_NE(most, nullptr);
  nvshmem_free(most);
  nvshmem_finalize();
  ::setenv("NVSHMEM_SYMMETRIC_SIZE", "1.5m", 1);
  ::setenv("PEAL_HEAP_LIMIT", "2M", 1);
  nvshmem_init();
  testing::internal::CaptureStderr();
  EXPECT_EQ(nvshmem_malloc(4 << 20), nullptr);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("peal: nvshmem_malloc: "),
            std::string::npos);
  nvshmem_finalize();
  ::unsetenv("PEAL_HEAP_LIMIT");
  ::setenv("NVSHMEM_SYMMETRIC_SIZE", "2270", 1);  // as a program of small arrays computes it
  nvshmem_init();
  void* const more = nvshmem_malloc(1 << 20);
  EXPECT_NE(more, nullptr);
  nvshmem_free(more);
  nvshmem_finalize();
  ::setenv("NVSHMEM_SYMMETRIC_SIZE", "2 buckets", 1);
  testing::internal::CaptureStderr();
  EXPECT_NE(nvshmemx_init_attr(0, nullptr), 0);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("NVSHMEM_SYMMETRIC_SIZE"),
            std::string::npos);
  ::unsetenv("NVSHMEM_SYMMETRIC_SIZE");
  nvshmem_init();
  EXPECT_EQ(nvshmemx_peal_status(), 0) << nvshmemx_peal_failure();
}

// Every PE tells the next one, in a kernel.
void expect_job_of(int rank, int size) {
  ASSERT_EQ(nvshmem_my_pe(), rank);
  ASSERT_EQ(nvshmem_n_pes(), size);
  Symmetric<int> box(1);
  nvshmem_int_p(box.data(), 1 + rank, next_pe());
  nvshmem_barrier_all();
  EXPECT_EQ(box[0], 1 + previous_pe());
  nvshmem_barrier_all();
}

// The program's own communicator says who is who: here in the other order.
TEST(NvshmemSetup, ByACommunicator) {
  nvshmem_finalize();
  int rank = -1;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm turned = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &turned);
  nvshmemx_init_attr_t attributes = NVSHMEMX_INIT_ATTR_INITIALIZER;
  attributes.mpi_comm = &turned;
  ASSERT_EQ(nvshmemx_init_attr(NVSHMEMX_INIT_WITH_MPI_COMM, &attributes), 0);
  MPI_Comm_free(&turned);
  expect_job_of(size - 1 - rank, size);
  nvshmem_finalize();
  nvshmem_init();
}

TEST(NvshmemSetup, ByAUniqueId) {
  nvshmem_finalize();
  int rank = -1;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
  nvshmemx_init_attr_t attributes = NVSHMEMX_INIT_ATTR_INITIALIZER;
  ASSERT_EQ(rank == 0 ? nvshmemx_get_uniqueid(&id) : 0, 0);
  MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
  ASSERT_EQ(nvshmemx_set_attr_uniqueid_args(rank, size, &id, &attributes), 0);
  ASSERT_EQ(nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attributes), 0);
  expect_job_of(rank, size);
  EXPECT_EQ(nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attributes), 0) << "the same job";
  nvshmem_finalize();
  id.internal[0] = id.internal[0] == '0' ? '1' : '0';
  refuse_another_job(NVSHMEMX_INIT_WITH_UNIQUEID, attributes, {"another unique id"});
  nvshmem_finalize();
  nvshmem_init();
}

// Where a unique id leads: its digits 32 to 39.
std::string address_of_fresh_id() {
  nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
  EXPECT_EQ(nvshmemx_get_uniqueid(&id), 0);
  return std::string(id.internal + 32, 8);
}

// It led to 127.0.0.1, where no other host finds PE 0.
TEST(NvshmemSetup, TheUniqueIdLeadsToWhereOtherHostsReachThisOne) {
  in_addr reached{};
  ASSERT_EQ(::inet_pton(AF_INET, find_address("").c_str(), &reached), 1);
  EXPECT_EQ(address_of_fresh_id(), fmt::format("{:08x}", ntohl(reached.s_addr)));
  ::setenv("PEAL_TCP_INTERFACE", "127.0.0.2", 1);
  EXPECT_EQ(address_of_fresh_id(), "7f000002");
  ::setenv("PEAL_TCP_INTERFACE", "eth17", 1);
  nvshmemx_uniqueid_t none = NVSHMEMX_UNIQUEID_INITIALIZER;
  testing::internal::CaptureStderr();
  EXPECT_NE(nvshmemx_get_uniqueid(&none), 0);
  expect_in(testing::internal::GetCapturedStderr(), {"eth17", "interface of this machine"});
  ::unsetenv("PEAL_TCP_INTERFACE");
}

void refuse_job_of_one(unsigned flags, const nvshmemx_init_attr_t& attributes, const char* what) {
  nvshmemx_init_attr_t mine = attributes;
  testing::internal::CaptureStderr();
  EXPECT_NE(nvshmemx_init_attr(flags, &mine), 0);
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_NE(told.find(what + std::string(" has 1 rank, and PEAL_TCP_SIZE=2 tells of 2 PEs")),
            std::string::npos)
      << told;
}

// MPI started by peal-run: each process was a job of its own, with wrong data and exit code 0.
TEST(NvshmemSetup, OfOnePeInAJobOfPealRunIsRefused) {
  nvshmem_finalize();
  const std::string id(44, 'a');
  ::setenv("PEAL_TCP_ID", id.c_str(), 1);
  ::setenv("PEAL_TCP_RANK", "0", 1);
  ::setenv("PEAL_TCP_SIZE", "2", 1);
  MPI_Comm alone = MPI_COMM_SELF;
  nvshmemx_init_attr_t by_comm = NVSHMEMX_INIT_ATTR_INITIALIZER;
  by_comm.mpi_comm = &alone;
  refuse_job_of_one(NVSHMEMX_INIT_WITH_MPI_COMM, by_comm, "the MPI communicator");
  nvshmemx_uniqueid_t made = NVSHMEMX_UNIQUEID_INITIALIZER;
  nvshmemx_init_attr_t by_id = NVSHMEMX_INIT_ATTR_INITIALIZER;
  ASSERT_EQ(nvshmemx_get_uniqueid(&made), 0);
  ASSERT_EQ(nvshmemx_set_attr_uniqueid_args(0, 1, &made, &by_id), 0);
  refuse_job_of_one(NVSHMEMX_INIT_WITH_UNIQUEID, by_id, "the job of this unique id");
  ::setenv("PEAL_BOOTSTRAP", "single", 1);
  ASSERT_EQ(nvshmemx_init_attr(NVSHMEMX_INIT_WITH_MPI_COMM, &by_comm), 0);
  expect_job_of(0, 1);
  nvshmem_finalize();
  for (const char* name : {"PEAL_TCP_ID", "PEAL_TCP_RANK", "PEAL_TCP_SIZE", "PEAL_BOOTSTRAP"}) {
    ::unsetenv(name);
  }
  nvshmem_init();
}

}  // namespace
}  // namespace peal::compat_test
