// SPDX-License-Identifier: Apache-2.0
#include "simt/lanes/kernels.h"

#include <gtest/gtest.h>

#include <string>

#include "simt/lanes/launch.h"
#include "simt/runtime/stream.h"

namespace peal::simt {
namespace {

struct Pair {
  int a;
  double b;
};

void add(int* sum, Pair pair, unsigned char more) {
  *sum += pair.a + static_cast<int>(pair.b) + more;
}
void nothing() {}
void nobody_offers() {}

const OfferedKernel<&add> offered_add;
const OfferedKernel<&nothing> offered_nothing;

const void* address(auto* kernel) { return reinterpret_cast<const void*>(kernel); }

// The arguments of a launch may be gone before the kernel begins.
TEST(KernelsByAddress, TakeCopiesOfTheirArguments) {
  int sum = 1;
  int* place = &sum;
  Pair pair{10, 100.5};
  unsigned char more = 200;
  void* arguments[] = {&place, &pair, &more};
  const auto call = bind_kernel(address(add), arguments);
  place = nullptr;
  pair = {};
  more = 0;
  call();
  EXPECT_EQ(sum, 311);
}

TEST(KernelsByAddress, NeedNoArguments) { bind_kernel(address(nothing), nullptr)(); }

TEST(KernelsByAddress, ThatNobodyOfferedAreRefused) {
  try {
    (void)bind_kernel(address(nobody_offers), nullptr);
    FAIL() << "no error";
  } catch (const LaneError& error) {
    EXPECT_NE(std::string(error.what()).find("no OfferedKernel"), std::string::npos);
  }
}

TEST(DefaultStream, IsOneOfTheProcess) {
  int order = 0;
  default_stream().add([&] { order = 1; });
  default_stream().add([&] { order = order * 10 + 2; });
  EXPECT_EQ(&default_stream(), &default_stream());
  default_stream().synchronize();
  EXPECT_EQ(order, 12);
}

}  // namespace
}  // namespace peal::simt
