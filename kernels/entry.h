// SPDX-License-Identifier: Apache-2.0
//
// How a kernel of the library begins and ends: its name, its context and team, the report of a
// failure.
#pragma once

#include "device/base/order.h"
#include "device/base/spin.h"
#include "device/context.h"
#include "kernels/arguments.h"

// PEAL_ENTRY(name, Arguments) { ... args ... } is the kernel `peal_kernel_name`, which the host
// finds by that name in a GPU's module, or as a function that every lane of a CPU's grid calls.
#if PEAL_CUDA
#define PEAL_ENTRY(name, Arguments)                                               \
  static PEAL_DEVICE void body_of_##name(const peal::kernels::Arguments& args);   \
  extern "C" __global__ void __launch_bounds__(512)                               \
      peal_kernel_##name(const __grid_constant__ peal::kernels::Arguments args) { \
    peal::kernels::await_stream();                                                \
    body_of_##name(args);                                                         \
  }                                                                               \
  static PEAL_DEVICE void body_of_##name(const peal::kernels::Arguments& args)
#else
#define PEAL_ENTRY(name, Arguments)                                           \
  static void body_of_##name(const peal::kernels::Arguments& args);           \
  extern "C" void peal_kernel_##name(const void* arguments) {                 \
    body_of_##name(*static_cast<const peal::kernels::Arguments*>(arguments)); \
  }                                                                           \
  static void body_of_##name(const peal::kernels::Arguments& args)
#endif

namespace peal::kernels {

/// Where the host launched the kernel ahead of its time (a programmatic dependent launch): all that
/// the stream had before is done and visible. Then the next kernel may come, and wait likewise.
PEAL_DEVICE void await_stream() {
#if PEAL_ON_GPU
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;\n\tgriddepcontrol.launch_dependents;" ::: "memory");
#endif
#endif
}

PEAL_DEVICE const Context& context_of(const Caller& caller) {
  return static_cast<const Context&>(caller.state->fields);
}

PEAL_DEVICE_COLD inline void write_report(const Caller& caller, Status status, uint64_t team) {
  CallReport& report = *caller.report;
  if (!compare_exchange<Reach::kSystem>(&report.claimed, 0u, 1u)) return;
  report.call = static_cast<uint32_t>(caller.call);
  report.pe = caller.pe;
  report.team = team;
  report.time_ns = now_ns();
  store_release<Reach::kSystem>(&report.status, static_cast<uint32_t>(status));
  if (caller.state->alarm != nullptr) store_release<Reach::kSystem>(caller.state->alarm, 1u);
}

/// By every lane, or by one.
PEAL_DEVICE void report(const Caller& caller, Status status, uint64_t team = 0) {
  if (status != Status::kOk) write_report(caller, status, team);
}

/// Makes a collective call of the team that the arguments name, if it still exists.
template <class Op>
PEAL_DEVICE void with_team(const Collective& args, const Op& op) {
  const Team team = *args.team;
  Status status = Status::kBadTeam;
  if (team.id == args.team_id) status = op(context_of(args.caller), team);
  report(args.caller, status, args.team_id);
}

}  // namespace peal::kernels
