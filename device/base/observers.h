// SPDX-License-Identifier: Apache-2.0
//
// Who looks at what kernels do. The compiler's options bring an observer into a program:
//
//   -DPEAL_CHECK=1         checked mode, which finds mistakes in calls   device/detail/mistakes.h
//   -DPEAL_RECORD=1        the flight recorder, which writes calls down  device/detail/recorded.h
//   -DPEAL_WAIT_RECORDS=1  records of waits that last                    device/shared/waits.h
//   -DPEAL_TIME_POSTS=1    the time of each stage of a post              device/nic/stage_clock.h
//
// On a CPU the first three are in every program, and a context says which of them looks; a
// simulation has the last one. On a GPU a program has none by itself. What a wait's record says
// must live as long as the wait, and kernels of 1,024 threads have no registers left for it:
// barrier_all took 5 to 15 % longer with records, and a kernel that ends in one up to 50 % (H200).
#pragma once

#include "device/base/target.h"

#if !defined(PEAL_CHECK)
#define PEAL_CHECK (!PEAL_CUDA && !PEAL_SIM)
#endif
#if !defined(PEAL_RECORD)
#define PEAL_RECORD (!PEAL_CUDA && !PEAL_SIM)
#endif
#if !defined(PEAL_WAIT_RECORDS)
#define PEAL_WAIT_RECORDS (!PEAL_CUDA)
#endif
#if !defined(PEAL_TIME_POSTS)
#define PEAL_TIME_POSTS 0
#endif

namespace peal {

inline constexpr bool kChecksCalls = PEAL_CHECK;
inline constexpr bool kRecordsCalls = PEAL_RECORD;
inline constexpr bool kRecordsWaits = PEAL_WAIT_RECORDS;
inline constexpr bool kTimesPosts = PEAL_TIME_POSTS;

}  // namespace peal
