// SPDX-License-Identifier: Apache-2.0
//
// Every call is described by the plain data that kernels take (device/shared/kernel_arguments.h),
// and then made at once or given to a stream.
#include "peal/c_calls.h"

#include <cstring>
#include <memory>
#include <type_traits>

#include "device/base/stream.h"
#include "host/base/call_names.h"
#include "host/base/error.h"
#include "kernels/table.h"
#include "peal/c_guard.h"

struct peal_team {
  peal::Team team;
};

namespace {

using peal::Call;
using peal::ErrorCode;
using peal::fail;
using peal::c::guarded;
using peal::c::initialised;
using peal::c::require_place;
using peal::detail::collective_call;
using peal::detail::signal_call;
using peal::detail::transfer_call;
using peal::detail::wait_call;
using peal::detail::word_call;
using peal::kernels::Collective;
using peal::kernels::DataType;
using peal::kernels::Operation;
using peal::kernels::Transfer;
using peal::kernels::Word;

static_assert(static_cast<int>(DataType::i8) == PEAL_INT8 &&
              static_cast<int>(DataType::u8) == PEAL_UINT8 &&
              static_cast<int>(DataType::f16) == PEAL_HALF &&
              static_cast<int>(DataType::f64) == PEAL_DOUBLE);
static_assert(static_cast<int>(Operation::max) == PEAL_MAX &&
              static_cast<int>(Operation::bit_xor) == PEAL_XOR);
static_assert(static_cast<int>(peal::Compare::kLe) == PEAL_LE);

/// A collective call and whose it is.
struct OfTeam {
  peal_team_t team;
  Collective call;
};

/// Throws kInvalidArgument, naming `call`, where the team is NULL.
const peal::Team& required(const char* call, peal_team_t team) {
  if (team == nullptr) {
    fail(ErrorCode::kInvalidArgument, "{}: the team is NULL: this PE is not in it", call);
  }
  return team->team;
}

void start(const peal::detail::CallSite& site, const OfTeam& of) {
  const char* const call = peal::to_string(of.call.caller.call);
  peal::detail::start(site, required(call, of.team), of.call);
}
template <class Given>
void start(const peal::detail::CallSite& site, const Given& call) {
  peal::detail::start(site, call);
}

/// `describe` answers the call, or throws.
template <class Describe>
int at_once(const char* name, const Describe& describe) {
  return guarded(-1, [&] {
    const auto site = initialised(name).host().site();
    start(site, describe());
    peal::CallTicket(site).wait();
    return 0;
  });
}
template <class Describe>
int in_order(const char* name, peal_stream_t stream, const Describe& describe) {
  return guarded(-1, [&] {
    start(initialised(name).on(stream).site(), describe());
    return 0;
  });
}

size_t bytes_of(peal_type_t type) {
  if (type < PEAL_INT8 || type > PEAL_DOUBLE) {
    fail(ErrorCode::kInvalidArgument, "type {}: there is no such peal_type_t",
         static_cast<int>(type));
  }
  return peal::kernels::bytes_of(static_cast<DataType>(type));
}

OfTeam collective(Call call, peal_team_t team, const peal_buffers_t& buffers, int root = -1) {
  return {team, collective_call(call, buffers.dst, buffers.src, buffers.count,
                                bytes_of(buffers.type), root)};
}

// What the functions below describe, by their names.

Transfer put(void* dst, const void* src, size_t bytes, int pe) {
  return transfer_call(Call::kPut, dst, src, bytes, pe);
}
Transfer get(void* dst, const void* src, size_t bytes, int pe) {
  return transfer_call(Call::kGet, dst, src, bytes, pe);
}
peal::Signal native(const peal_signal_t& signal) {
  return {signal.word, signal.value, signal.pe, static_cast<peal::Signal::Kind>(signal.kind)};
}
Transfer put_signal(void* dst, const void* src, size_t bytes, const peal_signal_t& signal) {
  return transfer_call(Call::kPutSignal, dst, src, bytes, signal.pe, native(signal));
}
Word signal_of(const peal_signal_t& signal) { return signal_call(native(signal)); }
Word p(void* dst, uint64_t value, size_t bytes, int pe) {
  return word_call(Call::kP, dst, value, bytes, pe);
}
Word atomic(peal_atomic_t what, void* dst, uint64_t value, size_t bytes, int pe) {
  static constexpr Call kCalls[] = {
      Call::kAtomicFetch,    Call::kAtomicSet,      Call::kAtomicSwap,    Call::kAtomicCompareSwap,
      Call::kAtomicFetchAdd, Call::kAtomicFetchAnd, Call::kAtomicFetchOr, Call::kAtomicFetchXor};
  if (what < PEAL_ATOMIC_FETCH || what > PEAL_ATOMIC_XOR) {
    fail(ErrorCode::kInvalidArgument, "atomic {}: there is no such peal_atomic_t",
         static_cast<int>(what));
  }
  return word_call(kCalls[what], dst, value, bytes, pe);
}
Word wait_until(const void* address, peal_type_t type, peal_compare_t compare, uint64_t value) {
  const size_t bytes = bytes_of(type);
  if (type >= PEAL_HALF || bytes < 4) {
    fail(ErrorCode::kInvalidArgument, "wait_until: a word is an integer of 4 or 8 bytes, not {}",
         peal::kernels::to_string(static_cast<DataType>(type)));
  }
  return wait_call(address, bytes, type <= PEAL_INT64, static_cast<peal::Compare>(compare), value);
}
Word fence() { return word_call(Call::kFence); }
Word quiet() { return word_call(Call::kQuiet); }
Word sync_all() { return word_call(Call::kSyncAll); }
Word barrier_all() { return word_call(Call::kBarrierAll); }
OfTeam team_sync(peal_team_t team) { return collective(Call::kSync, team, {}); }
OfTeam team_barrier(peal_team_t team) { return collective(Call::kBarrier, team, {}); }
OfTeam broadcast(peal_team_t team, const peal_buffers_t& buffers, int root) {
  return collective(Call::kBroadcast, team, buffers, root);
}
OfTeam all_gather(peal_team_t team, const peal_buffers_t& buffers) {
  return collective(Call::kAllGather, team, buffers);
}
OfTeam all_to_all(peal_team_t team, const peal_buffers_t& buffers) {
  return collective(Call::kAllToAll, team, buffers);
}
OfTeam all_to_all_v(peal_team_t team, const peal_buffers_t& buffers, const peal_blocks_t& received,
                    const peal_blocks_t& sent) {
  OfTeam made = collective(Call::kAllToAllV, team, buffers);
  made.call.count = 1;
  made.call.received_counts = received.counts;
  made.call.received_at = received.displacements;
  made.call.sent_counts = sent.counts;
  made.call.sent_at = sent.displacements;
  return made;
}
OfTeam reduction(Call call, peal_team_t team, const peal_buffers_t& buffers, peal_op_t op,
                 int root = -1) {
  OfTeam made = collective(call, team, buffers, root);
  if (op < PEAL_SUM || op > PEAL_XOR) {
    fail(ErrorCode::kInvalidArgument, "op {}: there is no such peal_op_t", static_cast<int>(op));
  }
  made.call.type = static_cast<DataType>(buffers.type);
  made.call.operation = static_cast<Operation>(op);
  return made;
}
OfTeam all_reduce(peal_team_t team, const peal_buffers_t& buffers, peal_op_t op) {
  return reduction(Call::kAllReduce, team, buffers, op);
}
OfTeam reduce(peal_team_t team, const peal_buffers_t& buffers, peal_op_t op, int root) {
  return reduction(Call::kReduce, team, buffers, op, root);
}
OfTeam reduce_scatter(peal_team_t team, const peal_buffers_t& buffers, peal_op_t op) {
  return reduction(Call::kReduceScatter, team, buffers, op);
}
OfTeam scan(peal_team_t team, const peal_buffers_t& buffers, peal_op_t op) {
  return reduction(Call::kScan, team, buffers, op);
}
OfTeam exclusive_scan(peal_team_t team, const peal_buffers_t& buffers, peal_op_t op) {
  return reduction(Call::kExclusiveScan, team, buffers, op);
}

}  // namespace

