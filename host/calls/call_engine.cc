// SPDX-License-Identifier: Apache-2.0
#include "host/calls/call_engine.h"

#include <fmt/format.h>

#include <array>

#include "device/base/scaled.h"
#include "device/shared/call_names.h"
#include "device/shared/team_memory.h"
#include "host/base/error.h"

namespace peal {
namespace {

// Blocks of a kernel that copies: as many as keep a link between GPUs busy.
constexpr uint32_t kCopyBlocks = 32;
// Bytes that a thread has under way at once: a line of a long message, a unit of a short one.
constexpr uint32_t kLongEach = 16;
constexpr uint32_t kBriefEach = 8;
constexpr uint64_t kAnyBytes = uint64_t{1} << 32;  // more than any grid takes in one go
constexpr GridShape kOneThread{1, 1};
constexpr GridShape kOneWarp{1, 32};  // for calls that look at all queues

bool is_order(Call call) { return call == Call::kFence || call == Call::kQuiet; }

// What the members of a team must agree on, by name.
struct Agreed {
  const char* name;
  uint64_t value;
};

// Blocks of `count` elements that lie in a buffer.
struct BlockCounts {
  uint64_t dst;
  uint64_t src;
};
BlockCounts blocks_of(Call call, uint64_t members) {
  switch (call) {
    case Call::kAllGather:
      return {members, 1};
    case Call::kAllToAll:
      return {members, members};
    case Call::kReduceScatter:
      return {1, members};
    default:
      return {1, 1};
  }
}

// The bytes of the message to one member.
uint64_t bytes_of(const kernels::Collective& call) { return scaled(call.count, call.element); }

// A range's length, for messages.
std::string length(uint64_t bytes) {
  return bytes == kEndless ? "more bytes than there are addresses" : fmt::format("{} bytes", bytes);
}

// How large the part of `pe` is.
uint64_t bytes_at(const Windows::Range& range, int pe) {
  return range.sizes.empty() ? range.bytes : range.sizes[static_cast<size_t>(pe)];
}

}  // namespace

// The context's state and the words that its kernels report to.
void CallEngine::address(const detail::CallSite& site, kernels::Caller& caller) const {
  caller.state = site.state;
  caller.report = dependencies_.tables.report_place(site.slot);
}

void CallEngine::check_pe(const kernels::Caller& caller) const {
  if (caller.pe < 0 || caller.pe >= dependencies_.group.size()) {
    fail(ErrorCode::kInvalidArgument, "{}: there is no PE {}; PEs are 0 to {}",
         to_string(caller.call), caller.pe, dependencies_.group.size() - 1);
  }
  if (dependencies_.group.masked(caller.pe)) {
    fail(ErrorCode::kPeerLost, "{}: PE {} is masked", to_string(caller.call), caller.pe);
  }
}

// True for what is no symmetric memory, at this PE, where the program may name such (resolve.h).
bool CallEngine::own_memory(const void* at, int pe) const {
  if (!dependencies_.tables.own_memory() || pe != dependencies_.group.rank() || at == nullptr)
    return false;
  const Windows::Location begin = dependencies_.windows.find(at, 1);
  return !detail::names_window(at) && (begin.range == nullptr || !begin.range->symmetric);
}

// The place of a range at a PE; at this one for calls that look at the memory itself.
Windows::Location CallEngine::symmetric(Call call, const char* which, const Asked& asked) const {
  const Windows::Location place = dependencies_.windows.find(asked.at, asked.bytes);
  if (place.range == nullptr || !place.range->symmetric ||
      (asked.touched && detail::names_window(asked.at))) {
    const std::string seen = dependencies_.windows.mapped_heaps().describe(asked.at);
    fail(ErrorCode::kInvalidArgument, "{}: {} {}, {}: not symmetric memory of PE {}; it {}{}",
         to_string(call), which, fmt::ptr(asked.at), length(asked.bytes),
         dependencies_.group.rank(),
         !seen.empty() ? "is " + seen
                       : "must lie within one allocation of Runtime::malloc or one window of "
                         "Runtime::register_window",
         asked.touched ? ", by its own address" : "");
  }
  const uint64_t size = bytes_at(*place.range, asked.pe);
  if (asked.bytes > size || place.offset > size - asked.bytes) {
    fail(ErrorCode::kInvalidArgument,
         "{}: {}, {} from byte {} of a window: the part of PE {} has {} bytes", to_string(call),
         which, length(asked.bytes), place.offset, asked.pe, size);
  }
  return place;
}

// A copy reads or writes any memory of this process here, so only what is no address is refused.
void CallEngine::check_address(Call call, const char* which, const void* at, uint64_t bytes) const {
  if (at != nullptr && !detail::names_window(at)) return;
  fail(ErrorCode::kInvalidArgument, "{}: {} {}, {}: not an address of PE {}", to_string(call),
       which, at == nullptr ? "null" : "of a window by its handle", length(bytes),
       dependencies_.group.rank());
}

// A NIC reads or writes here, or, where it is short, a lane of the kernel does (anywhere.h).
void CallEngine::check_home(Call call, const char* which, const void* at, uint64_t bytes) const {
  const bool named = detail::names_window(at);
  if (!named && dependencies_.windows.find(at, bytes).range != nullptr) return;
  const bool by_lane = bytes <= kAnywhereBytes && dependencies_.executor->shares_host_memory();
  if (by_lane && !named && at != nullptr && dependencies_.windows.find(at, 1).range == nullptr)
    return;
  fail(ErrorCode::kInvalidArgument,
       "{}: {} {}, {}: the NIC does not know it; call Runtime::register_local first",
       to_string(call), which, fmt::ptr(at), length(bytes));
}

// Where a place is mapped here, or null.
std::byte* CallEngine::mapped(const Windows::Location& place, int pe) const {
  const Windows::Range& range = *place.range;
  if (pe == dependencies_.group.rank()) return range.begin + place.offset;
  std::byte* const begin = range.direct.empty() ? nullptr : range.direct[static_cast<size_t>(pe)];
  return begin == nullptr ? nullptr : begin + place.offset;
}

std::byte* CallEngine::mapped(const void* symmetric, int pe) const {
  const Windows::Location place = dependencies_.windows.find(symmetric, 1);
  if (place.range == nullptr || !place.range->symmetric || pe < 0 ||
      pe >= dependencies_.group.size()) {
    return nullptr;
  }
  return place.offset < bytes_at(*place.range, pe) ? mapped(place, pe) : nullptr;
}

// Where the remote end of a transfer is mapped here. Null: a NIC moves the bytes.
std::byte* CallEngine::there_of(const kernels::TransferArguments& call) const {
  const bool gets = call.caller.call == Call::kGet;
  std::byte* const at = gets ? const_cast<std::byte*>(call.src) : call.dst;
  const char* const which = gets ? "dst" : "src";
  const std::byte* const here = gets ? call.dst : call.src;
  if (call.bytes != kEndless && own_memory(at, call.caller.pe)) {
    check_address(call.caller.call, which, here, call.bytes);
    return at;
  }
  const Windows::Location place =
      symmetric(call.caller.call, gets ? "src" : "dst", {at, call.bytes, call.caller.pe});
  std::byte* const there = mapped(place, call.caller.pe);
  check_address(call.caller.call, which, here, call.bytes);
  if (there == nullptr) check_home(call.caller.call, which, here, call.bytes);
  return there;
}

// Moves the bytes of a transfer whose remote end is mapped at `there`. In a graph by a kernel,
// which looks for itself when it runs; its blocks share the bytes, and a signal follows when all
// are done.
void CallEngine::copy(const detail::CallSite& site, kernels::TransferArguments call,
                      std::byte* there) {
  Executor& executor = *dependencies_.executor;
  if (!executor.capturing(site.stream)) {
    const bool gets = call.caller.call == Call::kGet;
    return executor.copy(gets ? call.dst : there, gets ? there : call.src, call.bytes, site.stream);
  }
  if (call.caller.call == Call::kPutSignal) call.caller.call = Call::kPut;
  launch(kernels::transfer_kernel(), executor.shape_for(call.bytes, kLongEach, kCopyBlocks), call,
         site.stream);
}

void CallEngine::start(const detail::CallSite& site, kernels::TransferArguments call) {
  const bool signals = call.caller.call == Call::kPutSignal;
  address(site, call.caller);
  check_pe(call.caller);
  if (signals && !own_memory(call.signal.word, call.caller.pe)) {
    symmetric(Call::kPutSignal, "the signal", {call.signal.word, sizeof(uint64_t), call.caller.pe});
  }
  if (call.bytes != 0) {
    std::byte* const there = there_of(call);
    if (there == nullptr) {  // one kernel also signals: the queue has the signal behind the bytes
      return launch(kernels::transfer_kernel(),
                    dependencies_.executor->shape_for(call.bytes, kLongEach, 1), call, site.stream);
    }
    copy(site, call, there);
  }
  if (!signals) return;
  start(site, detail::signal_call(call.signal));
}

// True when the host itself has loaded or stored the word: of this PE, where a load is one, and
// with nothing in front of it in the engine's own stream. A stream of the program would have to be
// asked what its other streams and graphs make it wait for.
bool CallEngine::by_host(const detail::CallSite& site, const kernels::Word& call) {
  const bool loads = call.caller.call == Call::kG;
  const bool stores = call.caller.call == Call::kP ||
                      (call.caller.call == Call::kSignal && call.kind == Signal::Kind::kSet);
  const Backing* const words = dependencies_.own_words;
  if ((!loads && !stores) || words == nullptr || call.caller.pe != dependencies_.group.rank())
    return false;
  std::byte* const here = mapped(dependencies_.windows.find(call.word, call.bytes), call.caller.pe);
  if (reinterpret_cast<uintptr_t>(here) % call.bytes != 0) return false;  // a kernel says so
  if (!words->reaches(here, call.bytes)) return false;
  if (site.stream != dependencies_.executor->own_stream() ||
      !dependencies_.executor->idle(site.stream)) {
    return false;
  }
  const auto with = [&](auto word) {
    auto* const at = reinterpret_cast<decltype(word)*>(here);
    if (stores) return words->store_word(at, static_cast<decltype(word)>(call.value));
    *static_cast<uint64_t*>(call.result) = words->load_word(at);
  };
  if (call.bytes == 8) {
    with(uint64_t{});
  } else if (call.bytes == 4) {
    with(uint32_t{});
  } else if (stores) {
    words->copy_in(here, &call.value, call.bytes);
  } else {
    words->copy_out(call.result, here, call.bytes);
  }
  return true;
}

// True when the stream's own order does what is asked, or a store of it did.
bool CallEngine::needs_no_kernel(const detail::CallSite& site, const kernels::Word& call) {
  const Call which = call.caller.call;
  if (is_order(which)) return !site.by_nic;
  if (which != Call::kSignal || call.kind != Signal::Kind::kSet) return false;
  std::byte* const there =
      mapped(dependencies_.windows.find(call.word, sizeof(uint64_t)), call.caller.pe);
  if (there == nullptr || dependencies_.executor->capturing(site.stream)) return false;
  if (reinterpret_cast<uintptr_t>(there) % sizeof(uint64_t) != 0) return false;  // a kernel says so
  return dependencies_.executor->store_word(reinterpret_cast<uint64_t*>(there), call.value,
                                            site.stream);
}

void CallEngine::start(const detail::CallSite& site, kernels::Word call) {
  const Call which = call.caller.call;
  address(site, call.caller);
  if (which == Call::kSignal) call.bytes = sizeof(uint64_t);
  if (call.word != nullptr || call.bytes != 0) {
    if (which != Call::kWaitUntil) check_pe(call.caller);
    const bool moves = which == Call::kP || which == Call::kG;
    const bool fits =
        call.bytes == 8 || call.bytes == 4 || (moves && (call.bytes == 1 || call.bytes == 2));
    if (!fits) {
      fail(ErrorCode::kInvalidArgument, "{}: a word of {} bytes: {}", to_string(which), call.bytes,
           moves ? "1, 2, 4 and 8 are possible" : "4 and 8 are possible");
    }
    if (reinterpret_cast<uintptr_t>(call.word) % call.bytes != 0) {
      fail(ErrorCode::kInvalidArgument, "{}: address {} is no multiple of {}", to_string(which),
           fmt::ptr(call.word), call.bytes);
    }
    const bool here = which == Call::kWaitUntil;
    const int pe = here ? dependencies_.group.rank() : call.caller.pe;
    if (!here && own_memory(call.word, pe)) {
      return launch(kernels::word_kernel(), kOneThread, call, site.stream);
    }
    symmetric(which, "the word", {call.word, call.bytes, pe, here});
  }
  if (by_host(site, call) || needs_no_kernel(site, call)) return;
  launch(kernels::word_kernel(), is_order(which) || is_of_all(which) ? kOneWarp : kOneThread, call,
         site.stream);
}

// Asks words of the host's first, as status() does: a look at the GPU's takes longer than the call.
void CallEngine::check() const {
  if (dependencies_.own_words == nullptr || dependencies_.failures.status() != Status::kOk) {
    dependencies_.failures.check();
  }
}

uint64_t CallEngine::fetch(const detail::CallSite& site, kernels::Word call) {
  const std::lock_guard lock(answer_mutex_);
  auto* const answer = reinterpret_cast<uint64_t*>(dependencies_.answers.address());
  *answer = 0;
  call.result = answer;
  start(site, call);
  CallTicket(site).wait();
  return *answer;
}

void CallEngine::check_buffers(const Team& team, const kernels::Collective& call) const {
  const Call which = call.caller.call;
  if (has_root(which) && (call.caller.pe < 0 || call.caller.pe >= team.size)) {
    fail(ErrorCode::kInvalidArgument,
         "{} of team {:#x} at PE {}: there is no root {}; members are 0 to {}", to_string(which),
         team.id, dependencies_.group.rank(), call.caller.pe, team.size - 1);
  }
  if (reduces(which) && !kernels::applies(call.operation, call.type)) {
    fail(ErrorCode::kInvalidArgument, "{} of team {:#x} at PE {}: {} is not an operation of {}",
         to_string(which), team.id, dependencies_.group.rank(), to_string(call.operation),
         to_string(call.type));
  }
  if (call.count == 0) return;
  const int here = dependencies_.group.rank();
  if (which == Call::kAllToAllV) {  // what of dst and src the lists name its kernel finds out
    const uint64_t list = static_cast<uint64_t>(team.size) * sizeof(int64_t);
    symmetric(which, "the counts that are received", {call.received_counts, list, here, true});
    symmetric(which, "the displacements that are received", {call.received_at, list, here, true});
    return;
  }
  const uint64_t block = bytes_of(call);
  const BlockCounts blocks = blocks_of(which, static_cast<uint64_t>(team.size));
  symmetric(which, "dst", {call.dst, scaled(block, blocks.dst), here, true});
  symmetric(which, "src", {call.src, scaled(block, blocks.src), here, true});
}

// Throws at all members, before anything moves, where two of them call with other arguments.
void CallEngine::compare(const Team& team, const kernels::Collective& call) {
  const auto offset = [&](const std::byte* at) {
    return call.count == 0 ? 0 : dependencies_.windows.find(at, 1).offset;
  };
  // In place a part of the larger buffer is the other one, at each member another.
  const Call which = call.caller.call;
  const std::array<Agreed, 7> mine{{
      {"call", static_cast<uint64_t>(which)},
      {"count", call.count},
      {"bytes of an element", call.element},
      {"type", reduces(which) ? static_cast<uint64_t>(call.type) : 0},
      {"operation", reduces(which) ? static_cast<uint64_t>(call.operation) : 0},
      {"root", static_cast<uint64_t>(call.caller.pe + 1)},
      {which == Call::kReduceScatter ? "offset of src" : "offset of dst",
       offset(which == Call::kReduceScatter ? call.src : call.dst)},
  }};
  std::array<uint64_t, mine.size()> values{};
  for (size_t i = 0; i < mine.size(); ++i) values[i] = mine[i].value;
  const auto all = dependencies_.teams.gather_from(team, values);
  for (size_t i = 0; i < mine.size(); ++i) {
    for (size_t member = 1; member < all.size(); ++member) {
      if (all[member][i] == all[0][i]) continue;
      const std::vector<int> pes = dependencies_.teams.members(team);
      fail(ErrorCode::kInvalidArgument,
           "{} of team {:#x}: PE {} has {} {}, PE {} has {}: all members must call with the same "
           "arguments; nothing was moved",
           to_string(which), team.id, pes[0], mine[i].name, all[0][i], pes[member], all[member][i]);
    }
  }
}

// `bytes`: of the message to one member.
GridShape CallEngine::shape_for(const Team& team, Call which, uint64_t bytes) const {
  const auto members = static_cast<uint32_t>(team.size);
  const Executor& executor = *dependencies_.executor;
  const uint32_t most = all_mapped(team) ? team.channels : 1;
  // How long its messages are stands in lists that only its kernel reads.
  if (which == Call::kAllToAllV) return executor.shape_for(kAnyBytes, kLongEach, most);
  const auto forced = collective::ForcedAlgorithm::of(team.apart).of_call(which);
  const bool brief = forced == collective::Algorithm::kAny
                         ? bytes <= collective::brief_bytes(team.grid_workspace, members)
                         : forced == collective::Algorithm::kExchange;
  if (all_mapped(team) && brief) return executor.shape_for(bytes, kBriefEach, team.channels);
  const BlockCounts blocks = blocks_of(which, members);
  return executor.shape_for(scaled(bytes, std::max(blocks.dst, blocks.src)), kLongEach, most);
}

void CallEngine::start(const detail::CallSite& site, const Team& team, kernels::Collective call) {
  const Call which = call.caller.call;
  address(site, call.caller);
  call.team = dependencies_.teams.published(to_string(which), team);
  call.team_id = team.id;
  call.under_way = dependencies_.teams.under_way(team, site.slot);
  call.launch = kernels::UnderWay::of(launches_.fetch_add(1, std::memory_order_relaxed), which);
  if (site.slot >= team.contexts) {
    fail(ErrorCode::kInvalidArgument,
         "{} of team {:#x}: it was made for {} contexts, and this is number {} "
         "(TeamOptions::contexts)",
         to_string(which), team.id, team.contexts, site.slot);
  }
  check_buffers(team, call);
  if (site.compares) compare(team, call);
  const uint64_t bytes = bytes_of(call);
  if (which == Call::kSync || which == Call::kBarrier) {
    return launch(kernels::collective_kernel(which),
                  dependencies_.executor->shape_for(0, kLongEach, 1), call, site.stream);
  }
  if (bytes == 0) return;
  const GridShape shape = shape_for(team, which, bytes);
  if (!reduces(which)) return launch(kernels::collective_kernel(which), shape, call, site.stream);
  call.type = kernels::kernel_type(call.type, call.operation);
  const kernels::Kernel& kernel = all_mapped(team)
                                      ? *kernels::reduce_kernel(which, call.type, call.operation)
                                      : kernels::reduce_by_nic_kernel();
  launch(kernel, shape, call, site.stream);
}

namespace detail {

void start(const CallSite& site, kernels::TransferArguments call) {
  site.engine->start(site, call);
}
void start(const CallSite& site, kernels::Word call) { site.engine->start(site, call); }
void start(const CallSite& site, const Team& team, kernels::Collective call) {
  site.engine->start(site, team, call);
}
void start(const CallSite& site, FileCall call) { site.engine->start(site, call); }
uint64_t fetch(const CallSite& site, kernels::Word call) { return site.engine->fetch(site, call); }

}  // namespace detail

CallTicket::CallTicket(const detail::CallSite& site)
    : site_(site), mark_(site.engine->mark(site)) {}

void CallTicket::wait() const {
  mark_->wait();
  site_.engine->check();
}

bool CallTicket::test() const { return mark_->reached(); }

}  // namespace peal
