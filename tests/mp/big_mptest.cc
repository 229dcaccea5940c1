// SPDX-License-Identifier: Apache-2.0
//
// One put and one get of more than 2 GiB: beyond the largest message of the wire and beyond 31
// bits. The heap is made large here; two PEs need some 5 GB of memory.
#include "device/rma.h"
#include "device/sync.h"
#include "tests/support/job.h"

namespace peal::api_test {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr uint64_t kWords = (2 * kGiB + 8 * 1024) / 8;
constexpr uint64_t kTail = 5;  // the size is no multiple of anything
constexpr uint64_t kBytes = kWords * 8 + kTail;

void fill_all(std::byte* data, uint64_t seed) {
  fill_words(reinterpret_cast<uint64_t*>(data), kWords, seed);
  fill(data + kWords * 8, kTail, seed);
}

/// The first word that is not seed's; kWords + k for a byte of the tail.
uint64_t first_wrong(const std::byte* data, uint64_t seed) {
  const size_t words = first_wrong_word(reinterpret_cast<const uint64_t*>(data), kWords, seed);
  return words < kWords ? words : kWords + first_difference(data + kWords * 8, kTail, seed);
}

PEAL_KERNEL put_big(Verdict* verdict, Context ctx, std::byte* data, int pe) {
  expect_ok(verdict, put(ctx, warp, data, data, kBytes, pe));
  expect_ok(verdict, quiet(ctx, warp));
}

PEAL_KERNEL get_big(Verdict* verdict, Context ctx, std::byte* data, int pe) {
  expect_ok(verdict, get(ctx, warp, data, data, kBytes, pe));
}

// PE 0 sends to the last PE, loses its copy, and gets it back.
TEST(Big, MoreThanTwoGiBThereAndBack) {
  on_every_pe([](Runtime& pe) {
    const auto context = pe.make_context({.timeout = std::chrono::seconds(100)});
    auto* const data = static_cast<std::byte*>(pe.malloc(kBytes + 64));
    const int last = pe.n_pes() - 1;
    const bool first = pe.my_pe() == 0;
    std::fill_n(data + kBytes, 64, std::byte{0xee});
    if (first) fill_all(data, 11);
    pe.barrier();
    if (first) {
      run_clean(pe, {.blocks = 1, .threads = 32}, put_big, context.value(), data, last);
    }
    pe.barrier();
    if (pe.my_pe() == last) {
      EXPECT_EQ(first_wrong(data, 11), kWords + kTail) << "of " << kWords << " words";
      EXPECT_EQ(first_other(data + kBytes, 64, std::byte{0xee}), 64u);
    }
    if (first && last != 0) std::fill_n(data, kBytes, std::byte{0});
    pe.barrier();
    if (first) {
      run_clean(pe, {.blocks = 1, .threads = 32}, get_big, context.value(), data, last);
      EXPECT_EQ(first_wrong(data, 11), kWords + kTail) << "of " << kWords << " words";
      EXPECT_EQ(first_other(data + kBytes, 64, std::byte{0xee}), 64u);
    }
    pe.barrier();
    pe.free(data);
  });
}

}  // namespace
}  // namespace peal::api_test

int main(int argc, char** argv) {
  setenv("PEAL_HEAP_SIZE", "2112M", 1);
  return peal::api_test::run_tests(argc, argv);
}
