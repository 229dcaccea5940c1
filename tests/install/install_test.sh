#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# install_test.sh <install> <hello.c> <hello_nvshmem.cc>: an installation that was moved, and projects of users outside this tree that build
# on it: CMake, make with pkg-config, a C program, libpeal.a. All run on two PEs by the installed peal-run.
set -u
install=$1
hello_c=$(realpath "$2")
hello_nvshmem=$(realpath "$3")
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
# shellcheck source=expect.sh
source "$(dirname "$0")/expect.sh"

expect "find_package(peal)" "$install" --prefix "$work/first"
expect "find_package(peal)" "$install" --prefix "$work/first" # again, over itself
refuse "give a folder within PREFIX" "$install" --prefix "$work/first" --libdir /lib
touch "$work/file"
refuse "--prefix names a folder" "$install" --prefix "$work/file"
mv "$work/first" "$work/moved"
prefix=$work/moved
export PATH="$prefix/bin:$PATH" PKG_CONFIG_PATH="$prefix/lib/pkgconfig" PEAL_TIMEOUT=60s
unset PEAL_SOFTNIC_PLACEMENT

# Pages, also for programs that read one file first.
expect "](tasks/find_a_hang.md)" cat "$prefix/share/doc/peal/llms.txt"
expect "none is missing" sh -c 'cd "$1" && grep -oh "](\.\./[^)#]*" tasks/*.md | cut -c3- | sort -u | while read -r page; do
  [ -f "tasks/$page" ] || echo "$page"; done | grep . || echo none is missing' sh "$prefix/share/doc/peal"

# gdb's commands, which strip must leave where they are
expect " .debug_gdb_scripts " readelf -SW "$prefix/lib/libpeal.so"

# What the headers of C programs declare
nm -DC --defined-only "$prefix/lib/libpeal.so" | sed -n 's/.* T \(peal_[a-z0-9_]*\).*/\1/p' | sort -u >"$work/shown"
find "$prefix/include" -name 'c_[acs]*.h' -path '*/peal/*' -exec grep -oh '\bpeal_[a-z0-9_]*(' {} + | tr -d '(' | sort -u >"$work/declared"
expect "peal_runtime" comm -12 "$work/shown" "$work/declared"
expect "none is missing" sh -c '[ -z "$(comm -13 "$1" "$2" | tee /dev/stderr)" ] && echo none is missing' sh "$work/shown" "$work/declared"

# CMake
cp -r "$prefix/share/peal/examples" "$work/cmake"
cd "$work/cmake" || exit 2
rm -f moe.cu halo.cu graph.cu all_to_all.cu ring.cu threads.cu
expect "Build files have been written" cmake -B build -DCMAKE_PREFIX_PATH="$prefix"
expect "Built target hello" cmake --build build -j2
expect "PE 1 of 2: hello from PE 0, ok" peal-run -n 2 build/hello
expect "ok" peal-run -n 2 build/ring_all_reduce
cat >"$work/cmake/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.18)
project(wrong LANGUAGES CXX)
find_package(peal ${WANTED} CONFIG REQUIRED ${PARTS})
END
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
if [ "${NVCC:-}" != none ] && [ -x "$nvcc" ]; then
  mkdir "$work/cuda"
  cp "$prefix"/share/peal/examples/{CMakeLists.txt,hello.cu} "$work/cuda"
  expect "Build files have been written" cmake -S "$work/cuda" -B gpu -DCMAKE_PREFIX_PATH="$prefix" -DPEAL_ON_GPU=ON \
    -DCMAKE_CUDA_COMPILER="$nvcc"
  expect "Built target hello" cmake --build gpu
else
  echo "skipped: CMake with nvcc: there is no nvcc"
fi
refuse "version: 0.1.0" cmake -B wrong -DCMAKE_PREFIX_PATH="$prefix" -DWANTED=9.0
refuse "peal has no component rdma" cmake -B wrong2 -DCMAKE_PREFIX_PATH="$prefix" -DPARTS="rdma"
rm "$prefix/lib/libpeal.a"
refuse "is not whole: no $prefix/lib/libpeal.a" cmake -B wrong3 -DCMAKE_PREFIX_PATH="$prefix"
expect "find_package(peal)" env -C "$OLDPWD" "$install" --prefix "$prefix"

# CMake: a project in C alone with libpeal.a, and one that was written for NVSHMEM's own package.
mkdir "$work/projects" "$work/projects/c" "$work/projects/nvshmem"
cat >"$work/projects/c/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.18)
project(in_c LANGUAGES C)
find_package(peal CONFIG REQUIRED)
add_executable(shared "$hello_c")
target_link_libraries(shared PRIVATE peal::peal)
add_executable(static "$hello_c")
target_link_libraries(static PRIVATE peal::static)
END
expect "Built target static" sh -c 'cmake -S "$1/c" -B "$1/c/build" -DCMAKE_PREFIX_PATH="$2" && cmake --build "$1/c/build"' \
  sh "$work/projects" "$prefix"
