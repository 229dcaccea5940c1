// SPDX-License-Identifier: Apache-2.0
//
// Calls over the socket, one at a time; see client.h.
#include "softnic/gpu/client.h"

#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <thread>

namespace peal::softnic::gpu {

namespace {

constexpr std::chrono::seconds kAnswerPatience{60};  // a driver that starts takes its time
constexpr std::chrono::seconds kJoinPatience{60};
constexpr std::chrono::seconds kSpawnEvery{10};
constexpr const char* kGone = "the process of the GPU engine has gone";

/// Runs the program, which detaches itself at once. Throws when it cannot be run.
void spawn(const Client::Place& place) {
  std::string program = place.program;
  std::string directory = place.directory;
  char* arguments[] = {program.data(), directory.data(), nullptr};
  pid_t child = 0;
  const int error = posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments, environ);
  int status = 0;
  if (error == 0) {
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
  }
  if (error == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  throw std::runtime_error(
      "the GPU engine's program " + program +
      " cannot be run: " + (error != 0 ? std::strerror(error) : "it ended at once") +
      ". It is built where nvcc is and belongs beside libpeal_softnic.so "
      "(PEAL_SOFTNIC_ENGINE_PROGRAM names another place; PEAL_SOFTNIC_ENGINE=cpu does without)");
}

}  // namespace

Client::Client(const Place& place, const Hello& hello, const Exporter& exporter)
    : exporter_(exporter) {
  const auto start = std::chrono::steady_clock::now();
  auto next_spawn = start;
  while (!join(place, hello)) {
    const auto now = std::chrono::steady_clock::now();
    if (now > start + kJoinPatience) {
      throw std::runtime_error("the GPU engine of " + place.directory + " does not answer");
    }
    if (now >= next_spawn) {
      spawn(place);
      next_spawn = now + kSpawnEvery;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

/// False when no engine listens, or the one that did is leaving.
bool Client::join(const Place& place, const Hello& hello) {
  calls_ = connect_to(place.directory + "/engine");
  if (!calls_.open()) return false;
  auto [mine, theirs] = channel_pair();
  Call call;
  call.kind = CallKind::kHello;
  call.hello = hello;
  Reply reply;
  if (!exchange(call, &reply, theirs.fd())) return false;
  if (reply.status != CommandStatus::kOk) throw std::runtime_error(reply.reason);
  events_ = std::move(mine);
  gpu_ = reply.gpu;
  return true;
}

bool Client::exchange(const Call& call, Reply* reply, int descriptor) {
  return calls_.send(call, descriptor) && calls_.receive(reply, kAnswerPatience);
}

pid_t Client::engine_pid() const {
  ucred peer = {};
  socklen_t bytes = sizeof(peer);
  if (getsockopt(calls_.fd(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) return 0;
  return peer.pid;
}

Refusal Client::refusal_of(const Reply& reply) {
  if (reply.status == CommandStatus::kOk) return {};
  return {reply.status, reasons_.insert(reply.reason).first->c_str()};
}

/// Memory that the engine cannot have: errno has no room for why.
Refusal Client::unreachable(CommandStatus status, const char* reason) {
  std::fprintf(stderr, "softnic: %s\n", reason);
  return {status, reasons_.insert(reason).first->c_str()};
}

/// Tells the engine where the memory of the next call lies.
Refusal Client::show(Spans spans) {
  for (const Span& span : spans) {
    if (span.address == nullptr || span.bytes == 0) continue;
    Call call;
    call.kind = CallKind::kMap;
    Fd descriptor;
    try {
      call.extent = exporter_.export_range(span.address, span.bytes, &descriptor);
    } catch (const ExportError& error) {
      return unreachable(CommandStatus::kBadParameter, error.what());
    }
    Reply reply;
    if (!exchange(call, &reply, descriptor.get())) return {CommandStatus::kInternalError, kGone};
    if (reply.status != CommandStatus::kOk) return unreachable(reply.status, reply.reason);
  }
  return {};
}

Refusal Client::ask(const Call& call, Spans spans, Reply* reply) {
  const std::lock_guard lock(mutex_);
  const Refusal hidden = show(spans);
  if (hidden.refused()) return hidden;
  if (!exchange(call, reply)) return {CommandStatus::kInternalError, kGone};
  return refusal_of(*reply);
}

Created Client::create(const Call& call, Spans spans) {
  Reply reply;
  const Refusal refusal = ask(call, spans, &reply);
  return {reply.number, refusal};
}

Refusal Client::destroy(CallKind kind, uint32_t number) {
  Call call;
  call.kind = kind;
  call.number = number;
  Reply reply;
  const Refusal refusal = ask(call, {}, &reply);
  return refusal.reason == kGone ? Refusal{} : refusal;
}

Created Client::allocate_pd() {
  Call call;
  call.kind = CallKind::kAllocatePd;
  return create(call);
}
Refusal Client::free_pd(uint32_t pd) { return destroy(CallKind::kFreePd, pd); }

Created Client::register_memory(const MemoryKeyConfig& config) {
  Call call;
  call.kind = CallKind::kRegister;
  call.key = config;
  return create(call, {{config.memory, config.bytes}});
}
Refusal Client::deregister_memory(uint32_t key) { return destroy(CallKind::kDeregister, key); }

Created Client::create_cq(const CompletionQueueConfig& config) {
  Call call;
  call.kind = CallKind::kCreateCq;
  call.cq = config;
  if (config.log_entries > 22) return {0, {CommandStatus::kBadSize, "CQ beyond 2^22 entries"}};
  return create(call, {{config.buffer, uint64_t{config.cqe_bytes} << config.log_entries},
                       {config.doorbell, 8}});
}
Refusal Client::destroy_cq(uint32_t cqn) { return destroy(CallKind::kDestroyCq, cqn); }

uint64_t Client::cq_produced(uint32_t cqn) {
  Call call;
  call.kind = CallKind::kCqProduced;
  call.number = cqn;
  Reply reply;
  return ask(call, {}, &reply).refused() ? 0 : reply.produced;
}

/// Its memory is the host's, which that engine does not reach: there the queue is always empty.
Created Client::create_srq(const SharedReceiveConfig& config) {
  Call call;
  call.kind = CallKind::kCreateSrq;
  call.srq = config;
  call.srq.buffer = nullptr;
  call.srq.doorbell = nullptr;
  return create(call);
}
Refusal Client::destroy_srq(uint32_t srqn) { return destroy(CallKind::kDestroySrq, srqn); }

Created Client::create_qp(const QueuePairConfig& config) {
  Call call;
  call.kind = CallKind::kCreateQp;
  call.qp = config;
  if (config.log_send_blocks > 15 || config.log_receive_entries > 15 ||
      config.log_receive_stride > 7) {
    return {0, {CommandStatus::kBadParameter, "a queue of more than 2^15 entries"}};
  }
  const Created created = create(
      call,
      {{config.send_buffer, 64ull << config.log_send_blocks},
       {config.receive_buffer, 16ull << (config.log_receive_stride + config.log_receive_entries)},
       {config.doorbell, sizeof(mlx5::DoorbellRecord)}});
  const std::lock_guard lock(mutex_);
  if (!created.refusal.refused()) known_qps_[created.number] = {};
  return created;
}

Refusal Client::modify_qp(uint32_t qpn, QpState from, const QueuePairAttributes& to) {
  Call call;
  call.kind = CallKind::kModifyQp;
  call.number = qpn;
  call.from = from;
  call.attributes = to;
  Reply reply;
  const Refusal refusal = ask(call, {}, &reply);
  const std::lock_guard lock(mutex_);
  if (!refusal.refused() && known_qps_.contains(qpn)) known_qps_[qpn] = to;
  return refusal;
}

Refusal Client::query_qp(uint32_t qpn, QueuePairAttributes* answer) {
  Call call;
  call.kind = CallKind::kQueryQp;
  call.number = qpn;
  Reply reply;
  const Refusal refusal = ask(call, {}, &reply);
  *answer = reply.attributes;
  const std::lock_guard lock(mutex_);
  if (refusal.reason != kGone || !known_qps_.contains(qpn)) return refusal;
  *answer = known_qps_[qpn];
  answer->state = QpState::kError;
  return {};
}

Refusal Client::destroy_qp(uint32_t qpn) {
  const Refusal refusal = destroy(CallKind::kDestroyQp, qpn);
  const std::lock_guard lock(mutex_);
  if (!refusal.refused()) known_qps_.erase(qpn);
  return refusal;
}

Created Client::create_dc_target(const DcTargetConfig& config) {
  Call call;
  call.kind = CallKind::kCreateDct;
  call.target = config;
  return create(call);
}
Refusal Client::destroy_dc_target(uint32_t dctn) { return destroy(CallKind::kDestroyDct, dctn); }

Created Client::attach_uar(std::byte* page) {
  if (page == nullptr) return {0, {CommandStatus::kBadParameter, "UAR page without memory"}};
  Call call;
  call.kind = CallKind::kAttachUar;
  return create(call);
}
Refusal Client::detach_uar(uint32_t page_id) { return destroy(CallKind::kDetachUar, page_id); }

bool Client::next_event(AsyncEvent* event) {
  const std::lock_guard lock(mutex_);
  if (!events_.open()) return false;
  // Nothing to read is the usual case and must not close the channel.
  char first;
  const ssize_t waiting = recv(events_.fd(), &first, sizeof(first), MSG_PEEK | MSG_DONTWAIT);
  if (waiting < 0) return false;
  return events_.receive(event, Channel::Milliseconds(0));
}

Refusal Client::set_faults(const FaultPlan&) {
  return {CommandStatus::kBadOperation,
          "faults on demand need the CPU engine (PEAL_SOFTNIC_ENGINE=cpu); this NIC runs on a GPU"};
}

Violations Client::violations() {
  Call call;
  call.kind = CallKind::kViolations;
  Reply reply;
  return ask(call, {}, &reply).refused() ? Violations{} : reply.violations;
}

}  // namespace peal::softnic::gpu
