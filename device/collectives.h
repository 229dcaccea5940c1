// SPDX-License-Identifier: Apache-2.0
//
// Collective calls of a team, in kernels: sync, barrier, broadcast, all_gather, all_to_all, reduce,
// all_reduce, reduce_scatter, scan, exclusive_scan.
//
//   all_reduce(ctx, block, team, dst, src, n, op::sum)
//
// Every member calls, with the same arguments but for what `src` holds, by a thread, a warp, a
// block or a grid (all blocks of it, which must run at the same time; at all members as many).
// Calls of a team in one context follow one another; two blocks that call at the same time use two
// teams or two contexts. A team was made for so many contexts (TeamOptions::contexts).
//
// dst and src are symmetric: each PE's own address of one object. They are the same, or do not
// overlap: `src` may be `dst` (in all_gather and reduce_scatter this PE's block of the larger
// one). `src` must be ready at this PE, and `dst` free at this PE, of a grid for all its blocks, as
// where a kernel begins: the call waits for the other members.
// On kOk dst holds the result, visible to the lanes of the group, and src may be reused. Of a grid
// that holds for all lanes of all its blocks. A call says nothing of earlier puts: barrier does.
//
// Counts are in elements of T; a call of none looks at no memory. kMismatch: a member called with
// other arguments. Of a long call nothing was moved then, and all members hear of it; of a short
// one over mapped memory dst is undefined, of a broadcast those hear whose call is not the root's,
// and where one means a long call and another a short one both end by kTimeout. kBadTeam, kBadPe,
// kNotSymmetric (dst or src is not there at a member that the call uses it at), kBadAlgorithm
// (PEAL_ALGORITHM forces one that the call does not fit): refused at once, and the other members'
// calls time out. After any other failure dst is undefined.
//
// Reductions go over the members in order, whatever the size and the way: a sum of floats is the
// same at all members and in every run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "device/base/scaled.h"
#include "device/base/scope.h"
#include "device/collective/operations.h"
#include "device/collective/reduction.h"
#include "device/collective/run.h"
#include "device/collective/uneven.h"
#include "device/context.h"
#include "device/detail/checked.h"
#include "device/reduce_op.h"
#include "device/team.h"

