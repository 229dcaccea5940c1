// SPDX-License-Identifier: Apache-2.0
//
// Read in front of a .cu file that the C++ compiler gets as it is (peal_kernels_on_cpu, the
// examples' Makefile). Of CUDA's syntax such a compiler has none; the words for functions mean
// nothing and could be left out, but shared memory would be an error that names no remedy.
#pragma once

#define __shared__                                                                                 \
  static_assert(false,                                                                             \
                "__shared__ is no C++: use peal::block_shared<T>() or peal::dynamic_shared<T>(), " \
                "or compile the file with peal-cc");                                               \
  static
