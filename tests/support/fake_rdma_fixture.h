// SPDX-License-Identifier: Apache-2.0
//
// A test fixture on top of libfake_rdma.so, in a program of tests.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "host/base/error.h"
#include "host/nic/verbs.h"
#include "tests/support/built.h"
#include "tests/support/error_of.h"
#include "tests/support/fake_rdma.h"

namespace peal::nic {

inline std::filesystem::path program_directory() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path();
}

/// The fake of the library at `path`, which VerbsLibrary has loaded or will load.
inline FakeRdma& fake_at(const std::string& path) { return stand_in<FakeRdma>(path, "fake_rdma"); }

/// Every test begins with a fake as it was made, that can do all peal needs.
class FakeRdmaTest : public ::testing::Test {
 protected:
  FakeRdmaTest() : path_(built("tests/support/libfake_rdma.so")), fake_(fake_at(path_)) {
    fake_ = FakeRdma{};
    fake_.general_capabilities[4] = 15u << 16 | 17;    // log_max_qp_sz, log_max_qp
    fake_.general_capabilities[6] = 22u << 16 | 16;    // log_max_cq_sz, log_max_cq
    fake_.general_capabilities[10] = 6u << 16 | 5;     // READs in flight: 64 in, 32 out
    fake_.general_capabilities[14] = 30u << 24;        // log_max_msg
    fake_.general_capabilities[15] = 1;                // cqe_version
    fake_.general_capabilities[16] = 1u << 1;          // atomic
    fake_.general_capabilities[17] = 1u << 31 | 1;     // cq_oi, rc
    fake_.general_capabilities[20] = 1024;             // max_wqe_sz_sq
    fake_.atomic_capabilities[2] = 1u << 30;           // 8-byte results in host order
    fake_.atomic_capabilities[4] = 0xf;                // operations
    fake_.atomic_capabilities[5] = 1u << 2 | 1u << 3;  // 4 and 8 bytes
  }
  ~FakeRdmaTest() override { EXPECT_EQ(fake_.live, 0) << "objects were not released"; }

  std::shared_ptr<const VerbsLibrary> library() const {
    return VerbsLibrary::open({path_, path_, "", "", ""});
  }

  std::string path_;
  FakeRdma& fake_;
};

}  // namespace peal::nic
