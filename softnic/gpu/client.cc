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

constexpr std::chrono::seconds kPatience{60};  // a driver that starts takes its time
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

Client::Client(const Place& place, const ProcessHello& hello, const Exporter& exporter)
    : exporter_(exporter) {
  const auto start = std::chrono::steady_clock::now();
  auto next_spawn = start;
  while (!join(place, hello)) {
    const auto now = std::chrono::steady_clock::now();
    if (now > start + kPatience) {
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
bool Client::join(const Place& place, const ProcessHello& hello) {
  calls_ = connect_to(place.directory + "/engine");
  if (!calls_.open()) return false;
  auto [mine, theirs] = channel_pair();
  Reply reply;
  if (!exchange({.what = hello}, &reply, theirs.fd())) return false;
  if (reply.status != CommandStatus::kOk) throw std::runtime_error(reply.reason);
  events_ = std::move(mine);
  gpu_ = reply.gpu;
  return true;
}

bool Client::exchange(const Demand& call, Reply* reply, int descriptor) {
  return calls_.send(call, descriptor) && calls_.receive(reply, kPatience);
}

/// Memory that the engine cannot have: errno has no room for why.
Refusal Client::unreachable(CommandStatus status, const char* reason) {
  std::fprintf(stderr, "softnic: %s\n", reason);
  return {status, reasons_.insert(reason).first->c_str()};
}

/// Tells the engine where memory of the next command lies.
Refusal Client::show(const void* address, uint64_t bytes) {
  if (address == nullptr || bytes == 0) return {};
  std::vector<Exported> pieces;
  try {
    pieces = exporter_.export_range(address, bytes);
  } catch (const ExportError& error) {
    return unreachable(CommandStatus::kBadParameter, error.what());
  }
  for (const Exported& piece : pieces) {
    Reply reply;
    if (!exchange({.what = piece.extent}, &reply, piece.descriptor.get())) {
      return {CommandStatus::kInternalError, kGone};
    }
    if (reply.status != CommandStatus::kOk) return unreachable(reply.status, reply.reason);
  }
  return {};
}

Outcome Client::ask(const Command& command) {
  Refusal hidden;
  const auto show_one = [&](auto* address, uint64_t bytes) {
    if (!hidden.refused()) hidden = show(address, bytes);
  };
  Command shown = command;
  std::visit(
      [&](auto& each) {
        if constexpr (NamesMemory<std::remove_cvref_t<decltype(each)>>) each.spans(show_one);
      },
      shown);
  if (hidden.refused()) return hidden;
  Reply reply;
  if (!exchange({.what = command}, &reply)) {
    return Refusal{CommandStatus::kInternalError, kGone};
  }
  Outcome outcome = reply.outcome;
  outcome.refusal = {};
  if (reply.status != CommandStatus::kOk) {
    outcome.refusal = {reply.status, reasons_.insert(reply.reason).first->c_str()};
  }
  return outcome;
}

Outcome Client::run(const Command& command) {
  const std::lock_guard lock(mutex_);
  Outcome outcome = ask(command);
  std::visit(
      [&](const auto& each) {
        using C = std::remove_cvref_t<decltype(each)>;
        const bool gone = outcome.refusal.reason == kGone;
        if (Destroys<C> && gone) outcome.refusal = {};
        const bool done = !outcome.refusal.refused();
        if constexpr (std::is_same_v<C, CreateQp>) {
          if (done) known_qps_[outcome.number] = {};
        } else if constexpr (std::is_same_v<C, ModifyQp>) {
          if (done && known_qps_.contains(each.number)) known_qps_[each.number] = each.to;
        } else if constexpr (std::is_same_v<C, QueryQp>) {
          if (gone && known_qps_.contains(each.number)) {
            outcome = {};
            outcome.attributes = known_qps_[each.number];
            outcome.attributes.state = QpState::kError;
          }
        } else if constexpr (std::is_same_v<C, DestroyQp>) {
          if (done) known_qps_.erase(each.number);
        }
      },
      command);
  return outcome;
}

bool Client::next_event(AsyncEvent* event) {
  const std::lock_guard lock(mutex_);
  if (!events_.open()) return false;
  // Nothing to read is the usual case and must not close the channel.
  char first;
  const ssize_t waiting = recv(events_.fd(), &first, sizeof(first), MSG_PEEK | MSG_DONTWAIT);
  if (waiting < 0) return false;
  return events_.receive(event, MessageSocket::Milliseconds(0));
}

}  // namespace peal::softnic::gpu
