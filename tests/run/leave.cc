// SPDX-License-Identifier: Apache-2.0
//
// Jobs whose PEs leave without a word: main() returns, or calls exit(), and nobody has ended the
// PE. Its Runtime is a static: the C API's, NVSHMEM's, or a variable of this file. What they end
// with is for leave_test.sh to see.
//
//   leave c | cxx | nvshmem      returns from main()
//   leave exit                   PE 0 calls exit(3), the others are in peal_barrier()
#include <nvshmem.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "peal/c_api.h"
#include "peal/c_calls.h"
#include "peal/peal.h"

namespace {

std::optional<peal::Runtime> of_namespace;

// Two words: what another PE puts here, and what this one puts.
int by_c() {
  if (peal_init() != 0) return 2;
  auto* const words = static_cast<uint64_t*>(peal_calloc(2, sizeof(uint64_t)));
  words[1] = 7;
  if (peal_put(words, words + 1, sizeof(uint64_t), (peal_my_pe() + 1) % peal_n_pes()) != 0)
    return 2;
  return peal_barrier_all() != 0 || words[0] != 7 ? 2 : 0;
}

int by_cxx() {
  peal::Runtime& pe = of_namespace.emplace(peal::start());
  auto* const words = pe.allocate<uint64_t>(2);
  words[1] = 7;
  pe.host().put(words, words + 1, 1, (pe.my_pe() + 1) % pe.n_pes());
  pe.host().barrier_all();
  return words[0] != 7 ? 2 : 0;
}

int by_nvshmem() {
  nvshmem_init();
  auto* const word = static_cast<int*>(nvshmem_calloc(1, sizeof(int)));
  nvshmem_int_p(word, 7, (nvshmem_my_pe() + 1) % nvshmem_n_pes());
  nvshmem_barrier_all();
  return nvshmem_int_g(word, nvshmem_my_pe()) == 7 ? 0 : 2;
}

int by_exit() {
  const int failed = by_c();
  const int me = peal_my_pe();
  if (failed != 0 || peal_barrier() != 0) return 2;
  if (me == 0) std::exit(3);
  const int answer = peal_barrier();
  std::fprintf(stderr, "PE %d: the barrier answered %d: %s\n", me, answer, peal_error());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "";
  if (how == "c") return by_c();
  if (how == "cxx") return by_cxx();
  if (how == "nvshmem") return by_nvshmem();
  if (how == "exit") return by_exit();
  std::fprintf(stderr, "leave: '%s' is not c, cxx, nvshmem or exit\n", how.c_str());
  return 2;
}
