// SPDX-License-Identifier: Apache-2.0
//
// One operation at a time, each with a clock of its own: what latency measures.
//
//   ping-pong    leader:  clock, send i, wait for answer i, clock      partner: wait for i, send i
//   round trip   leader:  clock, call, clock                           partner: nothing
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "peal/peal.h"
#include "perf/common/job.h"
#include "perf/common/options.h"
#include "perf/common/plan.h"
#include "perf/common/report.h"

namespace peal::perf {

/// One exchange; each has a slot of its own.
struct Turn {
  uint64_t at;         // offset of the slot
  uint64_t flag;       // value that announces the message
  uint64_t send;       // first word of the message that goes
  uint64_t take;       // and of the one that comes
  uint64_t sum;        // of all words sent before
  bool wrong = false;  // the call answered with something else than it must
};

// How a message goes out, and how its arrival is seen.

struct PingPut {
  template <class S>
  PEAL_DEVICE static Status send(const Context& ctx, S scope, const Plan& plan, const Turn& turn) {
    const Ticket put =
        put_nbi(ctx, scope, plan.remote + turn.at, plan.local + turn.at, plan.bytes, plan.peer);
    if (put.status != Status::kOk) return put.status;
    return by_leader(scope,
                     [&] { return signal(ctx, Signal::set(plan.words, turn.flag, plan.peer)); });
  }
  template <class S>
  PEAL_DEVICE static Status take(const Context& ctx, S scope, const Plan& plan, const Turn& turn) {
    return wait_until(ctx, scope, plan.words, Compare::kGe, turn.flag);
  }
};

struct PingPutSignal : PingPut {
  template <class S>
  PEAL_DEVICE static Status send(const Context& ctx, S scope, const Plan& plan, const Turn& turn) {
    return put_signal_nbi(ctx, scope, plan.remote + turn.at, plan.local + turn.at, plan.bytes,
                          Signal::set(plan.words, turn.flag, plan.peer))
        .status;
  }
};

/// The value is its own flag: each side waits until its slot holds exactly what must come.
template <class T>
struct PingP {
  PEAL_DEVICE static T* slot(const Plan& plan, const Turn& turn) {
    return reinterpret_cast<T*>(plan.remote + turn.at);
  }
  PEAL_DEVICE static Status send(const Context& ctx, Thread, const Plan& plan, const Turn& turn) {
    return p(ctx, slot(plan, turn), static_cast<T>(turn.send), plan.peer);
  }
  PEAL_DEVICE static Status take(const Context& ctx, Thread, const Plan& plan, const Turn& turn) {
    return wait_until(ctx, slot(plan, turn), Compare::kEq, static_cast<T>(turn.take));
  }
};

// Calls that end when the answer is here.

struct RoundTrip {
  template <class S>
  PEAL_DEVICE static Status take(const Context&, S, const Plan&, const Turn&) {
    return Status::kOk;
  }
};

struct CallGet : RoundTrip {
  template <class S>
  PEAL_DEVICE static Status send(const Context& ctx, S scope, const Plan& plan, const Turn& turn) {
    return get(ctx, scope, plan.local + turn.at, plan.remote + turn.at, plan.bytes, plan.peer);
  }
};

/// The value is kept for the check.
template <class T>
struct CallG : RoundTrip {
  PEAL_DEVICE static Status send(const Context& ctx, Thread, const Plan& plan, const Turn& turn) {
    const Fetched<T> got = g(ctx, reinterpret_cast<const T*>(plan.remote + turn.at), plan.peer);
    *reinterpret_cast<T*>(plan.local + turn.at) = got.value;
    return got.status;
  }
};

template <class T>
struct CallFetchAdd : RoundTrip {
  PEAL_DEVICE static Status send(const Context& ctx, Thread, const Plan& plan, Turn& turn) {
    const Fetched<T> old = atomic_fetch_add(ctx, reinterpret_cast<T*>(plan.words),
                                            static_cast<T>(turn.send), plan.peer);
    turn.wrong = old.value != static_cast<T>(turn.sum);
    return old.status;
  }
};

/// Runs with one agent. `samples[i]` is the time from begin to end of exchange i, where this PE
/// leads.
template <class Call, class S>
PEAL_KERNEL exchange(Context ctx, Plan plan, bool leads, uint64_t* samples, BlockResult* result) {
  const S scope;
  Status status = Status::kOk;
  uint32_t mismatches = 0;
  uint64_t sum = 0;
  const uint64_t start = now_ns();
  for (uint64_t i = 0; i < plan.count && status == Status::kOk; ++i) {
    Turn turn{.at = plan.offset(0, i),
              .flag = i + 1,
              .send = message_word(message_seed(ctx.pe, 0, plan.first + i), 0),
              .take = message_word(message_seed(plan.peer, 0, plan.first + i), 0),
              .sum = sum};
    const uint64_t begin = now_ns();
    if (leads) status = Call::send(ctx, scope, plan, turn);
    if (status == Status::kOk) status = Call::take(ctx, scope, plan, turn);
    const uint64_t end = now_ns();
    if (!leads && status == Status::kOk) status = Call::send(ctx, scope, plan, turn);
    sum += turn.send;
    mismatches += turn.wrong ? 1 : 0;
    if (scope.leader()) samples[i] = end - begin;
  }
  const Status done = quiet(ctx, scope);
  if (scope.leader()) {
    *result = {start, now_ns(), status != Status::kOk ? status : done, mismatches};
  }
}

using ExchangeKernel = void (*)(Context, Plan, bool, uint64_t*, BlockResult*);

template <class Call>
ExchangeKernel exchange_of(ScopeKind scope) {
  if (scope == ScopeKind::kThread) return exchange<Call, Thread>;
  return scope == ScopeKind::kWarp ? exchange<Call, Warp> : exchange<Call, Block>;
}

template <template <class> class Call>
ExchangeKernel exchange_word(Op op, uint64_t bytes) {
  switch (bytes) {
    case 4:
      return exchange<Call<uint32_t>, Thread>;
    case 8:
      return exchange<Call<uint64_t>, Thread>;
    default:
      break;
  }
  throw Error(ErrorCode::kInvalidArgument, "--sizes " + std::to_string(bytes) +
                                               ": the latency of " + std::string(to_string(op)) +
                                               " is measured on words of 4 or 8 bytes");
}

inline ExchangeKernel exchange_kernel(const Options& o, uint64_t bytes) {
  switch (o.op) {
    case Op::kPut:
      return exchange_of<PingPut>(o.scope);
    case Op::kPutSignal:
      return exchange_of<PingPutSignal>(o.scope);
    case Op::kGet:
      return exchange_of<CallGet>(o.scope);
    case Op::kP:
      return exchange_word<PingP>(o.op, bytes);
    case Op::kG:
      return exchange_word<CallG>(o.op, bytes);
    case Op::kAtomicAdd:
    case Op::kMemcpy:  // not offered
      break;
  }
  return exchange_word<CallFetchAdd>(o.op, bytes);
}

/// The times of one size, on the PE that leads.
struct Samples {
  std::vector<double> usec;

