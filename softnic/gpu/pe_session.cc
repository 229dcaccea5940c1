// SPDX-License-Identifier: Apache-2.0
//
// One PE's calls: addresses of the PE become addresses here, then Control decides.
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "softnic/gpu/kernel.h"
#include "softnic/gpu/server.h"

namespace peal::softnic::gpu {

std::byte* Region::find(const void* address, uint64_t bytes) const {
  const ProcessMemory& last = extents_.back();
  const uint64_t base = extents_.front().base;
  const uint64_t size = last.base + last.bytes - base;
  const uint64_t offset = reinterpret_cast<uint64_t>(address) - base;
  if (offset > size || bytes > size - offset) return nullptr;
  return memory_ + offset;
}

bool Region::is_of(std::span<const ProcessMemory> extents) const {
  return std::ranges::equal(extents_, extents, [](const ProcessMemory& a, const ProcessMemory& b) {
    return a.id == b.id && a.base == b.base && a.bytes == b.bytes;
  });
}

PeSession::PeSession(MessageSocket calls, MessageSocket events,
                     std::shared_ptr<EngineRunner> runner, const ProcessHello& hello)
    : calls_(std::move(calls)),
      events_(std::move(events)),
      runner_(std::move(runner)),
      tables_(hello.lid, hello.epoch, hello.timing),
      control_(tables_, stopped_) {
  tables_.port.any_placement = hello.any_placement;
}

bool PeSession::needs_service() const {
  for (uint32_t qpn = Tables::kFirstQpn; qpn < tables_.port.qp_count; ++qpn) {
    if (gpu::needs_service(tables_.port.qps[qpn])) return true;
  }
  return false;
}

void PeSession::report_events() {
  control_.collect();
  send_events();
  const pid_t pe = calls_.peer_pid();
  // 0 where the PE has gone: to kill that would be to kill this process.
  if (has_plan() && tables_.port.faults->killed && pe > 0) kill(pe, SIGKILL);
}

// A PE that never reads its events must not hold up the NICs of the others. What its socket has no
// room for stays in Control's queue, which has no bound, as the kernel's behind
// ibv_get_async_event() has none.
void PeSession::send_events() {
  AsyncEvent event;
  while ((events_.writable() || !events_.open()) && control_.next_event(&event)) {
    events_.send(event);
  }
}

void PeSession::fail() {
  for (uint32_t qpn = Tables::kFirstQpn; qpn < tables_.port.qp_count; ++qpn) {
    QueuePair& qp = tables_.qps[qpn];
    if (!qp.exists || qp.state == QpState::kReset) continue;
    qp.state = QpState::kError;
    tables_.port.events.raise(AsyncEvent::Kind::kQpFatal, qpn);
    control_.collect();  // one by one, for the log is short
  }
  send_events();
}

// Only whole ranges are mapped: what came of one that is cut off goes with the next command.
void PeSession::take(const ProcessMemory& extent, Fd descriptor) {
  const std::vector<ProcessMemory>& before = arriving_.extents;
  const bool follows = before.empty() || (before.back().more == extent.more + 1 &&
                                          before.back().base + before.back().bytes == extent.base);
  arriving_.extents.push_back(extent);
  arriving_.descriptors.push_back(std::move(descriptor));
  if (follows && extent.more != 0) return;
  Arriving whole = std::exchange(arriving_, {});
  if (!follows)
    throw EngineRunnerError("a range of memory came in pieces that do not follow one another");
  map(std::move(whole));
}

void PeSession::map(Arriving whole) {
  std::erase_if(known_, [](const auto& region) { return region.expired(); });
  for (const auto& known : known_) {
    if (const auto region = known.lock(); region->is_of(whole.extents)) {
      offered_.push_back(region);
      return;
    }
  }
  offered_.push_back(
      std::make_shared<Region>(runner_, std::move(whole.extents), std::move(whole.descriptors)));
  known_.push_back(offered_.back());
}

/// Where the PE's memory lies here; false when it was not offered. What is too large for Control is
/// visited with 0 bytes, and refused by it.
template <class T>
bool PeSession::translate(T*& address, uint64_t bytes) {
  if (address == nullptr || bytes == 0) return true;
  for (const auto& region : offered_) {
    if (std::byte* here = region->find(address, bytes)) {
      address = reinterpret_cast<T*>(here);
      return true;
    }
  }
  return false;
}

namespace {

template <class C>
constexpr size_t place_of = Command(C{}).index();

}  // namespace

template <class C>
Outcome PeSession::execute(C command) {
  // Memory of the host this process does not have: an SRQ is always empty; stores to a UAR page
  // only wake, and a kernel does not sleep, so the page stays where it is.
  static std::byte nowhere;
  if constexpr (std::is_same_v<C, CreateSrq>) {
    command.buffer = nullptr;
    command.doorbell = nullptr;
  }
  if constexpr (std::is_same_v<C, AttachUar>) {
    if (command.page != nullptr) command.page = &nowhere;
  }
  if constexpr (NamesMemory<C>) {
    bool known = true;
    command.spans(
        [&](auto*& address, uint64_t bytes) { known = known && translate(address, bytes); });
    if (!known) {
      return Refusal{CommandStatus::kBadParameter, "memory that the GPU engine was not shown"};
    }
  }
  if constexpr (std::is_same_v<C, FaultRules>) {
    const auto kills = [](const FaultRule& rule) { return rule.kind == FaultKind::kKill; };
    if (std::ranges::any_of(command.rule, kills) && calls_.peer_pid() <= 0) {
      return Refusal{CommandStatus::kBadOperation,
                     "fault=kill: the GPU engine does not see this PE's process: run both in one "
                     "pid namespace, or set PEAL_SOFTNIC_ENGINE=cpu"};
    }
  }
  const Outcome outcome = control_.run(command);
  if (outcome.refusal.refused()) return outcome;
  if constexpr (NamesMemory<C>) held_[{place_of<C>, outcome.number}] = std::move(offered_);
  if constexpr (Destroys<C>) held_.erase({place_of<typename C::Undoes>, command.number});
  return outcome;
}

Reply PeSession::answer(const Demand& call, Fd descriptor) {
  Reply reply;
  try {
    if (const auto* extent = std::get_if<ProcessMemory>(&call.what)) {
      take(*extent, std::move(descriptor));
      return reply;
    }
    arriving_ = {};
    const auto* command = std::get_if<Command>(&call.what);
    const bool known = command != nullptr && command->index() < std::variant_size_v<Command>;
    reply.outcome =
        known ? std::visit([this](const auto& each) { return execute(each); }, *command)
              : Outcome(Refusal{CommandStatus::kBadOperation, "the GPU engine knows no such call"});
    reply.status = reply.outcome.refusal.status;
    std::snprintf(reply.reason, sizeof(reply.reason), "%s", reply.outcome.refusal.reason);
    reply.outcome.refusal = {};
  } catch (const std::exception& error) {
    reply.status = CommandStatus::kInternalError;
    std::snprintf(reply.reason, sizeof(reply.reason), "%s", error.what());
    return reply;
  }
  offered_.clear();
  return reply;
}

}  // namespace peal::softnic::gpu
