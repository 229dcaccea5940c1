#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# cc_test.sh <install> <cuda.cu> <NVSHMEM's programs>...: peal-cc of an installation compiles an ordinary CUDA program and
# the programs of compat/examples, unchanged; they run on 2 and on 4 PEs, and once under AddressSanitizer. With --check
# their kernels tell of accesses. What it does not know is an error with file and line.
set -u
install=$1
cuda=$(realpath "$2")
shift 2
mapfile -t programs < <(realpath "$@")
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
# shellcheck source=expect.sh
source "$(dirname "$0")/expect.sh"

expect "find_package(peal)" "$install" --prefix "$work/peal"
export PATH="$work/peal/bin:$PATH" PEAL_TIMEOUT=60s
unset PEAL_SOFTNIC_PLACEMENT
cd "$work" || exit 2

# An ordinary program.
expect "" peal-cc -Wall -Werror "$cuda" -o cuda
expect "cuda: ok" ./cuda
expect "" peal-cc -c "$cuda" -MMD -arch=sm_90 --expt-relaxed-constexpr
grep -q "^cuda.o: .*cuda.cu" cuda.d || fail "cuda.d: $(cat cuda.d)"
expect "" peal-cc cuda.o -lcudart -o separate
expect "cuda: ok" ./separate

# Programs written for NVSHMEM, by -O0: half as long to compile. Two of them by themselves, all as one program, and that
# with the sanitizer: most of a compilation is peal's headers. One at a time would leave a CPU idle.
read -r -a mpi <<<"$(mpicxx --showme:compile) $(mpicxx --showme:link)"
compile() { # <program> <name> [option]...
  peal-cc "$1" -o "$2" "${@:3}" "${mpi[@]}" >"$2.log" 2>&1 || touch "$2.failed"
}
folder=$(dirname "${programs[0]}")
"$folder/as_one.sh" "${programs[@]}" >all.cu
compile all.cu all_asan -O0 -g -fsanitize=address &
compile all.cu all -O0
compile "$folder/hello.cu" hello -O0
compile "$folder/init_mpi.cu" init_mpi -O0
for program in "${programs[@]}"; do
  name=$(basename "$program" .cu)
  [ -e "$name" ] || ln -s all "$name"
  ln -s all_asan "${name}_asan"
done
wait
for failed in *.failed; do
  [ -e "$failed" ] && fail "${failed%.failed}: $(tail -n 20 "${failed%.failed}.log")"
done
for program in "${programs[@]}"; do
  name=$(basename "$program" .cu)
  start=(peal-run -n)
  leaks=1
  # These call MPI, which leaks.
  if [[ $name == init_* ]]; then
    start=(mpirun --oversubscribe --allow-run-as-root --bind-to none -np)
    leaks=0
  fi
  expect "$name: ok on 2 PEs" "${start[@]}" 2 "./$name"
  expect "$name: ok on 4 PEs" "${start[@]}" 4 "./$name"
  expect "$name: ok on 2 PEs" env ASAN_OPTIONS=detect_leaks=$leaks "${start[@]}" 2 "./${name}_asan"
done

# CMake, with peal-cc as the compiler, which CXX names too, and for one target.
mkdir cmake
cat >cmake/CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.20)
project(mixed LANGUAGES CXX)
add_executable(mixed kernel.cu main.cc)
if(CMAKE_CXX_COMPILER MATCHES "peal-cc$")
  set_source_files_properties(kernel.cu PROPERTIES LANGUAGE CXX)
else()
  find_package(peal CONFIG REQUIRED)
  peal_cuda_on_cpu(mixed)
endif()
END
cat >cmake/kernel.cu <<'END'
__global__ void five(int* out) { *out = 5; }
int run() {
  int* out;
  cudaMallocHost(&out, sizeof(int));
  five<<<1, 1>>>(out);
  cudaDeviceSynchronize();
  return *out;
}
END
cat >cmake/main.cc <<'END'
#include <cstdio>
#ifdef __CUDACC__
#error this is no file of CUDA
#endif
int run();
int main() { std::printf("mixed: %d\n", run()); }
END
expect "" env CXX="$work/peal/bin/peal-cc" cmake -S cmake -B by_compiler
expect "Built target mixed" env CXX="$work/peal/bin/peal-cc" cmake --build by_compiler -j2
expect "mixed: 5" by_compiler/mixed
expect "" cmake -S cmake -B by_function -DCMAKE_PREFIX_PATH="$work/peal" -DCMAKE_CXX_COMPILER=g++
expect "Built target mixed" cmake --build by_function -j2
expect "mixed: 5" by_function/mixed
refuse "has started peal-cc" env CXX="$(printf '#!/bin/sh\nexec peal-cc "$@"\n' >loop && chmod +x loop && realpath loop)" \
  peal-cc "$cuda"

