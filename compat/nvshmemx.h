// SPDX-License-Identifier: Apache-2.0
//
// The guide's second header.
#pragma once

#include "compat/nvshmem.h"
