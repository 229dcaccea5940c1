// SPDX-License-Identifier: Apache-2.0
//
// What runs the engine for all NICs of a fabric: a kernel (engine_runner_cuda.cu), or, in tests of
// everything around it, a thread (tests/support/softnic_engine_runner_host.cc).
//
//   stopped: memory is mapped and unmapped, tables may change    started: queue pairs advance
//
// There is no pause while started: whoever wants to change something stops the engine runner, and
// starts it again when nobody wants anything more. A control call then never meets a running
// kernel, and no driver call waits for one.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>

#include "softnic/engine/objects.h"
#include "softnic/gpu/message.h"
#include "softnic/gpu/message_socket.h"

namespace peal::softnic::gpu {

/// What an engine runner cannot do; the text is for the PE's user.
struct EngineRunnerError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class EngineRunner {
 public:
  virtual ~EngineRunner() = default;

  /// Stopped: makes a PE's memory reachable and answers where: one extent, or several with
  /// descriptors, one behind the other. Throws EngineRunnerError.
  virtual std::byte* map(std::span<const ProcessMemory> extents,
                         std::span<const Fd> descriptors) = 0;
  virtual void unmap(std::span<const ProcessMemory> extents, std::byte* memory) = 0;

  /// Runs the queue pairs of these ports, which stay as they are (tables, counts) until stop().
  /// Requests go to the port of that LID; a port that is not here is absent. All of them have fault
  /// plans, or none. Throws EngineRunnerError.
  virtual void start(std::span<Port* const> ports) = 0;
  /// Waits until nothing runs and brings the ports up to date. Throws EngineRunnerError when what
  /// ran has failed: then the state of all queue pairs is lost.
  virtual void stop() = 0;
  virtual bool running() const = 0;

  /// Called at least every kBeatMs while running, or what runs stops by itself. True when there is
  /// something to collect: stop and look. Throws EngineRunnerError when what ran has failed.
  virtual bool beat() = 0;

  static constexpr int kBeatMs = 100;
};

/// An engine runner on that GPU. Throws EngineRunnerError naming the CUDA call that failed.
std::unique_ptr<EngineRunner> make_engine_runner(const GpuId& gpu);

}  // namespace peal::softnic::gpu