# 16-bit reals of CUDA's in NVSHMEM's calls, and a grid that meets.
cat >half.cu <<'END'
#include <cooperative_groups.h>
#include <cuda.h>
#include <cuda_fp16.h>
#include <nvshmem.h>
#include <nvshmemx.h>
#include <stdio.h>
__global__ void shift(half* box, half* sum) {
  const int next = (nvshmem_my_pe() + 1) % nvshmem_n_pes();
  if (blockIdx.x == 1) nvshmem_half_p(box, __float2half(nvshmem_my_pe() + 0.5f), next);
  nvshmem_quiet();
  cooperative_groups::this_grid().sync();
  if (blockIdx.x == 0) {
    nvshmem_barrier_all();
    nvshmem_half_sum_reduce(NVSHMEM_TEAM_WORLD, sum, box, 1);
  }
}
int main() {
  nvshmem_init();
  half* box = (half*)nvshmem_malloc(2 * sizeof(half));
  half* sum = box + 1;
  void* arguments[] = {&box, &sum};
  nvshmemx_collective_launch((const void*)shift, 2, 1, arguments, 0, 0);
  cudaDeviceSynchronize();
  printf("half: PE %d has %g, sum %g\n", nvshmem_my_pe(), __half2float(*box), __half2float(*sum));
  nvshmem_finalize();
}
END
expect "" peal-cc -O0 half.cu -o half
expect "[1] half: PE 1 has 0.5, sum 2" peal-run -n 2 ./half

# Kernels of several objects, and of a library that is loaded later: the PE is the same, and where there is none one line
# says so.
cat >kernels.cu <<'END'
#include <nvshmem.h>
__global__ void tell(int* box, int* seen) {
  nvshmem_int_p(box, 1 + nvshmem_my_pe(), (nvshmem_my_pe() + 1) % nvshmem_n_pes());
  nvshmem_barrier_all();
  *seen = nvshmem_int_g(box, nvshmem_my_pe());
}
extern "C" int tell_next(int* box) {
  int* seen;
  cudaMallocManaged(&seen, sizeof *seen);
  tell<<<1, 1>>>(box, seen);
  cudaDeviceSynchronize();
  return *seen;
}
END
cat >main.cu <<'END'
#include <dlfcn.h>
#include <nvshmem.h>
#include <stdio.h>
extern "C" int tell_next(int* box);
int main(int argc, char** argv) {
  auto* call = tell_next;
  if (argc > 1) call = (int (*)(int*))dlsym(dlopen(argv[1], RTLD_NOW), "tell_next");
  int nothing = 0;
  if (argc > 2) call(&nothing);
  nvshmem_init();
  int* box = (int*)nvshmem_calloc(1, sizeof(int));
  printf("PE %d heard %d\n", nvshmem_my_pe(), call(box));
  nvshmem_finalize();
  if (argc > 2) call(&nothing);
}
END
expect "" peal-cc -c kernels.cu
expect "" peal-cc -c main.cu
expect "" peal-cc main.o kernels.o -o two_objects
expect "[1] PE 1 heard 1" peal-run -n 2 ./two_objects
expect "" peal-cc -shared -fPIC kernels.cu -o libkernels.so
expect "[1] PE 1 heard 1" peal-run -n 2 ./two_objects ./libkernels.so
expect "[1] PE 1 heard 1" peal-run -n 2 ./two_objects ./libkernels.so without
expect "2" sh -c 'peal-run -n 1 ./two_objects ./libkernels.so without 2>&1 | grep -c "makes calls where there is no PE"'

# Kernels' own accesses, told to an observer: each program, and one by g++ alone.
cat >accesses.cu <<'END'
#include <atomic>
#include <cstdio>

#include "simt/lanes/plain_access.h"

