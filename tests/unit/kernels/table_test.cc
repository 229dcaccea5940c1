// SPDX-License-Identifier: Apache-2.0
#include "kernels/table.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace peal::kernels {
namespace {

constexpr int kTypes = 12;
constexpr int kOperations = 7;

TEST(Table, HasAKernelForEveryReduction) {
  std::set<std::string> names;
  int reductions = 0;
  for (Call call :
       {Call::kAllReduce, Call::kReduce, Call::kReduceScatter, Call::kScan, Call::kExclusiveScan}) {
    for (int t = 0; t < kTypes; ++t) {
      for (int o = 0; o < kOperations; ++o) {
        const auto type = static_cast<DataType>(t);
        const auto operation = static_cast<Operation>(o);
        const Kernel* const kernel = reduce_kernel(call, kernel_type(type, operation), operation);
        EXPECT_EQ(kernel != nullptr, applies(operation, type));
        if (kernel == nullptr) continue;
        ++reductions;
        names.insert(kernel->name);
        EXPECT_NE(kernel->on_cpu, nullptr);
        EXPECT_EQ(bytes_of(kernel_type(type, operation)), bytes_of(type));
      }
    }
  }
  EXPECT_EQ(reductions, 5 * (8 * 7 + 4 * 4));
  EXPECT_EQ(names.size(), 5u * (4 * 2 + 4 * 7 + 4 * 4));  // signed integers share with unsigned
}

TEST(Table, NamesKernelsAsTheyAre) {
  const Kernel* const kernel =
      reduce_kernel(Call::kScan, kernel_type(DataType::i32, Operation::sum), Operation::sum);
  ASSERT_NE(kernel, nullptr);
  EXPECT_STREQ(kernel->name, "peal_kernel_scan_u32_sum");
  EXPECT_STREQ(kernel->image, "reduce_u32");
  EXPECT_STREQ(collective_kernel(Call::kAllToAllV).name, "peal_kernel_all_to_all_v");
  EXPECT_STREQ(collective_kernel(Call::kSync).image, "collective");
}

TEST(Table, NamesTypesAndOperations) {
  EXPECT_STREQ(to_string(DataType::bf16), "bf16");
  EXPECT_STREQ(to_string(Operation::bit_xor), "bit_xor");
}

}  // namespace
}  // namespace peal::kernels
