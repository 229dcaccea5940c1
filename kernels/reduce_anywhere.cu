// SPDX-License-Identifier: Apache-2.0
//
// The kernel that reduces by one block in a team of any kind, also by the NIC: every type and
// operation, chosen when it runs. The host names the type that kernels/list.h has the operation of.
#include "device/collectives.h"
#include "kernels/entry.h"
#include "kernels/list.h"

namespace peal::kernels {
namespace {

using collective::Result;

/// A call as device/collective/run.h has them.
struct AnyReduction {
  Collective args;  // a copy: out of line nobody reaches a kernel's parameters
  collective::Wanted wanted;

  PEAL_DEVICE uint32_t signature(const Window& heap) const {
    const bool scattered = wanted.result == Result::kOwner;
    const void* const agreed = scattered ? args.src : args.dst;
    return collective::signature_of(collective::Kind::kReduce, heap, agreed, args.src)
        .with(args.count)
        .with(uint64_t{wanted.root} << 32 | static_cast<uint64_t>(args.type) << 16 |
              static_cast<uint64_t>(args.operation) << 8 | static_cast<uint64_t>(wanted.result))
        .value();
  }

  template <Reach R, AnyScope S>
  PEAL_DEVICE Status by_nic(const collective::Call<R>& call, S lanes) const {
    return collective::reduce_staged(call, lanes, owned(call), wanted,
                                     [&](uint64_t bytes) { fold(call, lanes, bytes); });
  }

 private:
  template <Reach R>
  PEAL_DEVICE collective::Owned<std::byte> owned(const collective::Call<R>& call) const {
    const uint64_t bytes = args.count * args.element;
    if (wanted.result == Result::kOwner) {
      return {args.dst, args.src, bytes * call.rank(), 0, bytes};
    }
    const auto share = collective::share_of(args.dst, args.src, bytes, call.rank(), call.members());
    return share;
  }

  template <Reach R, AnyScope S>
  PEAL_DEVICE void fold(const collective::Call<R>& call, S lanes, uint64_t bytes) const {
    switch (args.type) {
#define PEAL_FOLD_IF(type, name) \
  if (args.operation == Operation::name) return fold_as<types::type, op::name>(call, lanes, bytes);
#define PEAL_FOLD_TYPE(type, operations) \
  case DataType::type:                   \
    operations(PEAL_FOLD_IF, type) break;
      PEAL_REDUCE_TYPES(PEAL_FOLD_TYPE)
    }
  }

  template <class T, auto kOperation, Reach R, AnyScope S>
  PEAL_DEVICE_COLD void fold_as(const collective::Call<R>& call, S lanes, uint64_t bytes) const {
    using Op = std::remove_cv_t<decltype(kOperation)>;
    const uint64_t count = bytes / sizeof(T);
    switch (wanted.result) {
      case Result::kInclusive:
        return collective::fold_staged<Result::kInclusive, T, Op>(call, lanes, count);
      case Result::kExclusive:
        return collective::fold_staged<Result::kExclusive, T, Op>(call, lanes, count);
      default:
        return collective::fold_staged<Result::kAll, T, Op>(call, lanes, count);
    }
  }
};

PEAL_DEVICE Result result_of(Call call) {
  switch (call) {
    case Call::kReduce:
      return Result::kRoot;
    case Call::kReduceScatter:
      return Result::kOwner;
    case Call::kScan:
      return Result::kInclusive;
    case Call::kExclusiveScan:
      return Result::kExclusive;
    default:
      return Result::kAll;
  }
}

}  // namespace
}  // namespace peal::kernels

PEAL_ENTRY(reduce_anywhere, Collective) {
  using namespace peal;
  kernels::with_team(args, [&](const Context& ctx, const Team& team) {
    const kernels::AnyReduction op{
        args,
        {kernels::result_of(args.caller.call),
         args.caller.call == kernels::Call::kReduce ? static_cast<uint32_t>(args.caller.pe) : 0}};
    const Status status = collective::check(ctx, team, static_cast<int>(op.wanted.root));
    if (status != Status::kOk || args.count == 0) return status;
    return collective::run_by_nic<Reach::kGpu, Block>(args.caller.state, block, team, op);
  });
}