int peal_put(void* dst, const void* src, size_t bytes, int pe) {
  return at_once("peal_put", [&] { return put(dst, src, bytes, pe); });
}
int peal_put_on_stream(void* dst, const void* src, size_t bytes, int pe, peal_stream_t stream) {
  return in_order("peal_put_on_stream", stream, [&] { return put(dst, src, bytes, pe); });
}
int peal_get(void* dst, const void* src, size_t bytes, int pe) {
  return at_once("peal_get", [&] { return get(dst, src, bytes, pe); });
}
int peal_get_on_stream(void* dst, const void* src, size_t bytes, int pe, peal_stream_t stream) {
  return in_order("peal_get_on_stream", stream, [&] { return get(dst, src, bytes, pe); });
}
int peal_put_signal(void* dst, const void* src, size_t bytes, peal_signal_t signal) {
  return at_once("peal_put_signal", [&] { return put_signal(dst, src, bytes, signal); });
}
int peal_put_signal_on_stream(void* dst, const void* src, size_t bytes, peal_signal_t signal,
                              peal_stream_t stream) {
  return in_order("peal_put_signal_on_stream", stream,
                  [&] { return put_signal(dst, src, bytes, signal); });
}
int peal_signal(peal_signal_t signal) {
  return at_once("peal_signal", [&] { return signal_of(signal); });
}
int peal_signal_on_stream(peal_signal_t signal, peal_stream_t stream) {
  return in_order("peal_signal_on_stream", stream, [&] { return signal_of(signal); });
}
int peal_p(void* dst, uint64_t value, size_t bytes, int pe) {
  return at_once("peal_p", [&] { return p(dst, value, bytes, pe); });
}
int peal_p_on_stream(void* dst, uint64_t value, size_t bytes, int pe, peal_stream_t stream) {
  return in_order("peal_p_on_stream", stream, [&] { return p(dst, value, bytes, pe); });
}
int peal_atomic(peal_atomic_t what, void* dst, uint64_t value, size_t bytes, int pe) {
  return at_once("peal_atomic", [&] { return atomic(what, dst, value, bytes, pe); });
}
int peal_atomic_on_stream(peal_atomic_t what, void* dst, uint64_t value, size_t bytes, int pe,
                          peal_stream_t stream) {
  return in_order("peal_atomic_on_stream", stream,
                  [&] { return atomic(what, dst, value, bytes, pe); });
}
int peal_wait_until(const void* word, peal_type_t type, peal_compare_t compare, uint64_t value) {
  return at_once("peal_wait_until", [&] { return wait_until(word, type, compare, value); });
}
int peal_wait_until_on_stream(const void* word, peal_type_t type, peal_compare_t compare,
                              uint64_t value, peal_stream_t stream) {
  return in_order("peal_wait_until_on_stream", stream,
                  [&] { return wait_until(word, type, compare, value); });
}
int peal_fence() {
  return at_once("peal_fence", [&] { return fence(); });
}
int peal_fence_on_stream(peal_stream_t stream) {
  return in_order("peal_fence_on_stream", stream, [&] { return fence(); });
}
int peal_quiet() {
  return at_once("peal_quiet", [&] { return quiet(); });
}
int peal_quiet_on_stream(peal_stream_t stream) {
  return in_order("peal_quiet_on_stream", stream, [&] { return quiet(); });
}
int peal_sync_all() {
  return at_once("peal_sync_all", [&] { return sync_all(); });
}
int peal_sync_all_on_stream(peal_stream_t stream) {
  return in_order("peal_sync_all_on_stream", stream, [&] { return sync_all(); });
}
int peal_barrier_all() {
  return at_once("peal_barrier_all", [&] { return barrier_all(); });
}
int peal_barrier_all_on_stream(peal_stream_t stream) {
  return in_order("peal_barrier_all_on_stream", stream, [&] { return barrier_all(); });
}
int peal_team_sync(peal_team_t team) {
  return at_once("peal_team_sync", [&] { return team_sync(team); });
}
int peal_team_sync_on_stream(peal_team_t team, peal_stream_t stream) {
  return in_order("peal_team_sync_on_stream", stream, [&] { return team_sync(team); });
}
int peal_team_barrier(peal_team_t team) {
  return at_once("peal_team_barrier", [&] { return team_barrier(team); });
}
int peal_team_barrier_on_stream(peal_team_t team, peal_stream_t stream) {
  return in_order("peal_team_barrier_on_stream", stream, [&] { return team_barrier(team); });
}
int peal_broadcast(peal_team_t team, peal_buffers_t buffers, int root) {
  return at_once("peal_broadcast", [&] { return broadcast(team, buffers, root); });
}
int peal_broadcast_on_stream(peal_team_t team, peal_buffers_t buffers, int root,
                             peal_stream_t stream) {
  return in_order("peal_broadcast_on_stream", stream,
                  [&] { return broadcast(team, buffers, root); });
}
int peal_all_gather(peal_team_t team, peal_buffers_t buffers) {
  return at_once("peal_all_gather", [&] { return all_gather(team, buffers); });
}
int peal_all_gather_on_stream(peal_team_t team, peal_buffers_t buffers, peal_stream_t stream) {
  return in_order("peal_all_gather_on_stream", stream, [&] { return all_gather(team, buffers); });
}
int peal_all_to_all(peal_team_t team, peal_buffers_t buffers) {
  return at_once("peal_all_to_all", [&] { return all_to_all(team, buffers); });
}
int peal_all_to_all_on_stream(peal_team_t team, peal_buffers_t buffers, peal_stream_t stream) {
  return in_order("peal_all_to_all_on_stream", stream, [&] { return all_to_all(team, buffers); });
}
int peal_all_to_all_v(peal_team_t team, peal_buffers_t buffers, peal_blocks_t received,
                      peal_blocks_t sent) {
  return at_once("peal_all_to_all_v", [&] { return all_to_all_v(team, buffers, received, sent); });
}
int peal_all_to_all_v_on_stream(peal_team_t team, peal_buffers_t buffers, peal_blocks_t received,
                                peal_blocks_t sent, peal_stream_t stream) {
  return in_order("peal_all_to_all_v_on_stream", stream,
                  [&] { return all_to_all_v(team, buffers, received, sent); });
}
int peal_all_reduce(peal_team_t team, peal_buffers_t buffers, peal_op_t op) {
  return at_once("peal_all_reduce", [&] { return all_reduce(team, buffers, op); });
}
int peal_all_reduce_on_stream(peal_team_t team, peal_buffers_t buffers, peal_op_t op,
                              peal_stream_t stream) {
  return in_order("peal_all_reduce_on_stream", stream,
                  [&] { return all_reduce(team, buffers, op); });
}
int peal_reduce(peal_team_t team, peal_buffers_t buffers, peal_op_t op, int root) {
  return at_once("peal_reduce", [&] { return reduce(team, buffers, op, root); });
}
int peal_reduce_on_stream(peal_team_t team, peal_buffers_t buffers, peal_op_t op, int root,
                          peal_stream_t stream) {
  return in_order("peal_reduce_on_stream", stream, [&] { return reduce(team, buffers, op, root); });
}
int peal_reduce_scatter(peal_team_t team, peal_buffers_t buffers, peal_op_t op) {
  return at_once("peal_reduce_scatter", [&] { return reduce_scatter(team, buffers, op); });
}
int peal_reduce_scatter_on_stream(peal_team_t team, peal_buffers_t buffers, peal_op_t op,
                                  peal_stream_t stream) {
  return in_order("peal_reduce_scatter_on_stream", stream,
                  [&] { return reduce_scatter(team, buffers, op); });
}
int peal_scan(peal_team_t team, peal_buffers_t buffers, peal_op_t op) {
  return at_once("peal_scan", [&] { return scan(team, buffers, op); });
}
int peal_scan_on_stream(peal_team_t team, peal_buffers_t buffers, peal_op_t op,
                        peal_stream_t stream) {
  return in_order("peal_scan_on_stream", stream, [&] { return scan(team, buffers, op); });
}
int peal_exclusive_scan(peal_team_t team, peal_buffers_t buffers, peal_op_t op) {
  return at_once("peal_exclusive_scan", [&] { return exclusive_scan(team, buffers, op); });
}
int peal_exclusive_scan_on_stream(peal_team_t team, peal_buffers_t buffers, peal_op_t op,
                                  peal_stream_t stream) {
  return in_order("peal_exclusive_scan_on_stream", stream,
                  [&] { return exclusive_scan(team, buffers, op); });
}

