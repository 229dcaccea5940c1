// SPDX-License-Identifier: Apache-2.0
//
// The calls of NVSHMEM's public API guide upon peal: programs that were written for it recompile
// against this folder. How to, what differs and what is not there: docs/nvshmem.md.
//
//   nvcc -std=c++20 -I<peal>/compat -I<peal> program.cu ...       no -rdc needed
//
// One PE a process. Everything is inline in terms of peal.h; nvshmemx.h adds nothing.
#pragma once

#include "compat/detail/not_there.h"
#include "compat/detail/place.h"  // first: asks for C++20
#include "compat/detail/setup.h"
#include "compat/detail/together.h"
#include "compat/detail/transfers.h"
#include "compat/detail/words.h"
