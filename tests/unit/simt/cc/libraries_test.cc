// SPDX-License-Identifier: Apache-2.0
#include "simt/cc/libraries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace peal::cc {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST(Libraries, RefusesCub) {
  EXPECT_THAT(objection_to({"/cccl/cub/block/block_reduce.cuh"}),
              HasSubstr("CUB is written for GPUs alone"));
}

TEST(Libraries, TakesTheHeadersOfCubThatPealHas) {
  const std::string own = "simt/runtime/cuda/cub/";
  EXPECT_THAT(objection_to({own + "block/block_reduce.cuh", own + "warp/warp_scan.cuh"}),
              IsEmpty());
  EXPECT_THAT(objection_to({"/usr/include/peal/" + own + "device/device_scan.cuh"}), IsEmpty());
}

}  // namespace
}  // namespace peal::cc
