// SPDX-License-Identifier: Apache-2.0
//
// The standard library for NVRTC, which has none: the files beside this one are its headers, by
// CUDA's libcu++. Device headers compile with them ahead of other folders:
//
//   -I include/peal/device/nvrtc -I include/peal -I CUDA/include/cccl -I CUDA/include
//   --std=c++20 -default-device -device-int128
//
// libcu++ comes with CUDA, and by itself (nvidia-cuda-cccl on PyPI).
#pragma once

namespace cuda::std {}

namespace std {
using namespace cuda::std;
}  // namespace std

#define __extension__  // g++'s word ahead of what no standard has