int peal_g(void* value, const void* src, size_t bytes, int pe) {
  return guarded(-1, [&] {
    require_place("peal_g", "value", value);
    const auto site = initialised("peal_g").host().site();
    const uint64_t bits = peal::detail::fetch(site, word_call(Call::kG, src, 0, bytes, pe));
    memcpy(value, &bits, bytes);
    return 0;
  });
}

int peal_atomic_fetching(peal_atomic_t what, void* dst, uint64_t value, uint64_t expected, int pe,
                         uint64_t* old) {
  return guarded(-1, [&] {
    require_place("peal_atomic_fetching", "old", old);
    Word call = atomic(what, dst, value, sizeof(*old), pe);
    call.expected = expected;
    *old = peal::detail::fetch(initialised("peal_atomic_fetching").host().site(), call);
    return 0;
  });
}

int peal_atomic_fetching32(peal_atomic_t what, void* dst, uint32_t value, uint32_t expected, int pe,
                           uint32_t* old) {
  return guarded(-1, [&] {
    require_place("peal_atomic_fetching32", "old", old);
    Word call = atomic(what, dst, value, sizeof(*old), pe);
    call.expected = expected;
    const auto site = initialised("peal_atomic_fetching32").host().site();
    *old = static_cast<uint32_t>(peal::detail::fetch(site, call));
    return 0;
  });
}

