// SPDX-License-Identifier: Apache-2.0
//
// Every call is described by the plain data that kernels take (device/shared/kernel_arguments.h),
// and then made at once or given to a stream.
#include "peal/c_calls.h"

#include <cstring>
#include <memory>

#include "device/base/stream.h"
#include "device/shared/call_names.h"
#include "host/base/error.h"
#include "kernels/table.h"
#include "peal/c_guard.h"

struct peal_team {
  peal::Team team;
};
struct peal_ticket {
  peal::CallTicket ticket;
};

namespace {

using peal::Call;
using peal::ErrorCode;
using peal::fail;
using peal::Runtime;
using peal::c::done;
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
using peal::kernels::TransferArguments;
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
  return done(name, [&](Runtime& pe) {
    const auto site = pe.host().site();
    start(site, describe());
    peal::CallTicket(site).wait();
  });
}
template <class Describe>
int in_order(const char* name, peal_stream_t stream, const Describe& describe) {
  return done(name, [&](Runtime& pe) { start(pe.on(stream).site(), describe()); });
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

peal::Signal native(const peal_signal_t& signal) {
  return {signal.word, signal.value, signal.pe, static_cast<peal::Signal::Kind>(signal.kind)};
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

}  // namespace

// peal_NAME(parameters) and peal_NAME_on_stream(parameters, stream), of what MADE describes.
#define PEAL_C_CALL(NAME, MADE, ...)                                             \
  int peal_##NAME(__VA_ARGS__) {                                                 \
    return at_once("peal_" #NAME, [&] { return MADE; });                         \
  }                                                                              \
  int peal_##NAME##_on_stream(__VA_ARGS__ __VA_OPT__(, ) peal_stream_t stream) { \
    return in_order("peal_" #NAME "_on_stream", stream, [&] { return MADE; });   \
  }

PEAL_C_CALL(put, transfer_call(Call::kPut, dst, src, bytes, pe), void* dst, const void* src,
            size_t bytes, int pe)
PEAL_C_CALL(get, transfer_call(Call::kGet, dst, src, bytes, pe), void* dst, const void* src,
            size_t bytes, int pe)
PEAL_C_CALL(put_signal, transfer_call(Call::kPutSignal, dst, src, bytes, signal.pe, native(signal)),
            void* dst, const void* src, size_t bytes, peal_signal_t signal)
PEAL_C_CALL(signal, signal_call(native(signal)), peal_signal_t signal)
PEAL_C_CALL(p, word_call(Call::kP, dst, value, bytes, pe), void* dst, uint64_t value, size_t bytes,
            int pe)
PEAL_C_CALL(atomic, atomic(what, dst, value, bytes, pe), peal_atomic_t what, void* dst,
            uint64_t value, size_t bytes, int pe)
PEAL_C_CALL(wait_until, wait_until(word, type, compare, value), const void* word, peal_type_t type,
            peal_compare_t compare, uint64_t value)
PEAL_C_CALL(fence, word_call(Call::kFence))
PEAL_C_CALL(quiet, word_call(Call::kQuiet))
PEAL_C_CALL(sync_all, word_call(Call::kSyncAll))
PEAL_C_CALL(barrier_all, word_call(Call::kBarrierAll))
PEAL_C_CALL(team_sync, collective(Call::kSync, team, {}), peal_team_t team)
PEAL_C_CALL(team_barrier, collective(Call::kBarrier, team, {}), peal_team_t team)
PEAL_C_CALL(broadcast, collective(Call::kBroadcast, team, buffers, root), peal_team_t team,
            peal_buffers_t buffers, int root)
PEAL_C_CALL(all_gather, collective(Call::kAllGather, team, buffers), peal_team_t team,
            peal_buffers_t buffers)
PEAL_C_CALL(all_to_all, collective(Call::kAllToAll, team, buffers), peal_team_t team,
            peal_buffers_t buffers)
PEAL_C_CALL(all_to_all_v, all_to_all_v(team, buffers, received, sent), peal_team_t team,
            peal_buffers_t buffers, peal_blocks_t received, peal_blocks_t sent)
PEAL_C_CALL(all_reduce, reduction(Call::kAllReduce, team, buffers, op), peal_team_t team,
            peal_buffers_t buffers, peal_op_t op)
PEAL_C_CALL(reduce, reduction(Call::kReduce, team, buffers, op, root), peal_team_t team,
            peal_buffers_t buffers, peal_op_t op, int root)
PEAL_C_CALL(reduce_scatter, reduction(Call::kReduceScatter, team, buffers, op), peal_team_t team,
            peal_buffers_t buffers, peal_op_t op)
PEAL_C_CALL(scan, reduction(Call::kScan, team, buffers, op), peal_team_t team,
            peal_buffers_t buffers, peal_op_t op)
PEAL_C_CALL(exclusive_scan, reduction(Call::kExclusiveScan, team, buffers, op), peal_team_t team,
            peal_buffers_t buffers, peal_op_t op)

int peal_g(void* value, const void* src, size_t bytes, int pe) {
  return guarded(-1, [&] {
    require_place("peal_g", "value", value);
    const auto site = initialised("peal_g").host().site();
    const uint64_t bits = peal::detail::fetch(site, word_call(Call::kG, src, 0, bytes, pe));
    memcpy(value, &bits, bytes);
    return 0;
  });
}

#define PEAL_C_FETCHING(NAME, T)                                                          \
  int NAME(peal_atomic_t what, void* dst, T value, T expected, int pe, T* old) {          \
    return guarded(-1, [&] {                                                              \
      require_place(#NAME, "old", old);                                                   \
      Word call = atomic(what, dst, value, sizeof(T), pe);                                \
      call.expected = expected;                                                           \
      *old = static_cast<T>(peal::detail::fetch(initialised(#NAME).host().site(), call)); \
      return 0;                                                                           \
    });                                                                                   \
  }
PEAL_C_FETCHING(peal_atomic_fetching, uint64_t)
PEAL_C_FETCHING(peal_atomic_fetching32, uint32_t)

peal_stream_t peal_stream_create() {
  return guarded(static_cast<peal_stream_t>(nullptr), [] {
    if (initialised("peal_stream_create").target() == peal::Target::kGpu) {
      fail(ErrorCode::kUnsupported,
           "peal_stream_create: kernels run on a GPU here: use cudaStreamCreate");
    }
    return static_cast<peal_stream_t>(new peal::simt::WorkStream);
  });
}
int peal_stream_synchronize(peal_stream_t stream) {
  return guarded(-1, [&] {
    if (stream == nullptr) {
      fail(ErrorCode::kInvalidArgument,
           "peal_stream_synchronize: the stream is NULL: it takes what peal_stream_create() "
           "answered");
    }
    static_cast<peal::simt::WorkStream*>(stream)->synchronize();
    return 0;
  });
}
int peal_stream_destroy(peal_stream_t stream) {
  return guarded(-1, [&] {
    delete static_cast<peal::simt::WorkStream*>(stream);
    return 0;
  });
}

peal_stream_t peal_own_stream() {
  return guarded(static_cast<peal_stream_t>(nullptr),
                 [] { return initialised("peal_own_stream").host_nbi().site().stream; });
}

namespace {

const peal::CallTicket& required(const char* call, peal_ticket_t ticket) {
  initialised(call);
  if (ticket == nullptr) {
    fail(ErrorCode::kInvalidArgument,
         "{}: the ticket is NULL: it takes what peal_ticket_create() answered", call);
  }
  return ticket->ticket;
}

}  // namespace

peal_ticket_t peal_ticket_create(peal_stream_t stream) {
  return guarded(static_cast<peal_ticket_t>(nullptr), [&] {
    const auto site = initialised("peal_ticket_create").on(stream).site();
    return std::make_unique<peal_ticket>(peal_ticket{peal::CallTicket(site)}).release();
  });
}
int peal_ticket_test(peal_ticket_t ticket) {
  return guarded(-1, [&] { return required("peal_ticket_test", ticket).test() ? 1 : 0; });
}
int peal_ticket_wait(peal_ticket_t ticket) {
  return guarded(-1, [&] {
    required("peal_ticket_wait", ticket).wait();
    return 0;
  });
}
int peal_ticket_free(peal_ticket_t ticket) {
  return guarded(-1, [&] {
    const std::unique_ptr<peal_ticket> ending(ticket);
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
int peal_team_value(peal_team_t team, void* value, size_t bytes) {
  return guarded(-1, [&] {
    require_place("peal_team_value", "value", value);
    const peal::Team& given = required("peal_team_value", team);
    if (bytes != sizeof given) {
      fail(ErrorCode::kUnsupported,
           "peal_team_value: the kernel was compiled for teams of {} bytes, the library has {}: "
           "compile it with this library's headers",
           bytes, sizeof given);
    }
    memcpy(value, &given, sizeof given);
    return 0;
  });
}

int peal_register_local(void* address, size_t bytes) {
  return done("peal_register_local", [&](Runtime& pe) { pe.register_local(address, bytes); });
}
int peal_register_window(void* address, size_t bytes) {
  return done("peal_register_window", [&](Runtime& pe) { pe.register_window(address, bytes); });
}
int peal_unregister_local(const void* address) {
  return done("peal_unregister_local", [&](Runtime& pe) { pe.unregister_local(address); });
}
int peal_unregister_window(const void* address) {
  return done("peal_unregister_window", [&](Runtime& pe) { pe.unregister_window(address); });
}
int peal_register_local_cached(void* address, size_t bytes) {
  return done("peal_register_local_cached",
              [&](Runtime& pe) { pe.register_local(address, bytes, {.cached = true}); });
}
int peal_register_window_cached(void* address, size_t bytes) {
  return done("peal_register_window_cached",
              [&](Runtime& pe) { pe.register_window(address, bytes, {.cached = true}); });
}
