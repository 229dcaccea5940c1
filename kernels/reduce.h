// SPDX-License-Identifier: Apache-2.0
//
// The kernels that reduce elements of one type where all members are mapped:
//
//   PEAL_MAPPED_REDUCTIONS(f32, sum)    peal_kernel_all_reduce_f32_sum and its kin
//
// A file for each type. What goes by a NIC is one kernel for all types (reduce_by_nic.cu): of every
// kernel that could post the compiler translates all of that again.
#pragma once

#include "device/collectives.h"
#include "kernels/entry.h"
#include "kernels/list.h"

namespace peal::kernels {

template <Call kCall, class T, class Op>
PEAL_DEVICE void reduce_mapped(const Collective& args) {
  with_team(args, [&](const Context& ctx, const Team& team) {
    const int root = kCall == Call::kReduce ? args.caller.pe : 0;
    const collective::Reduction<kCall, T, Op> reduction{
        reinterpret_cast<T*>(args.dst), reinterpret_cast<const T*>(args.src), args.count, root};
    const Status status = collective::admit(ctx, launched_grid, team, reduction);
    if (status != Status::kOk || args.count == 0) return status;
    const auto demand = collective::demand_on_mapped(ctx, launched_grid, team, reduction);
    if (demand.status != Status::kOk) return demand.status;
    return collective::run_mapped(ctx, launched_grid, team, reduction, demand.algorithm);
  });
}

}  // namespace peal::kernels

#define PEAL_MAPPED_REDUCTION(name, call, type, operation)                               \
  PEAL_ENTRY(name##_##type##_##operation, Collective) {                                  \
    peal::kernels::reduce_mapped<peal::Call::call, peal::kernels::types::type,           \
                                 std::remove_cv_t<decltype(peal::op::operation)>>(args); \
  }
#define PEAL_MAPPED_REDUCTIONS(type, operation)                          \
  PEAL_MAPPED_REDUCTION(all_reduce, kAllReduce, type, operation)         \
  PEAL_MAPPED_REDUCTION(reduce, kReduce, type, operation)                \
  PEAL_MAPPED_REDUCTION(reduce_scatter, kReduceScatter, type, operation) \
  PEAL_MAPPED_REDUCTION(scan, kScan, type, operation)                    \
  PEAL_MAPPED_REDUCTION(exclusive_scan, kExclusiveScan, type, operation)
