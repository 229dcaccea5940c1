// SPDX-License-Identifier: Apache-2.0
//
// make_mpi where there is no plug-in to load: the error names the path and the remedy. The rest of
// make_mpi runs under mpirun (tests/mp/bootstrap_mptest.cc).
#include <gtest/gtest.h>

#include "bootstrap/bootstraps.h"
#include "tests/unit/bootstrap/support.h"

namespace peal::bootstrap {
namespace {

using std::chrono::seconds;

TEST(MpiPlugin, NamesAPathThatDoesNotExist) {
  const Error error = error_of([] { make_mpi(nullptr, seconds(1), "/nowhere/libpeal_mpi.so"); });
  EXPECT_EQ(error.code(), ErrorCode::kConfiguration);
  EXPECT_TRUE(contains(error, "cannot load the MPI plug-in /nowhere/libpeal_mpi.so"))
      << error.what();
  EXPECT_TRUE(contains(error, "check the path")) << error.what();
}

TEST(MpiPlugin, SaysThatAnotherLibraryIsNotThePlugin) {
  const Error error = error_of([] { make_mpi(nullptr, seconds(1), "libm.so.6"); });
  EXPECT_EQ(error.code(), ErrorCode::kConfiguration);
  EXPECT_TRUE(contains(error, "libm.so.6 is not peal's MPI plug-in: it has no peal_open_mpi_wire"))
      << error.what();
}

TEST(MpiPlugin, ChecksTheDeadlineFirst) {
  const Error error = error_of([] { make_mpi(nullptr, seconds(0), "/nowhere"); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace peal::bootstrap
