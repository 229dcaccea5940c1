// SPDX-License-Identifier: Apache-2.0
//
// NVSHMEMX_SUCCESS and the errors, by the name of the header that programs include for them.
#pragma once

#include "compat/nvshmem.h"