  void summarize(Record& record) {
    if (usec.empty()) return;
    std::ranges::sort(usec);
    record.usec_min = usec.front();
    record.usec_median = usec[usec.size() / 2];
    record.usec_p99 = usec[(usec.size() - 1) * 99 / 100];
  }
};

/// The program after its command line.
class Exchange {
 public:
  explicit Exchange(const Options& options)
      : flow_(flow_of(options.op)),
        job_(options, ping_pong(options.op) ? Traffic::kBothWays : Traffic::kOneWay),
        samples_(job_.runtime().allocate<uint64_t>(job_.widest_window())) {}

  /// The exit code.
  int run() {
    const Options& o = job_.options();
    Report report(job_.setting("latency"), Metric::kLatency, job_.first());
    bool clean = true;
    for (const uint64_t bytes : o.sizes) {
      const uint64_t iterations = job_.iterations(bytes, {.operations = 2000, .bytes = 16 << 20});
      const Record mine = measure(report, bytes, iterations);
      clean = clean && mine.errors == 0;
      report.row(bytes, iterations, job_.gather(mine));
    }
    clean = report.finish() && clean;
    job_.leave();
    return clean ? 0 : 1;
  }

 private:
  static bool ping_pong(Op op) { return op == Op::kPut || op == Op::kPutSignal || op == Op::kP; }
  static Flow flow_of(Op op) {
    Flow flow = Flow::of(op);
    if (op == Op::kPut) flow.words = Word::kCount;  // announces its messages by a word, too
    return flow;
  }

  Record measure(Report& report, uint64_t bytes, uint64_t iterations) {
    const ExchangeKernel kernel = exchange_kernel(job_.options(), bytes);
    const bool works = job_.leads() || (ping_pong(job_.options().op) && job_.initiator() >= 0);
    // There and back is two operations, unless this PE talks to itself.
    const double legs = ping_pong(job_.options().op) && job_.target() != job_.pe() ? 2 : 1;
    Record record;
    Samples samples;
    job_.for_each_round(bytes, iterations, report, [&](const Plan& plan, bool warm) {
      job_.round(plan, flow_, record, [&] {
        if (!works) return;
        launch(job_.grid(), kernel, job_.context(), plan, job_.leads(), samples_, job_.results())
            .wait();
        const Outcome outcome = job_.outcome();
        record.errors += outcome.mismatches;
        if (warm || !job_.leads()) return;
        record.seconds += outcome.seconds;
        record.operations += plan.count;
        std::vector<uint64_t> ns(plan.count);
        job_.runtime().copy_out(ns.data(), samples_, ns.size() * sizeof(uint64_t));
        for (const uint64_t t : ns) samples.usec.push_back(static_cast<double>(t) / 1e3 / legs);
      });
    });
    samples.summarize(record);
    return record;
  }

  Flow flow_;
  Job job_;
  uint64_t* samples_;
};

inline int run_exchange(CommandLine line) {
  if (line.ends()) return print_once(line);
  Options& o = line.options;
  if (o.scope == ScopeKind::kThread) o.threads = 1;
  if (o.scope == ScopeKind::kWarp) o.threads = kWarpLanes;
  return Exchange(o).run();
}

}  // namespace peal::perf
