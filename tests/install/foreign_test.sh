#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# foreign_test.sh <WORKSPACE> <hello.cu>: a Bazel workspace of a user with peal as a repository, and kernels in its root
# package. Bazel is called with nothing of this tree's .bazelrc; warnings of users' code are no errors.
set -eu
peal=$(dirname "$(realpath "$1")")
hello=$(realpath "$2")
work=$(mktemp -d)
cd "$work"
bazel() { command bazel --nohome_rc --output_user_root="$work/bazel" "$@"; }
trap 'bazel shutdown >/dev/null 2>&1; chmod -R u+w "$work"; rm -rf "$work"' EXIT
unset TEST_TMPDIR
export HOME="${HOME:-$work}"

cat >WORKSPACE <<END
local_repository(name = "peal", path = "$peal")
load("@peal//bazel:workspace.bzl", "peal_dependencies")
peal_dependencies()
END
cat >BUILD.bazel <<'END'
load("@peal//bazel:cuda.bzl", "kernel_binary")
kernel_binary(name = "hello", src = "hello.cu", deps = ["@peal//peal"])
END
cp "$hello" hello.cu
echo 'static int unused(int x) { return 0; }' >>hello.cu
cat >.bazelrc <<'END'
startup --host_jvm_args=-XX:TieredStopAtLevel=1
build --cxxopt=-std=c++20 --spawn_strategy=local
build --javabase=@bazel_tools//tools/jdk:absolute_javabase --define=ABSOLUTE_JAVABASE=/usr/lib/jvm/default-java
END
NVCC=none bazel build --compilation_mode=fastbuild //:hello >log 2>&1 || { tail -n 40 log; exit 1; }
libraries=$(dirname "$(find -L bazel-bin/hello.runfiles -name libpeal_softnic.so | head -1)")
export PEAL_IBVERBS=$libraries/libpeal_softnic.so PEAL_MLX5=$libraries/libpeal_softnic.so
bazel-bin/hello | grep "PE 0 of 1: hello from PE 0, ok"

# The same as an archive; what it builds is the same.
tar -cf peal.tar -C "$peal" --exclude=./.git --exclude=./build --exclude='./bazel-*' --transform='s,^\.,peal,' .
cat >WORKSPACE <<END
load("@bazel_tools//tools/build_defs/repo:http.bzl", "http_archive")
http_archive(name = "peal", url = "file://$work/peal.tar", strip_prefix = "peal")
load("@peal//bazel:workspace.bzl", "peal_dependencies")
peal_dependencies()
END
NVCC=none bazel build --nobuild //:hello >log 2>&1 || { tail -n 40 log; exit 1; }
