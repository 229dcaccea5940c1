// SPDX-License-Identifier: Apache-2.0
#include "simt/cc/libraries.h"

#include <gtest/gtest.h>

#include <string>

namespace peal::cc {
namespace {

TEST(Libraries, RefusesCub) {
  const std::string why = objection_to({"/cccl/cub/block/block_reduce.cuh"});
  EXPECT_NE(why.find("CUB is written for GPUs alone"), std::string::npos) << why;
}

TEST(Libraries, TakesTheHeadersOfCubThatPealHas) {
  const std::string own = "simt/runtime/cuda/cub/";
  EXPECT_EQ(objection_to({own + "block/block_reduce.cuh", own + "warp/warp_scan.cuh"}), "");
  EXPECT_EQ(objection_to({"/usr/include/peal/" + own + "device/device_scan.cuh"}), "");
}

}  // namespace
}  // namespace peal::cc
