// SPDX-License-Identifier: Apache-2.0
//
// For programs that name it: nvshmem.h has all.
#pragma once

#include "compat/nvshmem.h"
