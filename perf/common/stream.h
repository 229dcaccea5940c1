// SPDX-License-Identifier: Apache-2.0
//
// One-way traffic as fast as it goes, which message_rate and bandwidth measure: every agent posts
// its operations without waiting, then the block waits for all of them.
//
//   clock:   first block begins  ->  post, post, ... post, quiet  ->  last block is done
//            (with several pairs: all PEs ready  ->  all done, launches included)
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string_view>

#include "peal/peal.h"
#include "perf/common/job.h"
#include "perf/common/options.h"
#include "perf/common/plan.h"
#include "perf/common/report.h"

namespace peal::perf {

/// Number of the calling agent in the grid.
PEAL_DEVICE uint32_t agent_in_grid(Thread) { return static_cast<uint32_t>(thread_in_grid()); }
PEAL_DEVICE uint32_t agent_in_grid(Warp) {
  const uint32_t warps = (threads_in_block() + kWarpLanes - 1) / kWarpLanes;
  return block_in_grid() * warps + thread_in_block() / kWarpLanes;
}
PEAL_DEVICE uint32_t agent_in_grid(Block) { return block_in_grid(); }

/// First word of this PE's message `i`, for operations that carry values.
PEAL_DEVICE uint64_t own_word(const Context& ctx, const Plan& plan, uint32_t agent, uint64_t i) {
  return message_word(message_seed(ctx.pe, agent, plan.first + i), 0);
}

struct StreamPut {
  template <class S>
  PEAL_DEVICE static Status post(const Context& ctx, S scope, const Plan& plan, uint32_t agent,
                                 uint64_t i) {
    const uint64_t at = plan.offset(agent, i);
    return put_nbi(ctx, scope, plan.remote + at, plan.local + at, plan.bytes, plan.peer).status;
  }
};

struct StreamPutSignal {
  template <class S>
  PEAL_DEVICE static Status post(const Context& ctx, S scope, const Plan& plan, uint32_t agent,
                                 uint64_t i) {
    const uint64_t at = plan.offset(agent, i);
    return put_signal_nbi(ctx, scope, plan.remote + at, plan.local + at, plan.bytes,
                          Signal::add(plan.words + agent, 1, plan.peer))
        .status;
  }
};

struct StreamGet {
  template <class S>
  PEAL_DEVICE static Status post(const Context& ctx, S scope, const Plan& plan, uint32_t agent,
                                 uint64_t i) {
    const uint64_t at = plan.offset(agent, i);
    return get_nbi(ctx, scope, plan.local + at, plan.remote + at, plan.bytes, plan.peer).status;
  }
};

/// What a put between processes of one host is measured against.
struct StreamMemcpy {
  template <class S>
  PEAL_DEVICE static Status post(const Context& ctx, S scope, const Plan& plan, uint32_t agent,
                                 uint64_t i) {
    const uint64_t at = plan.offset(agent, i);
    if (scope.leader()) {
      memcpy(ptr(ctx, plan.remote + at, plan.peer), plan.local + at, plan.bytes);
    }
    return Status::kOk;
  }
};

/// A value of 1, 2, 4 or 8 bytes travels in the work request.
struct StreamP {
  template <class T>
  PEAL_DEVICE static Status send(const Context& ctx, const Plan& plan, uint64_t at, uint64_t word) {
    return p(ctx, reinterpret_cast<T*>(plan.remote + at), static_cast<T>(word), plan.peer);
  }
  PEAL_DEVICE static Status post(const Context& ctx, Thread, const Plan& plan, uint32_t agent,
                                 uint64_t i) {
    const uint64_t at = plan.offset(agent, i);
    const uint64_t word = own_word(ctx, plan, agent, i);
    if (plan.bytes == 8) return send<uint64_t>(ctx, plan, at, word);
    if (plan.bytes == 4) return send<uint32_t>(ctx, plan, at, word);
    if (plan.bytes == 2) return send<uint16_t>(ctx, plan, at, word);
    return send<uint8_t>(ctx, plan, at, word);
  }
};

/// Waits for every value, and keeps it for the check.
struct StreamG {
  template <class T>
  PEAL_DEVICE static Status fetch(const Context& ctx, const Plan& plan, uint64_t at) {
    const Fetched<T> got = g(ctx, reinterpret_cast<const T*>(plan.remote + at), plan.peer);
    *reinterpret_cast<T*>(plan.local + at) = got.value;
    return got.status;
  }
  PEAL_DEVICE static Status post(const Context& ctx, Thread, const Plan& plan, uint32_t agent,
                                 uint64_t i) {
    const uint64_t at = plan.offset(agent, i);
    if (plan.bytes == 8) return fetch<uint64_t>(ctx, plan, at);
    if (plan.bytes == 4) return fetch<uint32_t>(ctx, plan, at);
    if (plan.bytes == 2) return fetch<uint16_t>(ctx, plan, at);
    return fetch<uint8_t>(ctx, plan, at);
  }
};

struct StreamAtomicAdd {
  PEAL_DEVICE static Status post(const Context& ctx, Thread, const Plan& plan, uint32_t agent,
                                 uint64_t i) {
    const uint64_t word = own_word(ctx, plan, agent, i);
    if (plan.bytes == 8) return atomic_add(ctx, plan.words + agent, word, plan.peer);
    auto* half = reinterpret_cast<uint32_t*>(plan.words + agent);
    return atomic_add(ctx, half, static_cast<uint32_t>(word), plan.peer);
  }
};

template <class O, class S>
PEAL_KERNEL stream(Context ctx, Plan plan, BlockResult* results) {
  const S scope;
  const uint32_t agent = agent_in_grid(scope);
  Status status = Status::kOk;
  block.sync();
  const uint64_t begin = now_ns();
  for (uint64_t i = 0; i < plan.count && status == Status::kOk; ++i) {
    status = O::post(ctx, scope, plan, agent, i);
  }
  status = first_failure(block, status);  // all have posted
  const Status done = quiet(ctx, block);
  if (block.leader()) {
    results[block_in_grid()] = {begin, now_ns(), status != Status::kOk ? status : done, 0};
  }
}

using StreamKernel = void (*)(Context, Plan, BlockResult*);

template <class O>
StreamKernel stream_of(ScopeKind scope) {
  if (scope == ScopeKind::kThread) return stream<O, Thread>;
  return scope == ScopeKind::kWarp ? stream<O, Warp> : stream<O, Block>;
}

inline StreamKernel stream_kernel(const Options& o) {
  switch (o.op) {
    case Op::kPut:
      return stream_of<StreamPut>(o.scope);
    case Op::kPutSignal:
      return stream_of<StreamPutSignal>(o.scope);
    case Op::kGet:
      return stream_of<StreamGet>(o.scope);
    case Op::kMemcpy:
      return stream_of<StreamMemcpy>(o.scope);
    case Op::kP:
      return stream<StreamP, Thread>;
    case Op::kG:
      return stream<StreamG, Thread>;
    case Op::kAtomicAdd:
      break;
  }
  return stream<StreamAtomicAdd, Thread>;
}

/// Runs all rounds of one size.
inline Record measure_stream(Job& job, Report& report, uint64_t bytes, uint64_t iterations) {
  if (job.options().op == Op::kMemcpy && std::string_view(job.runtime().transport()) != "p2p") {
    throw std::runtime_error(
        "--op memcpy: the peer's memory is mapped with PEAL_TRANSPORT=p2p only");
  }
  const StreamKernel kernel = stream_kernel(job.options());
  const Flow flow = Flow::of(job.options().op);
  Record record;
  job.for_each_round(bytes, iterations, report, [&](const Plan& plan, bool warm) {
    double seconds = 0;
    const double wall = job.round(plan, flow, record, [&] {
      if (!job.leads()) return;
      launch(job.grid(), kernel, job.context(), plan, job.results()).wait();
      seconds = job.outcome().seconds;
    });
    if (!job.leads() || warm) return;
    // Pairs that take turns on too few cores must not each count only its own turn.
    record.seconds += job.pairs() == 1 ? seconds : wall;
    record.operations += plan.agents * plan.count;
  });
  return record;
}

/// The whole program; the exit code.
inline int run_stream(const Program& program, Metric metric, const Effort& effort,
                      const CommandLine& line) {
  if (line.ends()) return print_once(line);
  Job job(line.options);
  Report report(job.setting(program.name), metric, job.first());
  bool clean = true;
  for (const uint64_t bytes : line.options.sizes) {
    const uint64_t iterations = job.iterations(bytes, effort);
    const Record mine = measure_stream(job, report, bytes, iterations);
    clean = clean && mine.errors == 0;
    report.row(bytes, iterations, job.gather(mine));
  }
  clean = report.finish() && clean;
  job.leave();
  return clean ? 0 : 1;
}

}  // namespace peal::perf