static int* watched;
static std::atomic<int> reads, writes, atomics;

__global__ void touch(int* data) {
  data[1 + threadIdx.x] = data[0];
  atomicAdd(data + 4, 1);
  memcpy(data + 8 + threadIdx.x, data, sizeof(int));
}
int main() {
  cudaMalloc(&watched, 16 * sizeof(int));
  cudaMemset(watched, 0, 16 * sizeof(int));
  peal::simt::observe_accesses([](const peal::simt::PlainAccess& access) {
    if (access.address < watched || access.address >= watched + 16) return;
    ++(access.atomic ? atomics : access.write ? writes : reads);
  });
  touch<<<1, 2>>>(watched);
  cudaDeviceSynchronize();
  peal::simt::observe_accesses(nullptr);
  printf("%d reads, %d writes, %d atomics; %d\n", reads.load(), writes.load(), atomics.load(), watched[4]);
}
END
expect "" peal-cc --check accesses.cu -o accesses
expect "4 reads, 4 writes, 4 atomics; 2" ./accesses
ldd accesses | grep tsan && fail "accesses is linked with ThreadSanitizer"
expect "" peal-cc --check "$cuda" -o cuda_checked
expect "cuda: ok" ./cuda_checked
for program in "${programs[@]}"; do
  [[ $program == */ring_reduce.cu ]] || continue
  expect "" peal-cc --check "$program" -o checked
  expect "ring_reduce: ok on 2 PEs" peal-run -n 2 ./checked
  grep -qF "PEAL_CHECK is not on: nothing is looked at" log || fail "no word of PEAL_CHECK: $(cat log)"
  expect "ring_reduce: ok on 2 PEs" env PEAL_CHECK=on peal-run -n 2 ./checked
  grep -qF "check:" log && fail "a false alarm: $(cat log)"
done
export PKG_CONFIG_PATH=$work/peal/lib/pkgconfig
# shellcheck disable=SC2046
expect "" g++ -std=c++20 -g $(pkg-config --cflags peal) -include simt/hooks/observed.h -fsanitize=thread \
  --param=tsan-distinguish-volatile=1 -fno-builtin-memcpy -fno-builtin-memmove -fno-builtin-memset -Wno-tsan \
  -x c++ -c "$work/peal/share/peal/examples/hello.cu" -o hello.o
# shellcheck disable=SC2046
expect "" g++ hello.o -L "$work/peal/lib" -lpeal_hooks $(pkg-config --libs peal) -o hello
expect "PE 1 of 2: hello from PE 0, ok" peal-run -n 2 ./hello

# Mistakes. A kernel's own is found with its line, by AddressSanitizer.
cat >beyond.cu <<'END'
__global__ void beyond(int* data) { 
  data[threadIdx.x] = 1;  // 32 of them
}
int main() {
  int* data;
  cudaMalloc(&data, 16 * sizeof(int));
  beyond<<<1, 32>>>(data);
  return cudaDeviceSynchronize();
}
END
expect "" peal-cc -g -fsanitize=address beyond.cu -o beyond
refuse "beyond.cu:2" ./beyond

mistake() { # <line> <what> <program's text on standard input>
  cat >mistake.cu
  refuse "mistake.cu:$1:" peal-cc -c mistake.cu
  grep -qF -- "$2" "$work/log" || fail "not '$2': $(cat "$work/log")"
}
mistake 2 "give blocks, threads" <<'END'
__global__ void k(int) {}
int main() { k<<<1>>>(2); }
END
mistake 3 "does not know it" <<'END'
__global__ void k(unsigned* x) {

  asm volatile("mov.u32 %0, %%laneid;" : "=r"(*x));
}
END
mistake 1 "outside of functions" <<'END'
extern __shared__ int all[];
END
mistake 2 "cudaGraphicsMapResources" <<'END'
int main() {
  return cudaGraphicsMapResources(1, 0);
}
END
mistake 3 "cannot convert" <<'END'
__global__ void k(int*) {}
int main() {
  k<<<1, 2>>>(3.5);
}
END
refuse "no file to compile" peal-cc -c
refuse "no include/peal/simt/runtime/cuda_runtime.h" env "$(cp "$work/peal/bin/peal-cc" alone && realpath alone)" x.cu
finish
