// SPDX-License-Identifier: Apache-2.0
//
// Ending waits from outside: because a PE was lost, or because some PE called abort(), which it
// tells all others over the channel. Nothing is killed; a kernel ends because its waits do.
//
// An abort names the newest context there was and the recoveries there had been: one that arrives
// late does not end what began after it.
#include <time.h>

#include <algorithm>
#include <string>
#include <utility>

#include "host/base/error.h"
#include "host/runtime_state.h"

namespace peal {
namespace {

constexpr uint64_t kAllContexts = kMaxContexts;
constexpr size_t kMaxReason = 1000;

Failure aborted(int pe, std::string_view reason) {
  Failure why;
  why.status = Status::kAborted;
  why.pe = pe;
  why.time_ns = host_ns();
  why.text = fmt::format("PE {} aborted: {}", pe, reason);
  return why;
}

}  // namespace

uint64_t host_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

void Runtime::State::stop(const Failure& why, uint32_t slot, uint64_t serial) {
  const std::lock_guard lock(contexts_mutex);
  for (uint32_t i = 0; i < kMaxContexts; ++i) {
    const auto context = contexts[i].lock();
    if (context == nullptr || context->serial() > serial) continue;
    if (slot == kAllContexts || (slot == i && context->serial() == serial)) context->stop(why);
  }
}

void Runtime::State::peer_lost(int pe, int pid) {
  if (!bootstrap->lost(pe) || closing) return;  // at the end, leaving is no failure
  uint64_t never = 0;
  if (!lost_ns.compare_exchange_strong(never, host_ns())) return;  // the first one tells
  log.error("runtime", "PE {} (process {}) has ended before the job did; all waits end with \"{}\"",
            pe, pid, to_string(Status::kPeerLost));
  stop_for_loss();
  tell_callback();
}

void Runtime::State::stop_for_loss() {
  const std::lock_guard lock(contexts_mutex);
  for (uint32_t slot = 0; slot < kMaxContexts; ++slot) {
    compare_exchange<Reach::kSystem>(&words[slot].stop, 0u,
                                     static_cast<uint32_t>(Status::kPeerLost));
  }
}

void Runtime::State::abort(const ContextFields* context, std::string_view reason) {
  uint32_t slot = kAllContexts;
  uint64_t serial = 0;
  {
    const std::lock_guard lock(contexts_mutex);
    for (uint32_t i = 0; i < kMaxContexts; ++i) {
      const auto one = contexts[i].lock();
      if (one == nullptr) continue;
      if (context == nullptr) {
        serial = std::max(serial, one->serial());
      } else if (one->fields().state == context->state) {
        slot = i;
        serial = one->serial();
      }
    }
  }
  if (context != nullptr && slot == kAllContexts) {
    fail(ErrorCode::kInvalidArgument, "abort: the context is none of this runtime, or was dropped");
  }
  reason = reason.substr(0, kMaxReason);
  stop(aborted(bootstrap->rank(), reason), slot, serial);
  for (const int pe : bootstrap->live_pes()) {
    if (pe == bootstrap->rank()) continue;
    const auto sent = bootstrap->channel().send(
        pe, Message::Kind::kAbort, {generation, slot, serial, 0}, std::as_bytes(std::span(reason)));
    if (sent != Channel::Sent::kDone) {
      log.warn("runtime", "abort: PE {} could not be told; its waits end at their deadline", pe);
    }
  }
}

void Runtime::State::take_messages() {
  bool stopped = false;
  while (auto message = bootstrap->channel().receive()) {
    if (message->kind == Message::Kind::kExchange) {
      bootstrap->deliver(std::move(*message));
      continue;
    }
    if (message->kind == Message::Kind::kLink) {
      if (linker) linker->deliver(std::move(*message));
      continue;
    }
    const auto [recoveries, slot, serial, unused] = message->word;
    if (message->kind != Message::Kind::kAbort || recoveries < generation || closing) continue;
    const std::string_view reason(reinterpret_cast<const char*>(message->payload.data()),
                                  std::min(message->payload.size(), kMaxReason));
    stop(aborted(message->from, reason), static_cast<uint32_t>(slot), serial);
    stopped = true;
  }
  if (stopped) tell_callback();
}

void Runtime::abort(std::string_view reason) { state_->abort(nullptr, reason); }

void Runtime::abort(const ContextFields& context, std::string_view reason) {
  state_->abort(&context, reason);
}

}  // namespace peal
