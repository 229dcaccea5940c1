// SPDX-License-Identifier: Apache-2.0
//
// The device's clock; see clock.h.
#include "softnic/abi/core/clock.h"

#include <infiniband/mlx5dv.h>

#include <chrono>

#include "softnic/abi/core/context.h"

namespace peal::softnic::abi {
namespace {

template <class Clock>
uint64_t nanoseconds() {
  using std::chrono::nanoseconds;
  const auto since = std::chrono::duration_cast<nanoseconds>(Clock::now().time_since_epoch());
  return static_cast<uint64_t>(since.count());
}

}  // namespace

uint64_t device_clock() { return nanoseconds<std::chrono::steady_clock>(); }

uint64_t wall_clock_of(uint64_t tick) {
  return nanoseconds<std::chrono::system_clock>() - device_clock() + tick;
}

int query_rt_values_slot(ibv_context* handle, ibv_values_ex* values) {
  return answer_error([&] {
    Context::of(handle);
    if ((values->comp_mask & ~uint32_t{IBV_VALUES_MASK_RAW_CLOCK}) != 0) refuse(EINVAL);
    if (values->comp_mask == 0) return;
    // Ticks, whatever the field is called: a client multiplies by hca_core_clock.
    values->raw_clock.tv_sec = 0;
    values->raw_clock.tv_nsec = static_cast<long>(device_clock());
  });
}

extern "C" int mlx5dv_get_clock_info(ibv_context* handle, mlx5dv_clock_info* info) {
  return answer_error([&] {
    Context::of(handle);
    const uint64_t tick = device_clock();
    *info = {.nsec = wall_clock_of(tick),
             .last_cycles = tick,
             .frac = 0,
             .mult = 1,
             .shift = 0,
             .mask = ~uint64_t{0}};
  });
}

}  // namespace peal::softnic::abi
