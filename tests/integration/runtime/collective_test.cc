// SPDX-License-Identifier: Apache-2.0
//
// What a collective call leaves behind when it fails on one PE, and how the end of a Runtime meets
// the peers.
#include <gtest/gtest.h>

#include <iostream>
#include <memory>
#include <string>

#include "tests/support/error_of.h"
#include "tests/support/gpu_job.h"

namespace peal::api_test {
namespace {

/// Hazard: a PE whose part of a collective call failed threw by itself, and the others waited for
/// it until PEAL_BOOTSTRAP_TIMEOUT.
TEST_F(RuntimeOnGpu, CallsThatFailOnOnePeFailOnAllWithItsWords) {
  config_.transport = TransportKind::kIbgda;
  bootstrap::run_processes(2, [&](Bootstrap& group) {
    Runtime pe = start(group);
    const auto fails = [&](const char* symbol, const char* part, const auto& call) {
      if (pe.my_pe() == 1) fake_.refuse[symbol] = 2;
      const std::string why = error_of(call).what();
      fake_.refuse.clear();
      const bool told = why.find("PE 1: ") == 0 && why.find(part) != std::string::npos;
      if (!told) std::cerr << "PE " << pe.my_pe() << ", " << symbol << ": " << why << "\n";
      pe.barrier();  // the group is as good as before
      return told;
    };
    const auto make = [&] { pe.make_context(); };
    const auto recover = [&] { pe.recover(); };
    const auto allocate = [&] { pe.allocate<uint64_t>(4); };
    auto* const words = pe.allocate<uint64_t>(4);
    const auto add_window = [&] { pe.register_window(words, 32); };
    if (!fails("cuMemAlloc", "of memory for queues on GPU 1", make)) return 1;
    if (!fails("cuMemcpyAsync", "cuMemcpyAsync", make)) return 2;
    if (!fails("cuMemcpyAsync", "cuMemcpyAsync", recover)) return 3;
    if (!fails("cuMemsetD8Async", "cuMemsetD8Async", recover)) return 4;
    if (!fails("cuMemsetD8Async", "cuMemsetD8Async", allocate)) return 5;
    if (!fails("cuMemcpyAsync", "cuMemcpyAsync", add_window)) return 7;
    if (pe.context().windows->count != 1) return 8;
    pe.recover();
    const auto more = pe.make_context();
    pe.barrier();
    return pe.status() == Status::kOk ? 0 : 6;
  });
}

/// A PE alone, whose barriers are counted.
class CountingBootstrap : public Bootstrap {
 public:
  explicit CountingBootstrap(int& barriers) : barriers_(barriers) {}
  int rank() const override { return one_->rank(); }
  int size() const override { return one_->size(); }
  void allgather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    one_->allgather(mine, all);
  }
  void barrier() override {
    ++barriers_;
    one_->barrier();
  }
  [[noreturn]] void abort(const std::string& reason) override {
    one_->abort(reason);
    std::abort();  // g++ does not know that the call above stays
  }

 private:
  std::unique_ptr<Bootstrap> one_ = bootstrap::make_single();
  int& barriers_;
};

/// Hazard: assignment released a Runtime's memory while peers could still be using it. The end of
/// a Runtime meets the peers before and after the mappings end, however it comes.
TEST(Runtime, ThatIsAssignedToEndsAsADestroyedOneDoes) {
  int destroyed = 0, assigned = 0, next = 0;
  const auto start = [](int& barriers) {
    return Runtime(std::make_unique<CountingBootstrap>(barriers), small_config());
  };
  int before = 0;
  {
    const Runtime pe = start(destroyed);
    before = destroyed;
  }
  Runtime pe = start(assigned);
  ASSERT_EQ(assigned, before);
  pe = start(next);
  EXPECT_EQ(assigned, destroyed);
  EXPECT_EQ(assigned, before + 2);
  EXPECT_EQ(next, before) << "the new one goes on";
  EXPECT_EQ(pe.status(), Status::kOk);
}

// Hazard: a PE in malloc and one in register_window were told of an "allgather #107 of 108 bytes".
TEST(CollectiveCalls, AreNamedWherePesMakeDifferentOnes) {
  bootstrap::run_threads(2, [](Bootstrap& group) {
    Runtime pe = peal::api_test::start(group);
    std::vector<uint64_t> memory(8);
    const Error error = error_of([&] {
      if (pe.my_pe() == 0) return static_cast<void>(pe.malloc(64));
      pe.register_window(memory.data(), 64);
    });
    expect_error(error, ErrorCode::kInvalidArgument,
                 {"rank 1 of 2 is in register_window #", "rank 0 in malloc #"});
  });
}

}  // namespace
}  // namespace peal::api_test

int main(int argc, char** argv) { return peal::api_test::run_tests(argc, argv); }
