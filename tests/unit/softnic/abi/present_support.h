// SPDX-License-Identifier: Apache-2.0
//
// What tests of the NIC as other hardware share: devices by PEAL_SOFTNIC_PRESENT, each with a queue
// pair, on a fabric of the test's own.
//
//   Presented:  present("devices=2 link=roce") -> open_device(0), open_device(1)
//   End:        memory, CQ and RC queue pair of one device; connect(there) by verbs
#pragma once

#include <deque>
#include <string>

#include "tests/unit/softnic/abi/support.h"

namespace peal::softnic::abi_test {

class Presented : public ::testing::Test {
 protected:
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
