// SPDX-License-Identifier: Apache-2.0
//
// Mistakes that some schedule shows, one by name, for sim_test.sh: `./simulated NAME`. With -DRIGHT
// the same programs are right. The line that ends with a name is the one that the story names.
#include <peal/peal.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <cuda/atomic>
#include <stdexcept>

namespace {

constexpr int kWords = 4;
constexpr uint64_t kNew = 7;

struct Shared {
  uint64_t* data;  // kWords of them
  uint64_t* flag;
  uint64_t* wrong;
  uint64_t* theirs;  // `data` of the next PE
};

#if defined(RIGHT)
constexpr bool kRight = true;
#else
constexpr bool kRight = false;
#endif

__device__ void must(peal::Status status) {
  if (status != peal::Status::kOk) __trap();
}

// Plain stores into a peer's memory, and a p behind them.
__global__ void plain(peal::Context ctx, Shared my) {
  if (ctx.pe == 0) {
    for (int i = 0; i < kWords; ++i) my.theirs[i] = kNew;
    if (kRight) must(peal::fence(ctx));
    must(peal::p(ctx, my.flag, uint64_t{1}, 1));
  } else {
    must(peal::wait_until(ctx, my.flag, peal::Compare::kEq, uint64_t{1}));
    for (int i = 0; i < kWords; ++i) *my.wrong += my.data[i] != kNew;  // plain
  }
}

// The same with a put.
__global__ void put(peal::Context ctx, Shared my) {
  if (ctx.pe == 0) {
    const uint64_t source[kWords] = {kNew, kNew, kNew, kNew};
    must(peal::put(ctx, peal::thread, my.data, source, kWords, 1));
    if (kRight) must(peal::fence(ctx));
    must(peal::p(ctx, my.flag, uint64_t{1}, 1));
  } else {
    must(peal::wait_until(ctx, my.flag, peal::Compare::kEq, uint64_t{1}));
    for (int i = 0; i < kWords; ++i) *my.wrong += my.data[i] != kNew;  // put
  }
}

// Blocks of a GPU that tell each other behind a fence that reaches as far as a block.
__global__ void scope(peal::Context, Shared my) {
  auto* const flag = reinterpret_cast<unsigned long long*>(my.flag);
  if (blockIdx.x == 0) {
    my.data[0] = kNew;
    if (kRight) {
      __threadfence();
    } else {
      __threadfence_block();
    }
    atomicExch(flag, 1ull);
  } else {
    while (atomicAdd(flag, 0ull) == 0) {
    }
    __threadfence();
    *my.wrong += my.data[0] != kNew;  // scope
  }
}

// cuda::atomic_ref with an order that is too weak.
__global__ void order(peal::Context, Shared my) {
  const cuda::atomic_ref<uint64_t> flag(*my.flag);
  if (blockIdx.x == 0) {
    my.data[0] = kNew;
    flag.store(1, kRight ? cuda::memory_order_release : cuda::memory_order_relaxed);
  } else {
    while (flag.load(cuda::memory_order_acquire) == 0) {
    }
    *my.wrong += my.data[0] != kNew;  // order
  }
}

// A sum that is not atomic.
__global__ void sum(peal::Context, Shared my) {
  if (kRight) {
    atomicAdd(reinterpret_cast<unsigned long long*>(my.data), 1ull);
  } else {
    my.data[0] += 1;  // sum
  }
}

// Two locks, taken in two orders.
__global__ void locks(peal::Context, Shared my) {
  auto* const lock = reinterpret_cast<unsigned*>(my.data);
  const unsigned first = kRight ? 0 : blockIdx.x;
  while (atomicCAS(&lock[first], 0u, 1u) != 0) {
  }
  while (atomicCAS(&lock[1 - first], 0u, 1u) != 0) {  // locks
  }
  atomicExch(&lock[1 - first], 0u);
  atomicExch(&lock[first], 0u);
}

uint64_t read(const peal::Runtime& pe, const uint64_t* word) {
  uint64_t value = 0;
  pe.copy_out(&value, word, sizeof value);
  return value;
}

int run(const char* name) {
  using Kernel = void (*)(peal::Context, Shared);
  struct {
    const char* name;
    Kernel kernel;
    unsigned blocks;
  } const all[] = {{"plain", plain, 1}, {"put", put, 1}, {"scope", scope, 2},
                   {"order", order, 2}, {"sum", sum, 2}, {"locks", locks, 2}};
  peal::Runtime pe = peal::start();
  auto* const words = pe.allocate<uint64_t>(3 * kWords);
  const Shared shared = {words, words + kWords, words + 2 * kWords,
                         static_cast<uint64_t*>(pe.ptr(words, (pe.my_pe() + 1) % pe.n_pes()))};
  for (const auto& one : all) {
    if (std::strcmp(one.name, name) != 0) continue;
    one.kernel<<<one.blocks, 1>>>(pe.context(), shared);
    if (cudaDeviceSynchronize() != cudaSuccess) return 2;
    pe.check();
    const bool lost = one.kernel == sum && read(pe, shared.data) != 2;
    return lost || read(pe, shared.wrong) != 0 ? 1 : 0;
  }
  throw std::invalid_argument(std::string("there is no ") + name);
}

}  // namespace

int main(int argc, char** argv) {
  return peal::run_main([&] { return run(argc > 1 ? argv[1] : ""); });
}
