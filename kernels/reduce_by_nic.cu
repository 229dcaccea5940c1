// SPDX-License-Identifier: Apache-2.0
//
// The kernel that reduces by one block in a team some of whose members a NIC reaches: every type
// and operation, chosen when it runs. The host names the type that kernels/list.h has the operation
// of.
#include "device/collectives.h"
#include "kernels/entry.h"
#include "kernels/list.h"

namespace peal::kernels {
namespace {

/// A call as device/collective/run.h has them.
struct AnyReduction {
  Collective args;  // a copy: out of line nobody reaches a kernel's parameters
  collective::Wanted wanted;

  static constexpr Call kCall = Call::kAllReduce;  // whose rows the other reductions have too
  using ByHost = void;                             // but for those that are for kernels
  PEAL_DEVICE bool in_place() const { return args.dst == args.src; }
  template <Reach R>
  PEAL_DEVICE bool has_room(const collective::TeamCall<R>&) const {
    return false;
  }
  template <Reach R>
  PEAL_DEVICE bool has_long_shares(const collective::TeamCall<R>&) const {
    return false;
  }

  PEAL_DEVICE Call which() const { return wanted.call; }
  PEAL_DEVICE int root() const { return static_cast<int>(wanted.root); }
  PEAL_DEVICE uint64_t bytes() const { return scaled(args.count, args.element); }
  PEAL_DEVICE collective::Spans spans(uint32_t members) const {
    using collective::At;
    const bool scattered = wanted.call == Call::kReduceScatter;
    const At stored = scattered ? At::kHere : wanted.call == Call::kReduce ? At::kRoot : At::kAll;
    return {{args.dst, bytes(), stored},
            collective::blocks_at(args.src, bytes(), scattered ? members : 1u, At::kAll)};
  }
  PEAL_DEVICE collective::Signature signature(const ContextFields& ctx) const {
    const bool scattered = wanted.call == Call::kReduceScatter;
    const void* const agreed = scattered ? args.src : args.dst;
    return collective::signature_of(which(), ctx, agreed, args.src)
        .with(args.count)
        .with(uint64_t{wanted.root} << 32 | static_cast<uint64_t>(args.type) << 16 |
              static_cast<uint64_t>(args.operation) << 8);
  }

  PEAL_DEVICE collective::Cargo cargo(uint32_t members) const {
    return {args.src, bytes() * (wanted.call == Call::kReduceScatter ? members : 1)};
  }
  template <Reach R, AnyScope S>
  PEAL_DEVICE void take(const collective::TeamCall<R>& call, S lanes,
                        const collective::Cargo& cargo, const std::byte* set) const {
    const collective::Terms terms = collective::terms_of(call, wanted);
    if (!terms.wanted) return;
    const bool scattered = wanted.call == Call::kReduceScatter;
    const std::byte* const from = set + (scattered ? call.rank() * bytes() : 0);
    typed([&]<class T, class Op>() {
      auto* const dst = reinterpret_cast<T*>(args.dst);
      collective::fold_carried<T, Op>(lanes, cargo, from, terms.last, dst, args.count);
    });
  }

  template <Reach R, AnyScope S>
  PEAL_DEVICE Status by_nic(const collective::TeamCall<R>& call, S lanes,
                            collective::Algorithm) const {
    const auto fold = [&](uint64_t staged) {
      typed([&]<class T, class Op>() { fold_as<T, Op>(call, lanes, staged / sizeof(T)); });
    };
    return collective::reduce_staged(call, lanes, owned(call), wanted, fold);
  }

 private:
  template <Reach R>
  PEAL_DEVICE collective::Owned<std::byte> owned(const collective::TeamCall<R>& call) const {
    if (wanted.call == Call::kReduceScatter) {
      return {args.dst, args.src, bytes() * call.rank(), 0, bytes()};
    }
    const collective::Share share =
        collective::Share::of(bytes(), sizeof(Line), call.rank(), call.members());
    return {args.dst, args.src, share.at, share.at, share.count};
  }

  /// Calls `visit` for the type and the operation of this call.
  template <class Visit>
  PEAL_DEVICE void typed(const Visit& visit) const {
    switch (args.type) {
#define PEAL_IF_OPERATION(type, name)                                                      \
  if (args.operation == Operation::name) {                                                 \
    return visit.template operator()<types::type, std::remove_cv_t<decltype(op::name)>>(); \
  }
#define PEAL_IF_TYPE(type, operations) \
  case DataType::type:                 \
    operations(PEAL_IF_OPERATION, type) break;
      PEAL_REDUCE_TYPES(PEAL_IF_TYPE)
    }
  }

  template <class T, class Op, Reach R, AnyScope S>
  PEAL_DEVICE void fold_as(const collective::TeamCall<R>& call, S lanes, uint64_t count) const {
    switch (wanted.call) {
      case Call::kScan:
        return collective::fold_staged<Call::kScan, T, Op>(call, lanes, count);
      case Call::kExclusiveScan:
        return collective::fold_staged<Call::kExclusiveScan, T, Op>(call, lanes, count);
      default:
        return collective::fold_staged<Call::kAllReduce, T, Op>(call, lanes, count);
    }
  }
};

}  // namespace
}  // namespace peal::kernels

PEAL_ENTRY(reduce_by_nic, Collective) {
  using namespace peal;
  kernels::with_team(args, [&](const Context& ctx, const Team& team) {
    const kernels::AnyReduction op{
        args,
        {args.caller.call,
         args.caller.call == Call::kReduce ? static_cast<uint32_t>(args.caller.pe) : 0}};
    const Status status = collective::admit(ctx, block, team, op);
    if (status != Status::kOk || args.count == 0) return status;
    return collective::run_by_nic<Reach::kGpu, Block>(args.caller.state, block, team, op);
  });
}
