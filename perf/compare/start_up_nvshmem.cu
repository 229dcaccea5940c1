// SPDX-License-Identifier: Apache-2.0
//
// start_up_peal.cu's program on NVSHMEM: joins, tells the next PE from a kernel, waits for all, and
// prints when that was.
#include <nvshmem.h>
#include <nvshmemx.h>

#include <chrono>
#include <cstdint>
#include <cstdio>

__global__ void greet(uint64_t* word) {
  nvshmem_uint64_p(word, 1, (nvshmem_my_pe() + 1) % nvshmem_n_pes());
  nvshmem_barrier_all();
}

int main() {
  nvshmem_init();
  bool ok = cudaSetDevice(nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE)) == cudaSuccess;
  auto* word = static_cast<uint64_t*>(nvshmem_calloc(1, sizeof(uint64_t)));
  void* arguments[] = {&word};
  ok = ok && nvshmemx_collective_launch(reinterpret_cast<const void*>(greet), 1, 1, arguments, 0,
                                        nullptr) == 0;
  ok = cudaStreamSynchronize(nullptr) == cudaSuccess && ok;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  uint64_t told = 0;
  ok = ok && cudaMemcpy(&told, word, sizeof told, cudaMemcpyDefault) == cudaSuccess && told == 1;
  std::printf("{\"side\": \"nvshmem\", \"op\": \"start_up\", \"unix_ns\": %lld, \"errors\": %d}\n",
              static_cast<long long>(std::chrono::nanoseconds(now).count()), ok ? 0 : 1);
  nvshmem_finalize();
  return ok ? 0 : 1;
}
