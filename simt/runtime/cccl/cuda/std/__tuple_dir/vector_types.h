// SPDX-License-Identifier: Apache-2.0
//
// Read in front of libcu++'s file of this name, where an installed CCCL is used: it makes tuples of
// uint3 and of dim3, which are one type here (simt/runtime/types.h).
#pragma once

struct peal_second_uint3 {
  unsigned x, y, z;
};

#define uint3 peal_second_uint3
#include_next <cuda/std/__tuple_dir/vector_types.h>
#undef uint3
