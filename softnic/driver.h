// SPDX-License-Identifier: Apache-2.0
//
// The thread that drives the engine of one NIC, and the lock it shares with control calls.
//
//   loop: packets in -> busy queue pairs -> a slice of the idle ones -> rest when nothing happened
//
// The thread holds the lock for one round, and stays out of it until the control calls that wait
// have passed: a busy engine starves nobody.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

#include "base/busy_list.h"
#include "base/patience.h"
#include "base/visited_mutex.h"
#include "softnic/control/control.h"
#include "softnic/engine/objects.h"
#include "softnic/wire/wires.h"

namespace peal::softnic {

class EngineThread : public Runner {
 public:
  /// `port` and the wires must outlive the driver.
  EngineThread(Port& port, Wires wires);
  /// Starts the thread. `collect` runs under the lock when the engine has raised events.
  void start(std::function<void()> collect);
  /// Stops the thread after one last look at the wire. In a forked child there is no thread.
  ~EngineThread() override;
  EngineThread(const EngineThread&) = delete;
  EngineThread& operator=(const EngineThread&) = delete;

  void pause() override { mutex_.lock(); }
  void resume() override { mutex_.unlock(); }
  void watch(uint32_t qpn) override { queues_.add(qpn); }
  void forget(uint32_t qpn) override { queues_.remove(qpn); }
  /// True of a queue pair that is advanced every round. Between pause() and resume().
  bool busy(uint32_t qpn) const { return queues_.busy(qpn); }

 private:
  void run();
  bool round();
  void rest(Patience::Nap nap) const;

  Port& port_;
  Wires wire_;
  std::function<void()> collect_;
  VisitedMutex mutex_;  // control calls visit
  std::atomic<bool> stop_{false};
  bool listens_ = false;       // else what has come stays there, and would end every nap at once
  BusyList<uint32_t> queues_;  // by number
  int owner_;
  std::thread thread_;
};

}  // namespace peal::softnic
