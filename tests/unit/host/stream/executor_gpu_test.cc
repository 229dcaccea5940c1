// SPDX-License-Identifier: Apache-2.0
//
// Streams of a GPU, on a driver that is a fake.
#include <gtest/gtest.h>

#include <memory>

#include "host/memory/gpu.h"
#include "host/stream/executor.h"
#include "tests/support/fake_cuda.h"

namespace peal {
namespace {

// A program that calls exit() with a PE alive: CUDA ends first, and its calls answer
// CUDA_ERROR_DEINITIALIZED. Destructors that threw ended such programs by abort().
TEST(GpuExecutor, EndsQuietlyWhereTheDriverHasEnded) {
  FakeCuda& fake = load_fake_cuda();
  fake.devices = 1;
  fake.memory = size_t{1} << 30;
  auto executor = make_gpu_executor(Gpu::open(0, 0), "", 1);
  void* const stream = executor->own_stream();
  auto mark = executor->mark(stream);
  fake.refuse["cuCtxPushCurrent"] = 4;
  mark.reset();
  executor.reset();
  fake.refuse.clear();
}

}  // namespace
}  // namespace peal
