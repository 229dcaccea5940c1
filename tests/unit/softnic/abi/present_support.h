// SPDX-License-Identifier: Apache-2.0
//
// What tests of the NIC as other hardware share: devices by PEAL_SOFTNIC_PRESENT, each with a queue
// pair, on a fabric of the test's own.
//
//   Presented:  present("devices=2 link=roce") -> open_device(0), open_device(1)
//   OneDevice:  memory, CQ and key of one of them, its LID and GIDs
#pragma once

#include <unistd.h>

#include <deque>
#include <string>

#include "tests/unit/softnic/abi/support.h"

namespace peal::softnic::abi_test {

using Gid = std::array<uint8_t, 16>;

/// What a test has of one device; queue pairs are its own. Everything goes with its context.
struct OneDevice {
  void open(ibv_context* of, int access) {
    context = of;
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 16, nullptr, nullptr, 0);
    mr = ibv_reg_mr(pd, memory.get(), kBytes, access);
    ASSERT_NE(mr, nullptr);
  }
  uint16_t lid() const {
    ibv_port_attr port = {};
    EXPECT_EQ(ibv_query_port(context, 1, &port), 0);
    return port.lid;
  }
  Gid gid(int index) const {
    ibv_gid raw = {};
    EXPECT_EQ(ibv_query_gid(context, 1, index, &raw), 0);
    Gid gid;
    std::memcpy(gid.data(), raw.raw, gid.size());
    return gid;
  }

  static constexpr size_t kBytes = 4 * kPage;
  Pages memory = make_pages(kBytes);
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_mr* mr = nullptr;
  ibv_qp* qp = nullptr;
};

class Presented : public ::testing::Test {
 protected:
  /// A fabric of this process: LIDs that a test makes up are nobody else's.
  Presented() {
    ::setenv("PEAL_SOFTNIC_FABRIC", ("presented-" + std::to_string(::getpid())).c_str(), 1);
  }
  /// What is listed and opened from now on. What is open stays as it is.
  static void present(const std::string& text) {
    ::setenv("PEAL_SOFTNIC_PRESENT", text.c_str(), 1);
  }
  void TearDown() override {
    for (ibv_context* context : open_) EXPECT_EQ(ibv_close_device(context), 0);
    ::unsetenv("PEAL_SOFTNIC_PRESENT");
  }
  /// Closed with the test.
  ibv_context* open_device(int index) {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    EXPECT_LT(index, count);
    ibv_context* context = index < count ? ibv_open_device(list[index]) : nullptr;
    EXPECT_NE(context, nullptr) << std::strerror(errno);
    ibv_free_device_list(list);
    open_.push_back(context);
    return context;
  }

 private:
  std::deque<ibv_context*> open_;
};

}  // namespace peal::softnic::abi_test
