// SPDX-License-Identifier: Apache-2.0
//
// Windows of a runtime whose memory is a GPU's (tests/support/gpu_job.h): of what can be shared,
// and of what cannot.
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "host/memory/backing_cuda.h"
#include "host/memory/pieces.h"
#include "tests/support/cuda_pool.h"
#include "tests/support/error_of.h"
#include "tests/support/gpu_job.h"
#include "tests/support/shared_mapping.h"

namespace peal {
namespace {

PEAL_KERNEL copy_from(Context ctx, uint64_t* box, const uint64_t* source) {
  (void)put(ctx, box, source, 1, ctx.pe);
}

TEST_F(RuntimeOnGpu, SharesWindowsOfTheGpuAndSaysWhatItCannotShare) {
  on_gpus(2, [&](Runtime& pe) {
    alignas(4096) static std::byte mine[4096];
    const std::string text = error_of([&] { pe.register_window(mine, sizeof(mine)); }).what();
    if (text.find("its 4096 bytes cannot be mapped: private memory (") == std::string::npos) {
      throw std::runtime_error(text);
    }
    const auto gpu = Gpu::open(-1, pe.my_pe());
    Backing other = make_cuda_backing(gpu, 4096, "window");
    pe.register_window(other.address(), 4096);
    auto* const box = reinterpret_cast<uint64_t*>(other.address());
    const auto context = pe.context();
    launch({}, copy_from, context, box, pe.allocate<uint64_t>(1)).wait();
    pe.check();
    pe.barrier();
    return 0;
  });
}

PEAL_KERNEL copy_all(Context ctx, const std::byte* window, const std::byte* source, size_t bytes,
                     Status* status) {
  *status = put(ctx, const_cast<std::byte*>(window), source, bytes, (ctx.pe + 1) % ctx.n_pes);
  if (*status == Status::kOk) *status = barrier_all(ctx);
}

// As PyTorch's expandable segments have them: a tensor begins in one piece and ends in another.
TEST_F(RuntimeOnGpu, SharesWindowsOfSeveralPieces) {
  constexpr size_t kPiece = 2u << 20;
  constexpr size_t kBytes = kPiece + 1000;
  for (const TransportKind transport : {TransportKind::kP2p, TransportKind::kIbgda}) {
    config_.transport = transport;
    config_.heap_size = 16u << 20;
    on_gpus(2, [&](Runtime& pe) {
      const auto gpu = Gpu::open(-1, pe.my_pe());
      Pieces pieces(*gpu);
      for (int i = 0; i < 3; ++i) pieces.create(kPiece, cuda::kPosixDescriptor);
      const GpuMapping tensor = pieces.map(gpu, kPiece);
      std::byte* const mine = tensor.get() + kPiece - 500;
      const WindowHandle window = pe.register_window(mine, kBytes);
      auto* const source = static_cast<std::byte*>(pe.malloc(kBytes));
      auto* const status = pe.allocate<Status>(1);
      std::vector<std::byte> sent(kBytes);
      for (size_t i = 0; i < kBytes; ++i) sent[i] = static_cast<std::byte>(i * 7 + i / 251);
      pe.copy_in(source, sent.data(), kBytes);
      pe.barrier();
      launch({}, copy_all, pe.context(), mine, source, kBytes, status).wait();
      pe.check();
      std::vector<std::byte> got(kBytes);
      gpu->copy(got.data(), mine, kBytes);
      pe.unregister_window(window);
      pe.barrier();
      return got == sent ? 0 : 2;
    });
  }
}

PEAL_KERNEL pass_on(Context ctx, uint64_t* words, Status* status) {
  words[0] = static_cast<uint64_t>(ctx.pe) + 1;
  *status = put(ctx, words + 8, words, 1, (ctx.pe + 1) % ctx.n_pes);
  if (*status == Status::kOk) *status = barrier_all(ctx);
}

/// Whether a word of such memory reaches the other PE.
bool passes_on(Runtime& pe, void* block) {
  auto* const words = static_cast<uint64_t*>(block);
  auto* const status = pe.allocate<Status>(1);
  launch({}, pass_on, pe.context(), words, status).wait();
  pe.check();
  uint64_t got = 0;
  pe.copy_out(&got, words + 8, sizeof(got));
  pe.barrier();
  pe.free(status);
  return got == 2 - static_cast<uint64_t>(pe.my_pe());
}

// Two windows of one allocation, of which the driver would end both at once.
TEST_F(RuntimeOnGpu, SharesWindowsOfAPool) {
  config_.transport = TransportKind::kP2p;
  on_gpus(2, [&](Runtime& pe) {
    const auto gpu = Gpu::open(-1, pe.my_pe());
    const auto pool = CudaPool::shared_of(gpu);
    pool->allocate(1000);
    std::byte* const mine = pool->allocate(16384) + 4096 * pe.my_pe() + 8;
    const WindowHandle outer = pe.register_window(mine, 8192);
    const WindowHandle inner = pe.register_window(mine + 4096, 4096);
    const bool both = passes_on(pe, mine);
    pe.unregister_window(outer);
    const bool one = passes_on(pe, mine + 4096);
    pe.unregister_window(inner);
    pe.barrier();  // the owner frees the last
    return both && one ? 0 : 2;
  });
}

TEST_F(RuntimeOnGpu, SaysThatItCannotShareTheDefaultPool) {
  config_.transport = TransportKind::kP2p;
  on_gpus(2, [&](Runtime& pe) {
    const auto pool = CudaPool::default_of(Gpu::open(-1, pe.my_pe()));
    std::byte* const mine = pool->allocate(4096);
    expect_error(error_of([&] { pe.register_window(mine, 4096); }), ErrorCode::kUnsupported,
                 {"its 4096 bytes cannot be mapped: same host, but memory of a pool without a",
                  "cudaMemHandleTypePosixFileDescriptor"});
    pe.barrier();
    return HasFailure() ? 3 : 0;
  });
}

TEST_F(RuntimeOnGpu, GrowsByMemoryOfTheGpu) {
  for (const TransportKind transport : {TransportKind::kP2p, TransportKind::kIbgda}) {
    config_.transport = transport;
    config_.heap_size = 4u << 20;
    on_gpus(2, [&](Runtime& pe) {
      int result = 0;
      for (int round = 0; round < 2; ++round) {
        void* const grown = pe.calloc(1, 6u << 20);
        if (!passes_on(pe, grown)) result = 2;
        pe.free(grown);
      }
      return result;
    });
  }
}

TEST_F(RuntimeOnGpu, HasHostMemoryInItsHeapBesideTheGpus) {
  config_.transport = TransportKind::kP2p;
  on_gpus(2, [&](Runtime& pe) {
    auto* const words = static_cast<uint64_t*>(pe.calloc(16, 8, HeapKind::kHost));
    int result = passes_on(pe, words) ? 0 : 2;
    // The host reads it itself.
    if (words[8] != 2 - static_cast<uint64_t>(pe.my_pe())) result = 3;
    pe.barrier();
    pe.free(words);
    return result;
  });
}

// Kernels load and store their own part and the peer's, and windows may overlap.
TEST_F(RuntimeOnGpu, SharesWindowsOfTheHost) {
  config_.transport = TransportKind::kP2p;
  on_gpus(2, [&](Runtime& pe) {
    const SharedMapping shared(16384, SharedMapping::memfd());
    std::byte* const mine = shared.begin() + 4096 * pe.my_pe() + 8;
    const WindowHandle outer = pe.register_window(mine, 8192);
    const WindowHandle inner = pe.register_window(mine + 4096, 4096);
    pe.unregister_window(outer);
    int result = passes_on(pe, mine + 4096) ? 0 : 2;
    // The host reads it itself.
    const auto* const words = reinterpret_cast<const uint64_t*>(mine + 4096);
    if (words[8] != 2 - static_cast<uint64_t>(pe.my_pe())) result = 3;
    pe.barrier();
    pe.unregister_window(inner);
    return result;
  });
}

// The software NIC of a GPU takes memory of GPUs only.
TEST_F(RuntimeOnGpu, SaysWhereTheNicTakesNoMemoryOfTheHost) {
  config_.transport = TransportKind::kIbgda;
  on_gpus(2, [&](Runtime& pe) {
    expect_error(error_of([&] { pe.malloc(64, HeapKind::kHost); }), ErrorCode::kSystem,
                 {"ibv_reg_mr"});
    void* const block = pe.malloc(128);
    if (!passes_on(pe, block)) return 2;
    return HasFailure() ? 3 : 0;
  });
}

constexpr WindowOptions kCached{.cached = true};

constexpr size_t kTensor = 2u << 20;

/// A tensor of a framework: memory that peal did not allocate.
GpuMapping make_tensor(const std::shared_ptr<Gpu>& gpu) {
  Pieces pieces(*gpu);
  pieces.create(kTensor, cuda::kPosixDescriptor);
  return pieces.map(gpu, kTensor);
}

/// The number of the window that a cached registration answers.
uint32_t window_of(Runtime& pe, const std::byte* part) {
  return pe.register_window(const_cast<std::byte*>(part), kTensor, kCached).number;
}

/// Whether all that registering them again and again answers is what was to be expected.
bool registers_once(Runtime& pe, const std::shared_ptr<Gpu>& gpu) {
  GpuMapping tensor = make_tensor(gpu);
  const GpuMapping other = make_tensor(gpu);
  const uint32_t first = window_of(pe, tensor.get());
  const bool again = window_of(pe, tensor.get()) == first;
  // PE 1 has another one beside PE 0's same: a window more.
  const std::byte* const mixed = pe.my_pe() == 0 ? tensor.get() : other.get();
  const uint32_t second = window_of(pe, mixed);
  const bool both =
      second != first && window_of(pe, mixed) == second && window_of(pe, tensor.get()) == first;
  // PE 1 frees its part of the first, and has new memory, perhaps at the same address.
  pe.barrier();
  if (pe.my_pe() == 1) {
    tensor.reset();
    tensor = make_tensor(gpu);
  }
  const uint32_t third = window_of(pe, tensor.get());
  const bool reached = passes_on(pe, tensor.get());
  const bool ended = error_of([&] { pe.unregister_window(WindowHandle{first}); }).code() ==
                         ErrorCode::kInvalidArgument &&
                     window_of(pe, mixed) == second;
  pe.unregister_window(WindowHandle{third});
  const bool anew = window_of(pe, tensor.get()) != third;
  pe.barrier();
  return again && both && reached && ended && anew;
}

TEST_F(RuntimeOnGpu, RegistersMemoryOnceUntilItsOwnerFreesIt) {
  for (const TransportKind transport : {TransportKind::kP2p, TransportKind::kIbgda}) {
    config_.transport = transport;
    on_gpus(2, [&](Runtime& pe) { return registers_once(pe, Gpu::open(-1, pe.my_pe())) ? 0 : 2; });
  }
}

// Nothing collects: there are fewer numbers of windows than rounds.
TEST_F(RuntimeOnGpu, EndsWindowsOfFreedMemory) {
  config_.transport = TransportKind::kP2p;
  on_gpus(2, [&](Runtime& pe) {
    const auto gpu = Gpu::open(-1, pe.my_pe());
    for (int round = 0; round < 40; ++round) {
      const GpuMapping tensor = make_tensor(gpu);
      pe.register_window(tensor.get(), kTensor, kCached);
      for (int again = 0; again < 250; ++again) {
        pe.register_local(tensor.get(), kTensor, kCached);
      }
      pe.barrier();
    }
    pe.register_window(pe.malloc(128), 128);  // ends what is left
    return fake_.mappings <= 2 ? 0 : 3;  // of the peer's: the heap, and the last tensor at most
  });
}

TEST_F(RuntimeOnGpu, RefusesToCacheWhatNothingTellsOf) {
  config_.transport = TransportKind::kIbgda;
  on_gpus(2, [&](Runtime& pe) {
    alignas(4096) static std::byte plain[4096];
    const Error window = error_of([&] { pe.register_window(plain, sizeof(plain), kCached); });
    const Error local = error_of([&] { pe.register_local(plain, sizeof(plain), kCached); });
    const auto gpu = Gpu::open(-1, pe.my_pe());
    const GpuMapping tensor = make_tensor(gpu);
    const Error differ =
        error_of([&] { pe.register_window(tensor.get(), 4096, {.cached = pe.my_pe() == 0}); });
    pe.barrier();
    const bool as_told =
        window.code() == ErrorCode::kUnsupported && local.code() == ErrorCode::kUnsupported &&
        std::string(differ.what()).find("WindowOptions::cached, which must be alike") !=
            std::string::npos;
    return as_told ? 0 : 2;
  });
}

}  // namespace
}  // namespace peal
