// SPDX-License-Identifier: Apache-2.0
//
// The comparison's cases on NVSHMEM's public API. Built by build.sh, started by compare.py.
//
// Where the API has several calls for one thing, each is a variant and the best counts: untyped and
// typed transfers, blocking and non-blocking put with signal.
#include <nvshmem.h>
#include <nvshmemx.h>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>

#include "perf/compare/comparison.h"

namespace peal::perf {
namespace {

void expect(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(error));
}

enum class Form { kUntyped, kTyped };

/// What all variants have in common: everything but transfers and ping-pong.
struct NvshmemWords {
  template <class Word>
  PEAL_DEVICE Status p(Word* word, Word value, int pe) const {
    if constexpr (sizeof(Word) == 4) nvshmem_uint32_p(word, value, pe);
    if constexpr (sizeof(Word) == 8) nvshmem_uint64_p(word, value, pe);
    return Status::kOk;
  }
  PEAL_DEVICE Status quiet() const {
    nvshmem_quiet();
    return Status::kOk;
  }
  PEAL_DEVICE Status wait(Thread, uint64_t* flag, uint64_t value) const {
    nvshmem_signal_wait_until(flag, NVSHMEM_CMP_GE, value);
    return Status::kOk;
  }
  PEAL_DEVICE Status add(uint64_t* word, uint64_t value, int pe) const {
    nvshmem_uint64_atomic_add(word, value, pe);
    return Status::kOk;
  }
  PEAL_DEVICE Status fetch_add(uint64_t* old, uint64_t* word, uint64_t value, int pe) const {
    *old = nvshmem_uint64_atomic_fetch_add(word, value, pe);
    return Status::kOk;
  }
  PEAL_DEVICE Status barrier(Thread) const {
    nvshmem_barrier_all();
    return Status::kOk;
  }
  PEAL_DEVICE Status barrier(Warp) const {
    nvshmemx_barrier_all_warp();
    return Status::kOk;
  }
  PEAL_DEVICE Status barrier(Block) const {
    nvshmemx_barrier_all_block();
    return Status::kOk;
  }
};

// The API's names: transfer(scope, dst, src, count, pe).
#define PEAL_NVSHMEM_BY_SCOPE(ours, type, stem)                                        \
  PEAL_DEVICE static void ours(Thread, type* dst, const type* src, size_t n, int pe) { \
    nvshmem_##stem##_nbi(dst, src, n, pe);                                             \
  }                                                                                    \
  PEAL_DEVICE static void ours(Warp, type* dst, const type* src, size_t n, int pe) {   \
    nvshmemx_##stem##_nbi_warp(dst, src, n, pe);                                       \
  }                                                                                    \
  PEAL_DEVICE static void ours(Block, type* dst, const type* src, size_t n, int pe) {  \
    nvshmemx_##stem##_nbi_block(dst, src, n, pe);                                      \
  }
struct ByScope {
  PEAL_NVSHMEM_BY_SCOPE(put_as, std::byte, putmem)
  PEAL_NVSHMEM_BY_SCOPE(put_as, double, double_put)
  PEAL_NVSHMEM_BY_SCOPE(put_as, int, int_put)
  PEAL_NVSHMEM_BY_SCOPE(get_as, std::byte, getmem)
  PEAL_NVSHMEM_BY_SCOPE(get_as, double, double_get)
  PEAL_NVSHMEM_BY_SCOPE(get_as, int, int_get)
};
#undef PEAL_NVSHMEM_BY_SCOPE

struct TypedCalls : List<Transfers, Timed<Quieted<PutCall>>, Bounces> {};

/// kUntyped: bytes. kTyped: elements of 8 bytes where the message is made of them, else of 4.
template <Form kForm>
struct NvshmemApi : NvshmemWords {
  using Kernels = std::conditional_t<kForm == Form::kUntyped, Everything, TypedCalls>;

