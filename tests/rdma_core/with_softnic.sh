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
case $1 in
*devx_put)
  # Not the first device, and over Ethernet.
  output=$(LD_LIBRARY_PATH="$folder" PEAL_SOFTNIC_PRESENT="state=down;link=roce" "$1")
  echo "$output"
  test "$output" = "device mlx5_1 of 2
ok"
  output=$(LD_LIBRARY_PATH="$folder" PEAL_SOFTNIC_PRESENT="devices=2" "$1" mlx5_1)
  test "$output" = "device mlx5_1 of 2
ok"
  ;;
esac
