// SPDX-License-Identifier: Apache-2.0
//
// The loop of the engine's process: see server.h.
#include "softnic/gpu/server.h"

#include <poll.h>

#include <algorithm>
#include <cstdio>

namespace peal::softnic::gpu {

namespace {

constexpr int kSettleMs = 1;  // without calls, until the engine runner starts again
constexpr std::chrono::milliseconds kHearing{100};

std::string other_version(uint64_t theirs) {
  const auto number = [](uint64_t version) { return std::to_string(version & 0xffff'ffff); };
  return "the library speaks version " + number(theirs) +
         " and the program of the GPU engine, which runs, version " + number(Demand::kVersion) +
         ": build both from the same sources";
}

}  // namespace

Server::Server(const std::string& path, MakeRunner make_engine_runner)
    : make_engine_runner_(std::move(make_engine_runner)), listener_(listen_at(path)) {}

void Server::run(std::chrono::milliseconds patience) {
  const auto give_up = std::chrono::steady_clock::now() + patience;
  bool served = false;
  for (;;) {
    served = served || !sessions_.empty();
    if (sessions_.empty() && strangers_.empty() &&
        (served || std::chrono::steady_clock::now() > give_up)) {
      return;
    }
    if (serve_ready(settled_ ? EngineRunner::kBeatMs : kSettleMs)) continue;
    try {
      if (!settled_) start();
      if (runner_ == nullptr || !runner_->running() || !runner_->beat()) continue;
    } catch (const EngineRunnerError& error) {
      fail(error.what());
    }
    stop();
    for (const auto& session : sessions_) session->report_events();
  }
}

/// Waits for calls and answers one of each PE that has any. False when there was none.
bool Server::serve_ready(int timeout_ms) {
  std::vector<pollfd> fds = {{listener_.get(), POLLIN, 0}};
  for (const MessageSocket& stranger : strangers_) fds.push_back({stranger.fd(), POLLIN, 0});
  for (const auto& session : sessions_) fds.push_back({session->calls().fd(), POLLIN, 0});
  const size_t callers = fds.size();
  for (const auto& session : sessions_) fds.push_back({session->waits_for_room(), POLLOUT, 0});
  if (poll(fds.data(), fds.size(), timeout_ms) <= 0) return false;
  bool called = false;
  for (size_t i = 0; i < callers; ++i) called = called || fds[i].revents != 0;
  for (size_t i = 0; i < sessions_.size(); ++i) {
    if (fds[callers + i].revents != 0) sessions_[i]->send_events();
    if (fds[1 + strangers_.size() + i].revents != 0) listen_to(*sessions_[i]);
  }
  hear_strangers(fds);
  MessageSocket stranger = fds[0].revents != 0 ? accept_from(listener_) : MessageSocket();
  if (stranger.open()) strangers_.push_back(std::move(stranger));
  // A PE that has gone, or reads no answers. The engine runner was stopped to answer it.
  std::erase_if(sessions_, [](const auto& session) { return !session->calls().open(); });
  return called;
}

/// Those whose first call has come (`fds[1 + i]` for the i-th) become sessions, or are told why
/// not.
void Server::hear_strangers(const std::vector<pollfd>& fds) {
  for (size_t i = strangers_.size(); i-- > 0;) {
    if (fds[1 + i].revents == 0) continue;
    Demand call;
    Fd events;
    if (strangers_[i].receive(&call, kHearing, &events)) {
      const Reply reply = introduce(i, call, std::move(events));
      MessageSocket& channel =
          reply.status == CommandStatus::kOk ? sessions_.back()->calls() : strangers_[i];
      channel.send(reply);
    }
    strangers_.erase(strangers_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

Reply Server::introduce(size_t index, const Demand& call, Fd events) {
  Reply reply;
  const auto refuse = [&reply](const char* reason) {
    reply.status = CommandStatus::kBadSystemState;
    std::snprintf(reply.reason, sizeof(reply.reason), "%s", reason);
    return reply;
  };
  if (call.version != Demand::kVersion) return refuse(other_version(call.version).c_str());
  if (call.what.index() != 0) return refuse("the first call of a NIC is Hello");
  const ProcessHello& hello = std::get<ProcessHello>(call.what);
  if (!failure_.empty()) return refuse(failure_.c_str());
  for (const auto& session : sessions_) {
    if (session->port().lid == hello.lid) return refuse("this LID is taken");
  }
  try {
    if (runner_ == nullptr) {
      runner_ = make_engine_runner_(hello.gpu);
      gpu_ = hello.gpu;
    }
    if (hello.insists && hello.gpu != gpu_) {
      return refuse(
          "the engine of this fabric runs on another GPU: give all PEs the same "
          "PEAL_SOFTNIC_GPU");
    }
    stop();
    sessions_.push_back(std::make_unique<PeSession>(
        std::move(strangers_[index]), MessageSocket(std::move(events)), runner_, hello));
  } catch (const std::exception& error) {
    return refuse(error.what());
  }
  reply.gpu = gpu_;
  return reply;
}

/// One call of a PE, or its farewell, which closes the channel.
void Server::listen_to(PeSession& session) {
  Demand call;
  Fd descriptor;
  const bool heard =
      session.calls().receive(&call, kHearing, &descriptor) && call.version == Demand::kVersion;
  stop();
  session.report_events();
  if (heard) {
    session.calls().send(session.answer(call, std::move(descriptor)));
  } else {
    session.calls().close();
  }
}

void Server::stop() {
  settled_ = false;
  if (runner_ == nullptr || !runner_->running()) return;
  try {
    runner_->stop();
  } catch (const EngineRunnerError& error) {
    fail(error.what());
  }
}

void Server::start() {
  settled_ = true;
  if (!failure_.empty()) return;
  const bool faults = std::ranges::any_of(sessions_, [](const auto& t) { return t->has_plan(); });
  std::vector<Port*> ports;
  bool work = false;
  for (const auto& session : sessions_) {
    if (faults) session->expect_faults();
    ports.push_back(&session->port());
    work = work || session->needs_service();
  }
  if (work) runner_->start(ports);
}

/// The engine runner is beyond use. PEs stay, to be told.
void Server::fail(const char* reason) {
  failure_ = std::string("the GPU engine has failed: ") + reason;
  settled_ = true;
  for (const auto& session : sessions_) session->fail();
}

}  // namespace peal::softnic::gpu