  PEAL_DEVICE Status put(auto scope, std::byte* dst, const std::byte* src, uint64_t bytes,
                         int pe) const {
    return in_elements(dst, src, bytes, [&](auto* to, auto* from, size_t n) {
      ByScope::put_as(scope, to, from, n, pe);
    });
  }
  PEAL_DEVICE Status get(auto scope, std::byte* dst, const std::byte* src, uint64_t bytes,
                         int pe) const {
    return in_elements(dst, src, bytes, [&](auto* to, auto* from, size_t n) {
      ByScope::get_as(scope, to, from, n, pe);
    });
  }
  PEAL_DEVICE static Status in_elements(std::byte* dst, const std::byte* src, uint64_t bytes,
                                        const auto& transfer) {
    if constexpr (kForm == Form::kUntyped) {
      transfer(dst, src, bytes);
    } else if (bytes % 8 == 0) {
      transfer(reinterpret_cast<double*>(dst), reinterpret_cast<const double*>(src), bytes / 8);
    } else {
      transfer(reinterpret_cast<int*>(dst), reinterpret_cast<const int*>(src), bytes / 4);
    }
    return Status::kOk;
  }
  PEAL_DEVICE Status put_signal(Thread, std::byte* dst, const std::byte* src, uint64_t bytes,
                                uint64_t* flag, uint64_t value, int pe) const {
    if (kForm == Form::kUntyped) {
      nvshmem_putmem_signal_nbi(dst, src, bytes, flag, value, NVSHMEM_SIGNAL_SET, pe);
    } else {
      nvshmem_double_put_signal_nbi(reinterpret_cast<double*>(dst),
                                    reinterpret_cast<const double*>(src), bytes / 8, flag, value,
                                    NVSHMEM_SIGNAL_SET, pe);
    }
    return Status::kOk;
  }
};

/// The blocking put with signal.
struct NvshmemBlockingApi : NvshmemWords {
  using Kernels = Bounces;

  PEAL_DEVICE Status put_signal(Thread, std::byte* dst, const std::byte* src, uint64_t bytes,
                                uint64_t* flag, uint64_t value, int pe) const {
    nvshmem_putmem_signal(dst, src, bytes, flag, value, NVSHMEM_SIGNAL_SET, pe);
    return Status::kOk;
  }
};

/// A PE of an NVSHMEM job, from nvshmem_init to nvshmem_finalize.
class NvshmemSide {
 public:
  static constexpr const char* kName = "nvshmem";

  NvshmemSide() {
    nvshmem_init();
    // As its documentation has it: the PE's number on its node is its GPU.
    expect(cudaSetDevice(nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE)), "cudaSetDevice");
    pe_ = nvshmem_my_pe();
    n_pes_ = nvshmem_n_pes();
  }
  ~NvshmemSide() { nvshmem_finalize(); }
  NvshmemSide(const NvshmemSide&) = delete;
  NvshmemSide& operator=(const NvshmemSide&) = delete;

  int pe() const { return pe_; }
  int n_pes() const { return n_pes_; }
  std::string transport() const { return "p2p"; }
  std::string nic() const { return "none"; }
  NvshmemApi<Form::kUntyped> api() const { return {}; }

  template <class T>
  T* allocate(size_t count) {
    // A selection without transfers wants 0 bytes, of which NVSHMEM gives null.
    void* memory = nvshmem_calloc(count == 0 ? 1 : count, sizeof(T));
    if (memory == nullptr) {
      throw std::runtime_error("nvshmem_calloc of " + std::to_string(count * sizeof(T)) +
                               " bytes: none; raise NVSHMEM_SYMMETRIC_SIZE");
    }
    return static_cast<T*>(memory);
  }
  void copy_out(void* host, const void* from, size_t bytes) {
    expect(cudaMemcpy(host, from, bytes, cudaMemcpyDefault), "cudaMemcpy");
  }
  void copy_in(void* to, const void* host, size_t bytes) { copy_out(to, host, bytes); }
  void check() const {}  // launches throw
  void barrier() { nvshmem_barrier_all(); }

  template <class Kernel, class... Arguments>
  void launch(const Grid& grid, Kernel kernel, const Arguments&... arguments) {
    peal::launch(grid, kernel, arguments...).wait();
  }

  template <class... Parameters, class... Arguments>
  void launch_together(const Grid& grid, void (*kernel)(Parameters...),
                       const Arguments&... arguments) {
    std::tuple<Parameters...> values(arguments...);
    std::apply(
        [&](auto&... value) {
          void* pointers[] = {&value...};
          if (nvshmemx_collective_launch(reinterpret_cast<const void*>(kernel), grid.blocks,
                                         grid.threads, pointers, 0, nullptr) != 0) {
            throw std::runtime_error("nvshmemx_collective_launch failed");
          }
        },
        values);
    expect(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
  }

  template <class Visit>
  void for_each_api(const Case&, const Visit& visit) {
    visit("untyped", NvshmemApi<Form::kUntyped>{});
    visit("typed", NvshmemApi<Form::kTyped>{});
    visit("blocking", NvshmemBlockingApi{});
  }

 private:
  int pe_;
  int n_pes_;
};

}  // namespace
}  // namespace peal::perf

int main(int argc, char** argv) {
  try {
    return peal::perf::run_side<peal::perf::NvshmemSide>(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "nvshmem_side: %s\n", error.what());
    return 1;
  }
}