namespace peal {
namespace collective {

PEAL_HD uint64_t of_all(const Team& team, size_t count) {
  return team.size < 0 ? 0 : scaled(count, static_cast<uint64_t>(team.size));
}

/// The note of a call with so many elements.
template <class T>
PEAL_HD CallNote note_of(Call call, const Team& team, const T* dst, uint64_t dst_count,
                         const T* src, uint64_t src_count) {
  return detail::note_of_team(call, team.id, dst, detail::bytes_of<T>(dst_count), src,
                              detail::bytes_of<T>(src_count));
}

}  // namespace collective

/// Returns once every member has called it. Says nothing of transfers.
template <Reach R, AnyGroup S>
[[nodiscard]] PEAL_DEVICE Status sync(const BasicContext<R>& ctx, S scope, const Team& team) {
  const auto note = [&] { return detail::note_of_team(Call::kSync, team.id); };
  return detail::checked(ctx, scope, note,
                         [&] { return collective::sync(ctx, scope, team, false); });
}

/// quiet, then sync: afterwards every member sees what every member had put.
template <Reach R, AnyGroup S>
[[nodiscard]] PEAL_DEVICE Status barrier(const BasicContext<R>& ctx, S scope, const Team& team) {
  const auto note = [&] { return detail::note_of_team(Call::kBarrier, team.id); };
  return detail::checked(ctx, scope, note,
                         [&] { return collective::sync(ctx, scope, team, true); });
}

/// dst[0, count) at every member becomes member `root`'s src[0, count).
template <Reach R, AnyGroup S, class T>
PEAL_DEVICE Status broadcast(const BasicContext<R>& ctx, S scope, const Team& team, T* dst,
                             const std::type_identity_t<T>* src, size_t count, int root) {
  return detail::checked(
      ctx, scope,
      [&] {
        return collective::note_of<T>(Call::kBroadcast, team, dst, count, src,
                                      team.rank == root ? count : 0);
      },
      [&] {
        return collective::run(
            ctx, scope, team, collective::Broadcast{collective::buffers_of(dst, src, count), root});
      });
}

/// dst[i * count, ...) becomes member i's src[0, count).
template <Reach R, AnyGroup S, class T>
PEAL_DEVICE Status all_gather(const BasicContext<R>& ctx, S scope, const Team& team, T* dst,
                              const std::type_identity_t<T>* src, size_t count) {
  return detail::checked(
      ctx, scope,
      [&] {
        return collective::note_of<T>(Call::kAllGather, team, dst, collective::of_all(team, count),
                                      src, count);
      },
      [&] {
        return collective::run(ctx, scope, team,
                               collective::AllGather{collective::buffers_of(dst, src, count)});
      });
}

/// dst[i * count, ...) becomes member i's src[rank * count, ...): `count` is for each member.
template <Reach R, AnyGroup S, class T>
PEAL_DEVICE Status all_to_all(const BasicContext<R>& ctx, S scope, const Team& team, T* dst,
                              const std::type_identity_t<T>* src, size_t count) {
  return detail::checked(
      ctx, scope,
      [&] {
        return collective::note_of<T>(Call::kAllToAll, team, dst, collective::of_all(team, count),
                                      src, collective::of_all(team, count));
      },
      [&] {
        return collective::run(ctx, scope, team,
                               collective::AllToAll{collective::buffers_of(dst, src, count)});
      });
}

/// Block i of dst, as `received` says, becomes block `rank` of member i's src, as its `sent` says:
/// as many elements as this PE expects of it. `received`'s lists are symmetric memory. dst and src
/// do not overlap. kMismatch at all members where two do not agree on a count: nothing moved
/// between the two. kNotSymmetric where a block leaves the memory that dst or src begins in, or a
/// count or displacement is less than 0.
template <Reach R, AnyGroup S, class T, class I>
PEAL_DEVICE Status all_to_all_v(const BasicContext<R>& ctx, S scope, const Team& team, T* dst,
                                const Blocks<I>& received, const std::type_identity_t<T>* src,
                                const Blocks<I>& sent) {
  const collective::Buffers buffers = collective::buffers_of(dst, src, 1);
  const auto note = [&] { return detail::note_of_team(Call::kAllToAllV, team.id); };
  return detail::checked(ctx, scope, note, [&] {
    return collective::run(
        ctx, scope, team,
        collective::AllToAllV<I>{buffers.dst, buffers.src, received, sent, buffers.bytes});
  });
}

/// dst[k] at every member becomes op over the members' src[k].
template <Reach R, AnyGroup S, class T, class Op>
PEAL_DEVICE Status all_reduce(const BasicContext<R>& ctx, S scope, const Team& team, T* dst,
                              const std::type_identity_t<T>* src, size_t count, Op) {
  return detail::checked(
      ctx, scope,
      [&] { return collective::note_of<T>(Call::kAllReduce, team, dst, count, src, count); },
      [&] {
        return collective::reduce<Call::kAllReduce, Op>(ctx, scope, team, dst, src, count, 0);
      });
}

/// The same at member `root`; dst of the others stays.
template <Reach R, AnyGroup S, class T, class Op>
PEAL_DEVICE Status reduce(const BasicContext<R>& ctx, S scope, const Team& team, T* dst,
                          const std::type_identity_t<T>* src, size_t count, Op, int root) {
  return detail::checked(
      ctx, scope,
      [&] {
        return collective::note_of<T>(Call::kReduce, team, dst, team.rank == root ? count : 0, src,
                                      count);
      },
      [&] {
        return collective::reduce<Call::kReduce, Op>(ctx, scope, team, dst, src, count, root);
      });
}

/// dst[0, count) becomes op over the members' src[rank * count, ...).
template <Reach R, AnyGroup S, class T, class Op>
PEAL_DEVICE Status reduce_scatter(const BasicContext<R>& ctx, S scope, const Team& team, T* dst,
                                  const std::type_identity_t<T>* src, size_t count, Op) {
  return detail::checked(
      ctx, scope,
      [&] {
        return collective::note_of<T>(Call::kReduceScatter, team, dst, count, src,
                                      collective::of_all(team, count));
      },
      [&] {
        return collective::reduce<Call::kReduceScatter, Op>(ctx, scope, team, dst, src, count, 0);
      });
}

/// dst[k] becomes op over src[k] of the members up to this one, and it.
template <Reach R, AnyGroup S, class T, class Op>
PEAL_DEVICE Status scan(const BasicContext<R>& ctx, S scope, const Team& team, T* dst,
                        const std::type_identity_t<T>* src, size_t count, Op) {
  return detail::checked(
      ctx, scope, [&] { return collective::note_of<T>(Call::kScan, team, dst, count, src, count); },
      [&] { return collective::reduce<Call::kScan, Op>(ctx, scope, team, dst, src, count, 0); });
}

/// dst[k] becomes op over src[k] of the members before this one; dst of member 0 stays.
template <Reach R, AnyGroup S, class T, class Op>
PEAL_DEVICE Status exclusive_scan(const BasicContext<R>& ctx, S scope, const Team& team, T* dst,
                                  const std::type_identity_t<T>* src, size_t count, Op) {
  return detail::checked(
      ctx, scope,
      [&] {
        return collective::note_of<T>(Call::kExclusiveScan, team, dst, team.rank == 0 ? 0 : count,
                                      src, count);
      },
      [&] {
        return collective::reduce<Call::kExclusiveScan, Op>(ctx, scope, team, dst, src, count, 0);
      });
}

}  // namespace peal
