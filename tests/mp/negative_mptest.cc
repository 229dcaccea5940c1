// SPDX-License-Identifier: Apache-2.0
//
// What a kernel may get wrong. Each error ends as a Status at the call, is kept with its arguments,
// comes back from quiet, and is named by failure() on the host; nothing else is disturbed: other
// contexts, other PEs, later calls.
//
// Each test spoils a context of its own: the first error of a context stays with it.
#include <sys/mman.h>

#include <vector>

#include "tests/support/job.h"

namespace peal::api_test {
namespace {

/// What a kernel is to do wrong: with whom, where.
struct Mistake {
  std::byte* there;
  std::byte* here;
  size_t bytes;
  int pe;
};

using Call = Status (*)(const Context&, const Mistake&);

Status do_put(const Context& ctx, const Mistake& m) {
  return put(ctx, m.there, m.here, m.bytes, m.pe);
}
Status do_put_nbi(const Context& ctx, const Mistake& m) {
  return put_nbi(ctx, m.there, m.here, m.bytes, m.pe).status;
}
Status do_get(const Context& ctx, const Mistake& m) {
  return get(ctx, m.here, m.there, m.bytes, m.pe);
}
Status do_get_nbi(const Context& ctx, const Mistake& m) {
  return get_nbi(ctx, m.here, m.there, m.bytes, m.pe).status;
}
Status do_p(const Context& ctx, const Mistake& m) {
  return p(ctx, reinterpret_cast<uint64_t*>(m.there), uint64_t{1}, m.pe);
}
Status do_g(const Context& ctx, const Mistake& m) {
  return g(ctx, reinterpret_cast<uint64_t*>(m.there), m.pe).status;
}
Status do_iput(const Context& ctx, const Mistake& m) {
  const uint64_t value = 3;
  return iput(ctx, thread, reinterpret_cast<uint64_t*>(m.there), &value, {.dst = 1, .src = 1}, 1,
              m.pe);
}
Status do_iget(const Context& ctx, const Mistake& m) {
  return iget(ctx, thread, reinterpret_cast<uint64_t*>(m.here),
              reinterpret_cast<uint64_t*>(m.there), {.dst = 1, .src = 1}, 1, m.pe);
}
Status do_signal(const Context& ctx, const Mistake& m) {
  return signal(ctx, Signal::set(reinterpret_cast<uint64_t*>(m.there), 1, m.pe));
}
Status do_signal_add(const Context& ctx, const Mistake& m) {
  return signal(ctx, Signal::add(reinterpret_cast<uint64_t*>(m.there), 1, m.pe));
}
Status do_put_signal(const Context& ctx, const Mistake& m) {
  return put_signal(ctx, m.there, m.here, m.bytes,
                    Signal::set(reinterpret_cast<uint64_t*>(m.there), 1, m.pe));
}
Status do_fetch_add(const Context& ctx, const Mistake& m) {
  return atomic_fetch_add(ctx, reinterpret_cast<uint64_t*>(m.there), 1, m.pe).status;
}
Status do_add(const Context& ctx, const Mistake& m) {
  return atomic_add(ctx, reinterpret_cast<uint64_t*>(m.there), 1, m.pe);
}
Status do_add32(const Context& ctx, const Mistake& m) {
  return atomic_add(ctx, reinterpret_cast<uint32_t*>(m.there), 1, m.pe);
}
Status do_fetch32(const Context& ctx, const Mistake& m) {
  return atomic_fetch(ctx, reinterpret_cast<uint32_t*>(m.there), m.pe).status;
}
Status do_swap32(const Context& ctx, const Mistake& m) {
  return atomic_swap(ctx, reinterpret_cast<float*>(m.there), 1.0f, m.pe).status;
}
Status do_put_tile(const Context& ctx, const Mistake& m) {
  return put(ctx, thread, m.there, m.here, Tile{2, m.bytes / 2, {48, 32}}, m.pe);
}
Status do_get_tile(const Context& ctx, const Mistake& m) {
  return get(ctx, thread, m.here, m.there, Tile{2, (m.bytes + 1) / 2, {48, 32}}, m.pe);
}
Status do_batch_put(const Context& ctx, const Mistake& m) {
  Batch batch(ctx);
  return batch.put_nbi(m.there, m.here, m.bytes, m.pe).status;
}
Status do_batch_add(const Context& ctx, const Mistake& m) {
  Batch batch(ctx);
  return batch.atomic_add(reinterpret_cast<uint64_t*>(m.there), 1, m.pe);
}
Status do_batch_signal(const Context& ctx, const Mistake& m) {
  Batch batch(ctx);
  return batch.signal(Signal::set(reinterpret_cast<uint64_t*>(m.there), 1, m.pe));
}
Status do_fetch_add_nbi(const Context& ctx, const Mistake& m) {
  return atomic_fetch_add_nbi(ctx, reinterpret_cast<uint64_t*>(m.here),
                              reinterpret_cast<uint64_t*>(m.there), 1, m.pe)
      .status;
}
Status do_add_real(const Context& ctx, const Mistake& m) {
  return atomic_add(ctx, reinterpret_cast<double*>(m.there), 1.0, m.pe);
}
Status do_max(const Context& ctx, const Mistake& m) {
  return atomic_fetch_max(ctx, reinterpret_cast<int64_t*>(m.there), 1, m.pe).status;
}
Status do_quiet_pe(const Context& ctx, const Mistake& m) { return quiet(ctx, m.pe); }
Status do_fence_pe(const Context& ctx, const Mistake& m) { return fence(ctx, m.pe); }

PEAL_KERNEL err(Verdict* verdict, Context ctx, Call call, Mistake mistake, Status wanted) {
  const auto code = static_cast<unsigned>(wanted);
  expect_eq(verdict, static_cast<unsigned>(call(ctx, mistake)), code);
  expect_eq(verdict, static_cast<unsigned>(quiet(ctx)), code);  // told again
  expect_eq(verdict, static_cast<unsigned>(fence(ctx)), code);
}

/// Later calls are carried out; only what reports the context's first error reports it.
PEAL_KERNEL go_on(Verdict* verdict, Context ctx, uint64_t* box, Status latched) {
  const int next = (my_pe(ctx) + 1) % n_pes(ctx);
  expect_ok(verdict, p(ctx, box, uint64_t{77}, next));
  const Fetched<uint64_t> back = g(ctx, box, next);
  expect_ok(verdict, back.status);
  expect_eq(verdict, back.value, 77);
  // The barrier is kept, for the peers' sake, and the error told once more.
  expect_eq(verdict, static_cast<unsigned>(barrier_all(ctx)), static_cast<unsigned>(latched));
  expect_ok(verdict, sync_all(ctx));
}

/// Makes the mistake on every PE; then the host must name it, and all else must work.
void expect_refused(Runtime& pe, Call call, const Mistake& mistake, Status status,
                    const std::vector<std::string>& parts) {
  Symmetric<uint64_t> box(pe, 1);
  {
    const auto context = pe.make_context({.queues_per_peer = 2, .depth = 128});
    run({}, err, context.value(), call, mistake, status);
    const Failure failure = pe.failure();
    EXPECT_EQ(to_string(failure.status), std::string(to_string(status)));
    EXPECT_EQ(failure.pe, mistake.pe);
    for (const std::string& part : parts) {
      EXPECT_NE(failure.text.find(part), std::string::npos) << part << " in " << failure.text;
    }
    EXPECT_THROW(pe.check(), Error);
    run({}, go_on, context.value(), box.data(), status);
    run({}, go_on, pe.context(), box.data(), Status::kOk);
    pe.barrier();
  }
  EXPECT_EQ(pe.failure().status, Status::kOk) << "it went with its context";
}

struct NamedCall {
  const char* name;
  Call call;
};

class Misuse : public testing::TestWithParam<NamedCall> {};
std::string name_of(const testing::TestParamInfo<NamedCall>& info) { return info.param.name; }

const NamedCall kCalls[] = {{"put", do_put},
                            {"put_nbi", do_put_nbi},
                            {"get", do_get},
                            {"get_nbi", do_get_nbi},
                            {"p", do_p},
                            {"g", do_g},
                            {"iput", do_iput},
                            {"iget", do_iget},
                            {"signal_set", do_signal},
                            {"signal_add", do_signal_add},
                            {"put_signal", do_put_signal},
                            {"fetch_add", do_fetch_add},
                            {"add", do_add},
                            {"fetch_32", do_fetch32},
                            {"put_tile", do_put_tile},
                            {"get_tile", do_get_tile},
                            {"batch_put", do_batch_put},
                            {"batch_add", do_batch_add},
                            {"batch_signal", do_batch_signal},
                            {"fetch_add_nbi", do_fetch_add_nbi},
                            {"add_real", do_add_real},
                            {"max", do_max}};
INSTANTIATE_TEST_SUITE_P(Of, Misuse, testing::ValuesIn(kCalls), name_of);

TEST_P(Misuse, OfAPeBelowZeroIsRefused) {
  on_every_pe([&](Runtime& pe) {
    Symmetric<std::byte> data(pe, 256);
    expect_refused(
        pe, GetParam().call, {data.data(), data.data() + 128, 64, -1}, Status::kBadPe,
        {"PE -1", "no such pe", fmt::format("{:#x}", reinterpret_cast<uintptr_t>(data.data()))});
  });
}

TEST_P(Misuse, OfAPeBeyondTheLastIsRefused) {
  on_every_pe([&](Runtime& pe) {
    Symmetric<std::byte> data(pe, 256);
    expect_refused(pe, GetParam().call, {data.data(), data.data() + 128, 64, pe.n_pes()},
                   Status::kBadPe, {fmt::format("PE {}", pe.n_pes()), "no such pe"});
  });
}

TEST_P(Misuse, OfAnAddressThatIsNotSymmetricIsRefused) {
  on_every_pe([&](Runtime& pe) {
    Symmetric<std::byte> data(pe, 256);
    alignas(8) std::byte mine[64] = {};
    expect_refused(
        pe, GetParam().call, {mine, data.data(), 64, 0}, Status::kNotSymmetric,
        {"PE 0", "address not symmetric", fmt::format("{:#x}", reinterpret_cast<uintptr_t>(mine))});
  });
}

TEST_P(Misuse, OfTheNullPointerIsRefused) {
  on_every_pe([&](Runtime& pe) {
    Symmetric<std::byte> data(pe, 256);
    expect_refused(pe, GetParam().call, {nullptr, data.data(), 64, 0}, Status::kNotSymmetric,
                   {"address not symmetric", "address 0x0"});
  });
}

TEST(Misuses, OfOnePesQuietAndFenceAreRefused) {
  on_every_pe([](Runtime& pe) {
    for (const Call call : {do_quiet_pe, do_fence_pe}) {
      for (const int wrong : {-1, pe.n_pes()}) {
        expect_refused(pe, call, {nullptr, nullptr, 0, wrong}, Status::kBadPe,
                       {fmt::format("PE {}", wrong), "no such pe"});
      }
    }
  });
}

/// The first byte behind the heap, found from its last block.
std::byte* end_of_heap(const Runtime& pe) {
  const Window heap = pe.context().heap;
  return heap.base + heap.bytes;
}

TEST_P(Misuse, AcrossTheEndOfTheHeapIsRefused) {
  on_every_pe([&](Runtime& pe) {
    Symmetric<std::byte> data(pe, 256);
    std::byte* const there = end_of_heap(pe) - 4;
    // A 4-byte word still fits there.
    const bool narrow = GetParam().call == do_fetch32;
    expect_refused(pe, GetParam().call, {there + (narrow ? 4 : 0), data.data(), 64, 0},
                   Status::kNotSymmetric, {"address not symmetric"});
  });
}

PEAL_KERNEL touch_the_end(Verdict* verdict, Context ctx, std::byte* end, std::byte* here) {
  expect_ok(verdict, get(ctx, here, end - 64, 64, n_pes(ctx) - 1));
  expect_ok(verdict, g(ctx, reinterpret_cast<uint64_t*>(end - 8), 0).status);
}

TEST(Heap, ItsLastByteIsStillWithin) {
  on_every_pe([](Runtime& pe) {
    Symmetric<std::byte> here(pe, 64);
    run_clean(pe, {}, touch_the_end, pe.context(), end_of_heap(pe), here.data());
  });
}

TEST(Local, LargeSourceOutsideAllWindowsIsRefused) {
  on_every_pe([](Runtime& pe) {
    if (without_nic(pe)) GTEST_SKIP() << "it is the NIC that asks";
    Symmetric<std::byte> data(pe, 256);
    std::byte mine[64] = {};
    const std::string here = fmt::format("{:#x}", reinterpret_cast<uintptr_t>(mine));
    for (const Call call : {do_put, do_put_nbi, do_put_signal, do_batch_put}) {
      Symmetric<uint64_t> box(pe, 1);
      const auto context = pe.make_context({.queues_per_peer = 1, .depth = 128});
      run({}, err, context.value(), call, Mistake{data.data(), mine, 1025, 0},
          Status::kNotRegistered);
      const Failure failure = pe.failure();
      EXPECT_EQ(failure.pe, pe.my_pe());
      EXPECT_NE(failure.text.find(here + ", 1025 bytes: address not registered"), std::string::npos)
          << failure.text;
      run({}, go_on, context.value(), box.data(), Status::kNotRegistered);
      pe.barrier();
    }
  });
}

TEST(Local, DestinationOfAGetOutsideAllWindowsIsRefused) {
  on_every_pe([](Runtime& pe) {
    if (without_nic(pe)) GTEST_SKIP() << "it is the NIC that asks";
    Symmetric<std::byte> data(pe, 256);
    std::byte mine[64] = {};
    for (const Call call : {do_get, do_get_nbi, do_get_tile}) {
      const auto context = pe.make_context({.queues_per_peer = 1, .depth = 128});
      run({}, err, context.value(), call, Mistake{data.data(), mine, 2050, 0},
          Status::kNotRegistered);
      EXPECT_EQ(pe.failure().status, Status::kNotRegistered);
      pe.barrier();
    }
  });
}

void expect_misaligned(Call call, size_t offset) {
  on_every_pe([&](Runtime& pe) {
    Symmetric<std::byte> data(pe, 256);
    std::byte* const there = data.data() + offset;
    expect_refused(pe, call, {there, data.data() + 128, 16, pe.n_pes() - 1}, Status::kMisaligned,
                   {"address misaligned", fmt::format("PE {}", pe.n_pes() - 1),
                    fmt::format("{:#x}", reinterpret_cast<uintptr_t>(there))});
  });
}
TEST(Misaligned, EightByteAtomicIsRefused) { expect_misaligned(do_add, 4); }
TEST(Misaligned, EightByteFetchingAtomicIsRefused) { expect_misaligned(do_fetch_add, 1); }
TEST(Misaligned, FourByteAtomicIsRefused) { expect_misaligned(do_add32, 2); }
TEST(Misaligned, FourByteFetchIsRefused) { expect_misaligned(do_fetch32, 1); }
TEST(Misaligned, FloatSwapIsRefused) { expect_misaligned(do_swap32, 3); }
TEST(Misaligned, AtomicThatDoesNotWaitIsRefused) { expect_misaligned(do_fetch_add_nbi, 4); }
TEST(Misaligned, SumOfRealsIsRefused) { expect_misaligned(do_add_real, 4); }
TEST(Misaligned, AtomicOfABatchIsRefused) { expect_misaligned(do_batch_add, 2); }
TEST(Misaligned, SignalSetIsRefused) { expect_misaligned(do_signal, 4); }
TEST(Misaligned, SignalAddIsRefused) { expect_misaligned(do_signal_add, 7); }
TEST(Misaligned, PutWithSignalIsRefused) { expect_misaligned(do_put_signal, 4); }

PEAL_KERNEL fail_twice(Verdict* verdict, Context ctx, uint64_t* word) {
  expect_eq(verdict, static_cast<unsigned>(p(ctx, word, 1, 1000)),
            static_cast<unsigned>(Status::kBadPe));
  uint64_t mine = 0;
  expect_eq(verdict, static_cast<unsigned>(p(ctx, &mine, 1, 0)),
            static_cast<unsigned>(Status::kNotSymmetric));
  expect_eq(verdict, static_cast<unsigned>(quiet(ctx)), static_cast<unsigned>(Status::kBadPe));
}

TEST(Misuses, TheFirstOneIsKept) {
  on_every_pe([](Runtime& pe) {
    Symmetric<uint64_t> word(pe, 1);
    const auto context = pe.make_context({.queues_per_peer = 1, .depth = 128});
    run({}, fail_twice, context.value(), word.data());
    EXPECT_EQ(pe.failure().status, Status::kBadPe);
    EXPECT_EQ(pe.failure().pe, 1000);
    pe.barrier();
  });
}

PEAL_KERNEL fail_in_all_lanes(Verdict* verdict, Context ctx, uint64_t* word) {
  const auto wanted = static_cast<unsigned>(Status::kBadPe);
  expect_eq(verdict, static_cast<unsigned>(put(ctx, block, word, word, 1, -2)), wanted);
  expect_eq(verdict, static_cast<unsigned>(get(ctx, warp, word, word, 1, -2)), wanted);
  expect_eq(verdict, static_cast<unsigned>(quiet(ctx, block)), wanted);
}

TEST(Misuses, AreToldToEveryLaneOfTheScope) {
  on_every_pe([](Runtime& pe) {
    Symmetric<uint64_t> word(pe, 1);
    const auto context = pe.make_context({.queues_per_peer = 1, .depth = 128});
    run({.blocks = 3, .threads = 50}, fail_in_all_lanes, context.value(), word.data());
    pe.barrier();
  });
}

TEST(Misuses, OfOnePeDoNotDisturbTheOthers) {
  on_every_pe([](Runtime& pe) {
    Symmetric<uint64_t> box(pe, 1);
    const auto context = pe.make_context({.queues_per_peer = 1, .depth = 128});
    const Mistake mistake{reinterpret_cast<std::byte*>(box.data()), nullptr, 8, -1};
    if (pe.my_pe() == 0) run({}, err, context.value(), do_p, mistake, Status::kBadPe);
    pe.barrier();
    const Status latched = pe.my_pe() == 0 ? Status::kBadPe : Status::kOk;
    run({}, go_on, context.value(), box.data(), latched);
    EXPECT_EQ(pe.failure().status, latched);
    pe.barrier();
  });
}

// Memory of this PE alone, kept until the program ends: registrations last as long.
std::byte* pages(size_t bytes) {
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return static_cast<std::byte*>(memory);
}

TEST(Windows, ALocalRegistrationIsNoDestination) {
  on_every_pe([](Runtime& pe) {
    Symmetric<std::byte> data(pe, 256);
    std::byte* const mine = pages(4096);
    pe.register_local(mine, 4096);
    expect_refused(pe, do_put, {mine, data.data(), 64, 0}, Status::kNotSymmetric,
                   {"address not symmetric"});
  });
}

// Within the first page, before the registered part.
TEST(Windows, WhatLiesBeforeAWindowIsRefused) {
  on_every_pe([](Runtime& pe) {
    if (without_nic(pe)) GTEST_SKIP() << "such memory cannot be shared";
    std::byte* const window = pages(2 * 4096) + 64;
    pe.register_window(window, 4096);
    Symmetric<std::byte> data(pe, 64);
    expect_refused(pe, do_put, {window - 8, data.data(), 64, pe.n_pes() - 1}, Status::kNotSymmetric,
                   {"address not symmetric"});
    pe.unregister_window(window);
  });
}

PEAL_KERNEL reach_behind_heap(Verdict* verdict, Context ctx, std::byte* there, std::byte* here) {
  const Status status = put(past_the_heap(ctx), there, here, 64, n_pes(ctx) - 1);
  expect(verdict, status == Status::kQueueError);
  expect_eq(verdict, static_cast<unsigned>(quiet(ctx)), static_cast<unsigned>(Status::kQueueError));
  expect_eq(verdict, static_cast<unsigned>(p(ctx, here, std::byte{1}, n_pes(ctx) - 1)),
            static_cast<unsigned>(Status::kQueueError));
}

TEST(Windows, TheNicRefusesWhatLiesBehindOneAndIsQuoted) {
  on_every_pe([](Runtime& pe) {
    if (without_nic(pe)) GTEST_SKIP() << "it is the NIC that asks";
    Symmetric<std::byte> data(pe, 64);
    Symmetric<uint64_t> box(pe, 1);
    {
      const auto context = pe.make_context({.queues_per_peer = 1, .depth = 128});
      run({}, reach_behind_heap, context.value(),
          reinterpret_cast<std::byte*>(behind_heap(context.value())), data.data());
      const Failure failure = pe.failure();
      EXPECT_EQ(failure.status, Status::kQueueError);
      EXPECT_EQ(failure.pe, pe.n_pes() - 1);
      EXPECT_EQ(failure.syndrome, 0x13);
      const std::string wanted = fmt::format(
          "RDMA_WRITE to PE {} failed: peer refused key, range or access right", pe.n_pes() - 1);
      EXPECT_NE(failure.text.find(wanted), std::string::npos) << failure.text;
      pe.barrier();
    }
    run({}, go_on, pe.context(), box.data(), Status::kOk);
    pe.barrier();
  });
}

template <class Call>
std::string error_of(Call&& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

TEST(Windows, DifferentSizesAreAnErrorOnAllPes) {
  on_every_pe([](Runtime& pe) {
    if (pe.n_pes() == 1) GTEST_SKIP() << "one PE agrees with itself";
    std::byte* const mine = pages(2 * 4096);
    const auto text = error_of([&] { pe.register_window(mine, pe.my_pe() == 1 ? 4096 : 8192); });
    EXPECT_NE(text.find("PE 1 registers 4096 bytes, PE 0 8192"), std::string::npos) << text;
    Symmetric<uint64_t> box(pe, 1);
    run({}, go_on, pe.context(), box.data(), Status::kOk);
  });
}

TEST(Windows, NothingCannotBeRegistered) {
  on_every_pe([](Runtime& pe) {
    EXPECT_NE(error_of([&] { pe.register_window(nullptr, 64); }).find("registers 0 bytes"),
              std::string::npos);
    EXPECT_NE(error_of([&] { pe.register_local(nullptr, 64); }).find("nothing to register"),
              std::string::npos);
    EXPECT_NE(error_of([&] { pe.register_local(pages(4096), 0); }).find("nothing to register"),
              std::string::npos);
    const std::string beyond = "end of the address space";
    std::byte* const page = pages(4096);
    EXPECT_NE(error_of([&] { pe.register_window(page, ~size_t{0}); }).find(beyond),
              std::string::npos);
    EXPECT_NE(error_of([&] { pe.register_local(page, ~size_t{0}); }).find(beyond),
              std::string::npos);
  });
}

TEST(Windows, MemoryThatOnePeDoesNotHaveIsAnErrorOnAllPes) {
  on_every_pe([](Runtime& pe) {
    if (without_nic(pe)) GTEST_SKIP() << "it is the NIC that asks";
    if (pe.n_pes() == 1) GTEST_SKIP() << "the others are what is tested";
    std::byte* const mine = pages(4096);
    if (pe.my_pe() == 1 && mprotect(mine, 4096, PROT_NONE) != 0) GTEST_SKIP();
    const auto text = error_of([&] { pe.register_window(mine, 4096); });
    EXPECT_EQ(text.find("PE 1: ibv_reg_mr_iova2"), 0u) << text;
    Symmetric<uint64_t> box(pe, 1);
    run({}, go_on, pe.context(), box.data(), Status::kOk);
  });
}

PEAL_KERNEL nothing(Verdict*) {}

TEST(Grids, ThatCudaWouldRefuseAreRefusedWithTheReason) {
  const auto refused = [](const Grid& grid, const std::string& part) {
    const std::string text = error_of([&] { run(grid, nothing); });
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  refused({.blocks = 0, .threads = 1}, "each extent must be at least 1");
  refused({.blocks = 1, .threads = 0}, "each extent must be at least 1");
  refused({.blocks = 1, .threads = 1025}, "threads = 1025");
  refused({.blocks = 1, .threads = {33, 32, 1}}, "a block has at most 1024");
  refused({.blocks = {1, 65'536, 1}, .threads = 1}, "blocks = 1 x 65536 x 1");
  refused({.blocks = 1, .threads = 1, .shared_bytes = 1 << 20}, "shared_bytes = 1048576");
  run({.blocks = 2, .threads = 1024}, nothing);
}

}  // namespace
}  // namespace peal::api_test
