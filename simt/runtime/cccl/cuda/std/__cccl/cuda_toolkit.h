// SPDX-License-Identifier: Apache-2.0
//
// Read in front of libcu++'s file of this name, where an installed CCCL is used: it compares the
// versions of a compiler and a toolkit, and here is neither of them.
#pragma once

#pragma push_macro("_CCCL_CUDACC_EQUAL")
#undef _CCCL_CUDACC_EQUAL
#define _CCCL_CUDACC_EQUAL(...) 1
#include_next <cuda/std/__cccl/cuda_toolkit.h>
#pragma pop_macro("_CCCL_CUDACC_EQUAL")
