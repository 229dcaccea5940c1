// SPDX-License-Identifier: Apache-2.0
//
// The process of the GPU engine, without the GPU: PEs come and go over a socket, their calls reach
// a Control each, and the engine runner runs whenever nobody wants anything.
//
//   call -> stop the engine runner -> Control changes tables -> reply -> (nothing more for a
//   moment) -> start
//
// All NICs of a fabric live here, so that a request finds its peer's tables at an address: there is
// no wire to lose anything on.
#pragma once

#include <poll.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "softnic/control/control.h"
#include "softnic/gpu/engine_runner.h"
#include "softnic/gpu/message.h"
#include "softnic/gpu/message_socket.h"

namespace peal::softnic::gpu {

/// Mapped extents that lie one behind the other; unmapped with their last user.
class Region {
 public:
  Region(std::shared_ptr<EngineRunner> runner, std::vector<ProcessMemory> extents,
         std::span<const Fd> descriptors)
      : runner_(std::move(runner)),
        extents_(std::move(extents)),
        memory_(runner_->map(extents_, descriptors)) {}
  ~Region() { runner_->unmap(extents_, memory_); }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  /// True if it is of the same memory at the same addresses of the PE.
  bool is_of(std::span<const ProcessMemory> extents) const;
  /// Where [address, address + bytes) of the PE lies here; null when not all of it does.
  std::byte* find(const void* address, uint64_t bytes) const;

 private:
  std::shared_ptr<EngineRunner> runner_;
  std::vector<ProcessMemory> extents_;
  std::byte* memory_;
};

/// One PE's NIC. Used only while the engine runner is stopped, except for sending events.
class PeSession {
 public:
  PeSession(MessageSocket calls, MessageSocket events, std::shared_ptr<EngineRunner> runner,
            const ProcessHello& hello);

  MessageSocket& calls() { return calls_; }
  /// Where to wait for room until send_events(); -1 while no event waits for any.
  int waits_for_room() const { return control_.has_events() ? events_.fd() : -1; }
  Port& port() { return tables_.port; }
  bool needs_service() const;

  /// Answers any call but ProcessHello.
  Reply answer(const Demand& call, Fd descriptor);
  /// Takes what the engine raised and hands it to the PE.
  void report_events();
  /// Hands on what the PE has room for, in order; the rest waits.
  void send_events();
  bool has_plan() const { return tables_.port.faults != nullptr; }
  /// Another NIC of the fabric has a fault plan: this one has an empty one.
  void expect_faults() {
    if (!has_plan()) control_.set_faults(FaultPlan());
  }
  /// All queue pairs fail: the engine has.
  void fail();

 private:
  /// The engine runner is stopped whenever a control call runs, so there is nobody to pause.
  struct Stopped : Runner {
    void pause() override {}
    void resume() override {}
    void watch(uint32_t) override {}
    void forget(uint32_t) override {}
  };
  using Regions = std::vector<std::shared_ptr<Region>>;
  using Holder = std::pair<size_t, uint32_t>;  // the command that made an object, and its number

  /// What the PE has sent so far of a range.
  struct Arriving {
    std::vector<ProcessMemory> extents;
    std::vector<Fd> descriptors;
  };
  void take(const ProcessMemory& extent, Fd descriptor);
  void map(Arriving whole);
  template <class T>
  bool translate(T*& address, uint64_t bytes);
  template <class C>
  Outcome execute(C command);

  MessageSocket calls_;
  MessageSocket events_;
  std::shared_ptr<EngineRunner> runner_;
  Tables tables_;
  Stopped stopped_;
  Control control_;
  std::vector<std::weak_ptr<Region>> known_;
  Arriving arriving_;
  Regions offered_;  // since the last command
  std::map<Holder, Regions> held_;
};

class Server {
 public:
  using MakeRunner = std::function<std::unique_ptr<EngineRunner>(const GpuId&)>;

  /// Listens at `path`. Throws std::system_error.
  Server(const std::string& path, MakeRunner make_engine_runner);
  /// Serves until the last PE has left, or none has come within `patience`.
  void run(std::chrono::milliseconds patience);

 private:
  bool serve_ready(int timeout_ms);
  void hear_strangers(const std::vector<pollfd>& fds);
  void listen_to(PeSession& session);
  Reply introduce(size_t index, const Demand& call, Fd events);
  void stop();
  void start();
  void fail(const char* reason);

  MakeRunner make_engine_runner_;
  Fd listener_;
  std::shared_ptr<EngineRunner> runner_;
  GpuId gpu_;
  std::string failure_;
  bool settled_ = true;  // the engine runner runs, or has nothing to run
  std::vector<MessageSocket> strangers_;
  std::vector<std::unique_ptr<PeSession>> sessions_;
};

}  // namespace peal::softnic::gpu
