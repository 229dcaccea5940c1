// SPDX-License-Identifier: Apache-2.0
//
// The thread that drives the engine of one NIC, and the lock it shares with control calls.
//
//   loop: packets in -> busy queue pairs -> a slice of the idle ones -> rest when nothing happened
//
// The thread holds the lock for one round. A control call announces itself first, and the thread
// then stays out until it has passed: a busy engine starves nobody.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "softnic/control/runner.h"
#include "softnic/engine/objects.h"
#include "softnic/wire/wire.h"

namespace peal::softnic {

class Driver : public Runner {
 public:
  /// `port` and `wire` must outlive the driver.
  Driver(Port& port, ShmWire& wire);
  /// Starts the thread. `collect` runs under the lock when the engine has raised events.
  void start(std::function<void()> collect);
  /// Stops the thread after one last look at the wire. In a forked child there is no thread.
  ~Driver() override;
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  void pause() override;
  void resume() override;
  void watch(uint32_t qpn) override;
  void forget(uint32_t qpn) override;

 private:
  void run();
  bool round();
  bool attend_faults(uint64_t now);
  bool poll_busy(uint64_t now);
  bool poll_idle(uint64_t now);

  Port& port_;
  ShmWire& wire_;
  std::function<void()> collect_;
  std::mutex mutex_;
  std::atomic<uint32_t> waiting_{0};  // control calls that want the lock
  std::atomic<bool> stop_{false};
  std::vector<uint32_t> busy_;
  std::vector<uint32_t> idle_;
  size_t idle_at_ = 0;
  int owner_;
  std::thread thread_;
};

/// Monotonic nanoseconds.
uint64_t now_ns();

}  // namespace peal::softnic
