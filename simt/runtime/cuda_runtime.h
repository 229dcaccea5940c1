// SPDX-License-Identifier: Apache-2.0
//
// The CUDA runtime on a CPU: what an ordinary CUDA program finds in cuda_runtime.h, as far as simt
// has it (docs/cpu_programs.md). What is not here does not compile.
//
//   keywords.h, types.h, vectors.h                                 words and types
//   cuda_names.h, intrinsics.h, numbers.h, conversions.h           functions of kernels
//   rounded_arithmetic.h, simd_words.h, special_functions.h, textures.h    and more of them
//   memory.h, stream_calls.h, devices.h, launches.h, errors.h      calls of the host
//   syntax.h                                                       <<<>>> and the like, by peal-cc
//
// Calls lie in a namespace, for whoever links the real runtime too: no symbol has a name of CUDA's.
#pragma once

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simt/runtime/conversions.h"
#include "simt/runtime/cuda_names.h"
#include "simt/runtime/devices.h"
#include "simt/runtime/errors.h"
#include "simt/runtime/intrinsics.h"
#include "simt/runtime/keywords.h"
#include "simt/runtime/launch_attributes.h"
#include "simt/runtime/launches.h"
#include "simt/runtime/memory.h"
#include "simt/runtime/numbers.h"
#include "simt/runtime/rounded_arithmetic.h"
#include "simt/runtime/simd_words.h"
#include "simt/runtime/special_functions.h"
#include "simt/runtime/stream_calls.h"
#include "simt/runtime/syntax.h"
#include "simt/runtime/textures.h"
#include "simt/runtime/types.h"
#include "simt/runtime/vectors.h"

using namespace peal::simt::cuda::calls;

// By the guards of CUDA's own headers programs ask what was included.
#define __CUDA_RUNTIME_H__
#define __CUDA_RUNTIME_API_H__
#define __DRIVER_TYPES_H__
#define __VECTOR_TYPES_H__
#define __VECTOR_FUNCTIONS_H__
#define __HOST_DEFINES_H__
