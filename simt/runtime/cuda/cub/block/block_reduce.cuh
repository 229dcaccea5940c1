// SPDX-License-Identifier: Apache-2.0
//
// Included by CUDA programs under this name.
#pragma once

#include "simt/runtime/cub_block.h"
