#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs a program that knows rdma-core only against the software NIC: $1 the program, $2 one of the
# software NIC's libraries. Passes when it prints ok.
set -eu
folder=$(dirname "$2")
output=$(LD_LIBRARY_PATH="$folder" "$1")
echo "$output"
test "$(echo "$output" | tail -n 1)" = ok