peal_stream_t peal_stream_create() {
  return guarded(static_cast<peal_stream_t>(nullptr), [] {
    if (initialised("peal_stream_create").target() == peal::Target::kGpu) {
      fail(ErrorCode::kUnsupported,
           "peal_stream_create: kernels run on a GPU here: use cudaStreamCreate");
    }
    return static_cast<peal_stream_t>(new peal::simt::Stream);
  });
}
int peal_stream_synchronize(peal_stream_t stream) {
  return guarded(-1, [&] {
    if (stream == nullptr) {
      fail(ErrorCode::kInvalidArgument,
           "peal_stream_synchronize: the stream is NULL: it takes what peal_stream_create() "
           "answered");
    }
    static_cast<peal::simt::Stream*>(stream)->synchronize();
    return 0;
  });
}
int peal_stream_destroy(peal_stream_t stream) {
  return guarded(-1, [&] {
    delete static_cast<peal::simt::Stream*>(stream);
    return 0;
  });
}

peal_team_t peal_team_world() {
  return guarded(static_cast<peal_team_t>(nullptr), [] {
    static peal_team world;
    world.team = initialised("peal_team_world").world();
    return &world;
  });
}
int peal_team_split(peal_team_t parent, int color, int key, peal_team_t* team) {
  return guarded(-1, [&] {
    if (parent == nullptr) {
      fail(ErrorCode::kInvalidArgument, "peal_team_split: the parent is NULL");
    }
    require_place("peal_team_split", "team", team);
    auto made = std::make_unique<peal_team>();
    made->team = initialised("peal_team_split").split_team(parent->team, color, key);
    *team = made->team.rank < 0 ? nullptr : made.release();
    return 0;
  });
}
int peal_team_free(peal_team_t team) {
  return guarded(-1, [&] {
    const peal::Team& given = required("peal_team_free", team);
    initialised("peal_team_free").free_team(given);
    delete team;
    return 0;
  });
}
int peal_team_my_pe(peal_team_t team) {
  return guarded(-1, [&] { return required("peal_team_my_pe", team).rank; });
}
int peal_team_n_pes(peal_team_t team) {
  return guarded(-1, [&] { return required("peal_team_n_pes", team).size; });
}
int peal_team_world_pe(peal_team_t team, int member) {
  return guarded(-1, [&] {
    const peal::Team& members = required("peal_team_world_pe", team);
    if (member < 0 || member >= members.size) {
      fail(ErrorCode::kInvalidArgument,
           "peal_team_world_pe: the team has no member {}; members are 0 to {}", member,
           members.size - 1);
    }
    return initialised("peal_team_world_pe").team_pes(members)[static_cast<size_t>(member)];
  });
}

int peal_register_local(void* address, size_t bytes) {
  return guarded(-1, [&] {
    initialised("peal_register_local").register_local(address, bytes);
    return 0;
  });
}
int peal_register_window(void* address, size_t bytes) {
  return guarded(-1, [&] {
    initialised("peal_register_window").register_window(address, bytes);
    return 0;
  });
}
int peal_unregister_local(const void* address) {
  return guarded(-1, [&] {
    initialised("peal_unregister_local").unregister_local(address);
    return 0;
  });
}
int peal_unregister_window(const void* address) {
  return guarded(-1, [&] {
    initialised("peal_unregister_window").unregister_window(address);
    return 0;
  });
}
int peal_register_local_cached(void* address, size_t bytes) {
  return guarded(-1, [&] {
    initialised("peal_register_local_cached").register_local(address, bytes, {.cached = true});
    return 0;
  });
}
int peal_register_window_cached(void* address, size_t bytes) {
  return guarded(-1, [&] {
    initialised("peal_register_window_cached").register_window(address, bytes, {.cached = true});
    return 0;
  });
}
