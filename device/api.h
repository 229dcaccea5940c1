// SPDX-License-Identifier: Apache-2.0
//
// All a kernel includes. Read in this order: context, types, rma, signal, wait, atomics, sync,
// batch, team, collectives. device/detail and device/collective hold what these do.
#pragma once

// clang-format off: first, for there a compiler of an older language is told so.
#include "device/base/target.h"
// clang-format on

#include "device/atomics.h"
#include "device/atomics_nbi.h"
#include "device/batch.h"
#include "device/collectives.h"
#include "device/context.h"
#include "device/rma.h"
#include "device/signal.h"
#include "device/status.h"
#include "device/sync.h"
#include "device/team.h"
#include "device/types.h"
#include "device/wait.h"
#include "device/window.h"
