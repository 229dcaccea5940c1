// SPDX-License-Identifier: Apache-2.0
//
// The engine behind the calls of a host (host/calls.h): it checks the arguments, chooses between
// the stream's own means and a kernel, and gives the stream what it has chosen.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "host/calls.h"
#include "host/calls/files.h"
#include "host/contexts/device_tables.h"
#include "host/failures/failure_log.h"
#include "host/memory/backing.h"
#include "host/nvtx/range.h"
#include "host/stream/executor.h"
#include "host/teams/teams.h"
#include "host/windows/windows.h"

namespace peal {

/// Thread-safe where its parts are.
class CallEngine {
 public:
  /// `answers` is memory that host and kernels reach at once, of kAnswerBytes. `own_words`: the
  /// heap's, of which the host itself may load and store words; null where all calls are kernels,
  /// for somebody looks at them.
  struct Dependencies {
    const LiveGroup& group;
    const Windows& windows;
    Teams& teams;
    const DeviceTables& tables;
    const FailureLog& failures;
    Files& files;
    std::unique_ptr<Executor> executor;
    Backing answers;
    const Backing* own_words = nullptr;
  };
  static constexpr size_t kAnswerBytes = 64;

  explicit CallEngine(Dependencies dependencies) : dependencies_(std::move(dependencies)) {}

  detail::CallSite site(void* stream, const ContextFields& context) {
    return {this, stream, context.state, context.slot, context.queues != nullptr};
  }
  /// The call site of a stream that belongs to the engine.
  detail::CallSite own_site(const ContextFields& context) {
    return site(dependencies_.executor->own_stream(), context);
  }

  void start(const detail::CallSite& site, kernels::TransferArguments call);
  void start(const detail::CallSite& site, kernels::Word call);
  void start(const detail::CallSite& site, const Team& team, kernels::Collective call);
  void start(const detail::CallSite& site, const detail::FileCall& call) {
    dependencies_.files.start(*dependencies_.executor, site.stream, call);
  }
  uint64_t fetch(const detail::CallSite& site, kernels::Word call);
  void check() const;
  /// Runtime::ptr().
  std::byte* mapped(const void* symmetric, int pe) const;
  /// Returns once streams have done what they were given.
  void finish() { dependencies_.executor->finish(); }
  std::unique_ptr<StreamMark> mark(const detail::CallSite& site) {
    return dependencies_.executor->mark(site.stream);
  }

 private:
  /// A range that a call names at `pe`; `touched`: by its own address, for it is used there.
  struct Asked {
    const void* at;
    uint64_t bytes;
    int pe;
    bool touched = false;
  };
  void address(const detail::CallSite& site, kernels::Caller& caller) const;
  void check_pe(const kernels::Caller& caller) const;
  bool own_memory(const void* at, int pe) const;
  Windows::Location symmetric(Call call, const char* which, const Asked& asked) const;
  void check_address(Call call, const char* which, const void* at, uint64_t bytes) const;
  void check_home(Call call, const char* which, const void* at, uint64_t bytes) const;
  std::byte* mapped(const Windows::Location& place, int pe) const;
  std::byte* there_of(const kernels::TransferArguments& call) const;
  void copy(const detail::CallSite& site, kernels::TransferArguments call, std::byte* there);
  void check_buffers(const Team& team, const kernels::Collective& call) const;
  void compare(const Team& team, const kernels::Collective& call);
  GridShape shape_for(const Team& team, Call which, uint64_t bytes) const;
  bool by_host(const detail::CallSite& site, const kernels::Word& call);
  bool needs_no_kernel(const detail::CallSite& site, const kernels::Word& call);
  template <class Arguments>
  void launch(const kernels::Kernel& kernel, const GridShape& shape, const Arguments& arguments,
              void* stream) {
    const nvtx::Range range("peal: launch");
    dependencies_.executor->launch(kernel, shape, &arguments, sizeof(arguments), stream);
  }

  Dependencies dependencies_;
  std::atomic<uint32_t> launches_{1};  // counts collective calls
  std::mutex answer_mutex_;            // calls take turns with the one answer
};

}  // namespace peal