expect "C: PE 1 of 2 has 1" peal-run -n 2 "$work/projects/c/build/shared"
expect "C: PE 1 of 2 has 1" env PEAL_TRANSPORT=p2p peal-run -n 2 "$work/projects/c/build/static"
cat >"$work/projects/nvshmem/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.18)
project(by_nvshmem LANGUAGES CXX)
find_package(NVSHMEM 3.2 REQUIRED)
add_executable(hello "$hello_nvshmem")
target_link_libraries(hello PRIVATE nvshmem::nvshmem_host nvshmem::nvshmem_device)
END
expect "Built target hello" sh -c \
  'cmake -S "$1/nvshmem" -B "$1/nvshmem/build" -DCMAKE_PREFIX_PATH="$2" && cmake --build "$1/nvshmem/build"' \
  sh "$work/projects" "$prefix"
expect "nvshmem: PE 1 of 2 has 1" peal-run -n 2 "$work/projects/nvshmem/build/hello"

# make
mkdir "$work/make"
cd "$work/make" || exit 2
cp "$prefix"/share/peal/examples/{Makefile,hello.cu} .
expect "-lpeal" make
expect "PE 0 of 2: hello from PE 1, ok" peal-run -n 2 ./hello
printf '#include "peal/peal.h"\nPEAL_KERNEL k() { __shared__ int t[8]; t[0] = 1; }\nint main() {}\n' >shared.cu
refuse "use peal::block_shared<T>()" make shared

# C
# shellcheck disable=SC2046
expect "" gcc -Wall -Werror $(pkg-config --cflags peal) "$hello_c" -o c $(pkg-config --libs peal)
expect "C: PE 1 of 2 has 1" peal-run -n 2 ./c
# shellcheck disable=SC2046
expect "" gcc -std=c99 -Wall -Werror $(pkg-config --cflags peal) "$prefix/share/peal/examples/hello_in_c.c" -o hello_in_c \
  $(pkg-config --libs peal)
expect "PE 1: hello from PE 0" peal-run -n 2 ./hello_in_c
# What libpeal loads is beside it, though it was itself found by a path from a folder that is gone.
mkdir gone
expect "C: PE 0 of 1 has 1" env LD_LIBRARY_PATH=../../moved/lib PEAL_TRANSPORT=ibgda sh -c 'cd gone && rmdir ../gone && ../c'

# NVSHMEM's calls
# shellcheck disable=SC2046
expect "" g++ -std=c++20 -Wall -Werror $(pkg-config --cflags peal-nvshmem) "$hello_nvshmem" -o nvshmem \
  $(pkg-config --libs peal-nvshmem)
expect "nvshmem: PE 1 of 2 has 1" peal-run -n 2 ./nvshmem

# libpeal.a: what it loads is named by its path, or found in ../lib/peal.
mkdir -p "$work/alone/bin"
# shellcheck disable=SC2046
expect "" g++ -std=c++20 $(pkg-config --cflags peal) -x c++ hello.cu -x none -o "$work/alone/bin/hello" \
  "$prefix/lib/libpeal.a" -lfmt -lboost_context -lnettle -lbacktrace -ldl -lpthread
refuse "set PEAL_IBVERBS and PEAL_MLX5" "$work/alone/bin/hello"
ln -s "$prefix/lib" "$work/alone/lib"
expect "PE 0 of 1: hello from PE 0, ok" "$work/alone/bin/hello"

# What the programs of an installation say of themselves.
expect "Usage" peal-run --help
expect "software NIC" peal-doctor
expect "PE 1 of 2: hello from PE 0, ok" \
  env PEAL_RECORD=64 "PEAL_RECORD_FILE=$work/%r.json" peal-run -n 2 "$work/alone/bin/hello"
expect '"barrier_all"' peal-trace "$work/0.json" "$work/1.json"
# Benchmarks, and a drawing of what they print.
expect '"usec_p99_9":' peal-run -n 2 --no-prefix peal-latency --iters 20 --warmup 2 --sizes 8,64 --repeats 2 --json
peal-run -n 2 --no-prefix peal-latency --iters 20 --warmup 2 --sizes 8,64 --repeats 2 --csv >"$work/rows.csv"
peal-run -n 2 --no-prefix peal-collectives --iters 5 --sizes 8:64 --scope stream --json >"$work/rows.jsonl"
expect "verified: " peal-run -n 2 --no-prefix peal-bandwidth --iters 4 --sizes 64K --bidirectional
expect "Messages/s" peal-run -n 2 --no-prefix peal-message-rate --iters 10 --sizes 8
if python3 -c 'import matplotlib' 2>/dev/null; then
  expect "$work/plot.svg" peal-plot "$work/rows.csv" "$work/rows.jsonl" -o "$work/plot.svg"
  expect "<svg" cat "$work/plot.svg"
else
  refuse "pip install matplotlib" peal-plot "$work/rows.csv" "$work/rows.jsonl" -o "$work/plot.svg"
fi
refuse "no rows; give what a benchmark printed" peal-plot /dev/null
echo '{}' > "$work/none.json"
refuse "no trace of a PE" peal-trace "$work/0.json" "$work/none.json"

finish
