// SPDX-License-Identifier: Apache-2.0
//
// Who advances the queue pairs of a NIC, as control calls see it: a thread (driver.h), or a kernel
// (gpu/engine_runner.h).
#pragma once

#include <cstdint>

namespace peal::softnic {

class Runner {
 public:
  virtual ~Runner() = default;

  /// Returns once no queue pair is being advanced; none will be until resume(). For short times.
  virtual void pause() = 0;
  virtual void resume() = 0;

  /// Paused: queue pair `qpn` may have work from now on; forget() before its number is reused.
  virtual void watch(uint32_t qpn) = 0;
  virtual void forget(uint32_t qpn) = 0;

  /// Holds the queue pairs still.
  class Pause {
   public:
    explicit Pause(Runner& runner) : runner_(runner) { runner_.pause(); }
    ~Pause() { runner_.resume(); }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    Runner& runner_;
  };
};

}  // namespace peal::softnic
