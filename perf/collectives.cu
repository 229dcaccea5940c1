// SPDX-License-Identifier: Apache-2.0
//
// How long collective calls of all PEs take: made by a block of a kernel, by the host on a stream,
// or by the host at once.
//
//   [fill src, poison dst] -> barrier -> calls, timed -> barrier -> every element compared
//
// A kernel's time is its own clock's, the host's is from when all are ready to when its calls are
// done; the slowest PE's counts.
//
//   mpirun -np 2 bazel-bin/perf/collectives --op all_gather --scope stream --sizes 8:1M
#include <algorithm>
#include <chrono>
#include <vector>

#include "perf/common/program.h"

namespace {

using namespace peal;
using namespace peal::perf;

/// One size's calls, handed to the kernel by value. Addresses are symmetric.
struct CollectiveCalls {
  Op op;
  Team team;
  float* dst;
  const float* src;
  size_t count;  // elements of a member's source; of all_to_all those for one member
  uint64_t iterations;
  uint64_t* outcome;  // ns, and the Status of the call that failed

  bool in_blocks() const { return op == Op::kAllGather || op == Op::kAllToAll; }
  size_t sent(size_t members) const { return op == Op::kAllToAll ? count * members : count; }
  size_t received(size_t members) const { return in_blocks() ? count * members : count; }
};

template <Op kOp>
PEAL_DEVICE Status call_in_kernel(const Context& ctx, const CollectiveCalls& c) {
  if constexpr (kOp == Op::kAllReduce)
    return all_reduce(ctx, block, c.team, c.dst, c.src, c.count, op::sum);
  if constexpr (kOp == Op::kAllGather) return all_gather(ctx, block, c.team, c.dst, c.src, c.count);
  if constexpr (kOp == Op::kBroadcast)
    return broadcast(ctx, block, c.team, c.dst, c.src, c.count, 0);
  if constexpr (kOp == Op::kAllToAll) return all_to_all(ctx, block, c.team, c.dst, c.src, c.count);
  return barrier(ctx, block, c.team);
}

template <Op kOp>
PEAL_KERNEL PEAL_MAX_THREADS(1024) repeat(Context ctx, CollectiveCalls c) {
  Status status = sync(ctx, block, c.team);
  const uint64_t begin = now_ns();
  for (uint64_t i = 0; i < c.iterations && status == Status::kOk; ++i) {
    status = call_in_kernel<kOp>(ctx, c);
  }
  if (!block.leader()) return;
  c.outcome[0] = now_ns() - begin;
  c.outcome[1] = static_cast<uint64_t>(status);
}

auto kernel_of(Op op) {
  switch (op) {
    case Op::kAllReduce:
      return repeat<Op::kAllReduce>;
    case Op::kAllGather:
      return repeat<Op::kAllGather>;
    case Op::kBroadcast:
      return repeat<Op::kBroadcast>;
    case Op::kAllToAll:
      return repeat<Op::kAllToAll>;
    default:
      return repeat<Op::kBarrier>;
  }
}

/// `on` is where the host's calls go: Runtime::on(stream) or Runtime::host().
void call_from_host(const auto& on, const CollectiveCalls& c) {
  switch (c.op) {
    case Op::kAllReduce:
      return on.all_reduce(c.team, c.dst, c.src, c.count, op::sum);
    case Op::kAllGather:
      return on.all_gather(c.team, c.dst, c.src, c.count);
    case Op::kBroadcast:
      return on.broadcast(c.team, c.dst, c.src, c.count, 0);
    case Op::kAllToAll:
      return on.all_to_all(c.team, c.dst, c.src, c.count);
    default:
      return on.barrier(c.team);
  }
}

/// Element `i` of a PE's source, in each preparation another: small, so that sums are exact.
float value_of(size_t pe, size_t i, uint64_t preparation) {
  return static_cast<float>((i + 3 * pe + preparation) % 7);
}

/// Element `i` of what PE `pe` of `n` must get.
float expected(const CollectiveCalls& c, size_t pe, size_t n, size_t i, uint64_t preparation) {
  if (c.op == Op::kBroadcast) return value_of(0, i, preparation);
  if (c.op == Op::kAllGather) return value_of(i / c.count, i % c.count, preparation);
  if (c.op == Op::kAllToAll) return value_of(i / c.count, i % c.count + pe * c.count, preparation);
  float sum = 0;
  for (size_t k = 0; k < n; ++k) sum += value_of(k, i, preparation);
  return sum;
}

class CollectivesRun {
 public:
  CollectivesRun(const Program& program, const BenchmarkOptions& options)
      : program_(program), options_(options), n_(static_cast<size_t>(side_.n_pes())) {
    const uint64_t largest = std::ranges::max(options.sizes);
    const CollectiveCalls c = calls_of(std::max<uint64_t>(largest, sizeof(float)));
    dst_ = side_.allocate<float>(c.received(n_));
    src_ = side_.allocate<float>(c.sent(n_));
    outcome_ = side_.allocate<uint64_t>(2);
    words_ = side_.allocate<uint64_t>(n_);
    mine_ = side_.allocate<Record>(1);
  }

  /// The exit code.
  int run() {
    Report report(setting_of(side_, program_.name, 1), options_, program_.metric, pe() == 0);
    bool clean = true;
    for (const uint64_t bytes : options_.sizes) {
      const uint64_t iterations = iterations_of(bytes);
      std::vector<std::vector<Record>> repeats;
      for (uint32_t i = 0; i < options_.repeats; ++i) {
        Record mine;
        if (options_.warmup != 0) (void)make_checked_calls(bytes, options_.warmup, mine);
        mine.seconds = make_checked_calls(bytes, iterations, mine);
        mine.operations = pe() == 0 ? iterations : 0;  // one call is all PEs'
        clean = clean && mine.errors == 0;
        repeats.push_back(gather(mine));
      }
      report.row(options_.of(bytes, iterations), repeats);
    }
    clean = report.finish() && clean;
    side_.barrier();  // leave together
    return clean ? 0 : 1;
  }

 private:
  size_t pe() const { return static_cast<size_t>(side_.pe()); }
  bool moves_data() const { return options_.what.op != Op::kBarrier; }

  uint64_t iterations_of(uint64_t bytes) const {
    if (options_.iterations != 0) return options_.iterations;
    const uint64_t by_size = program_.effort.bytes / std::max<uint64_t>(bytes, 1);
    return std::clamp<uint64_t>(by_size, 2, program_.effort.operations);
  }

  CollectiveCalls calls_of(uint64_t bytes) {
    return {.op = options_.what.op,
            .team = side_.runtime().world(),
            .dst = dst_,
            .src = src_,
            .count = bytes / sizeof(float),
            .iterations = 0,
            .outcome = outcome_};
  }

  /// The seconds of so many calls; what they left is compared. No barrier of the runtime comes
  /// between the words that a measured barrier is to bring and the look at them.
  double make_checked_calls(uint64_t bytes, uint64_t iterations, Record& record) {
    CollectiveCalls c = calls_of(bytes);
    c.iterations = moves_data() ? iterations : 1;
    ++preparation_;
    if (moves_data()) {
      fill(c);
    } else {
      for (size_t to = 0; to < n_; ++to) {
        side_.runtime().host().p(words_ + pe(), preparation_, static_cast<int>(to));
      }
      (void)make_calls(c, record);
      check_words(record);
      c.iterations = iterations;
    }
    side_.barrier();
    const double seconds = make_calls(c, record);
    side_.barrier();
    if (moves_data()) check_data(c, record);
    return seconds;
  }

  double make_calls(const CollectiveCalls& c, Record& record) {
    if (options_.scope == ScopeKind::kBlock) {
      side_.launch({.threads = options_.threads}, kernel_of(c.op), side_.context(), c);
      side_.check();
      uint64_t told[2];
      side_.copy_out(told, outcome_, sizeof told);
      record.status = static_cast<Status>(told[1]);
      record.errors += record.status != Status::kOk;
      return static_cast<double>(told[0]) * 1e-9;
    }
    const auto begin = std::chrono::steady_clock::now();
    if (options_.scope == ScopeKind::kHost) {
      for (uint64_t i = 0; i < c.iterations; ++i) call_from_host(side_.runtime().host(), c);
    } else {
      const auto on = side_.runtime().on(stream_);
      for (uint64_t i = 0; i < c.iterations; ++i) call_from_host(on, c);
      stream_.synchronize();
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    side_.check();
    return seconds.count();
  }

  void fill(const CollectiveCalls& c) {
    std::vector<float> values(c.sent(n_));
    for (size_t i = 0; i < values.size(); ++i) values[i] = value_of(pe(), i, preparation_);
    side_.copy_in(src_, values.data(), values.size() * sizeof(float));
    values.assign(c.received(n_), -1.0f);
    side_.copy_in(dst_, values.data(), values.size() * sizeof(float));
  }

  void check_data(const CollectiveCalls& c, Record& record) {
    std::vector<float> got(c.received(n_));
    side_.copy_out(got.data(), dst_, got.size() * sizeof(float));
    if (options_.spoil != Spoil::kNothing) got[got.size() / 2] += 1;
    for (size_t i = 0; i < got.size(); ++i) {
      record.errors += got[i] != expected(c, pe(), n_, i, preparation_);
    }
    record.verified += got.size();
  }

  /// Behind a barrier every PE's word is here; a fast one may be one ahead.
  void check_words(Record& record) {
    std::vector<uint64_t> got(n_);
    side_.copy_out(got.data(), words_, n_ * sizeof(uint64_t));
    if (options_.spoil != Spoil::kNothing) got[0] = 0;
    for (const uint64_t word : got) record.errors += word < preparation_;
    record.verified += n_;
  }

  std::vector<Record> gather(const Record& mine) {
    side_.copy_in(mine_, &mine, sizeof mine);
    side_.barrier();
    std::vector<Record> all(pe() == 0 ? n_ : 0);
    for (size_t from = 0; from < all.size(); ++from) {
      if (from != 0) side_.runtime().host().get(mine_, mine_, 1, static_cast<int>(from));
      side_.copy_out(&all[from], mine_, sizeof mine);
    }
    side_.barrier();
    return all;
  }

  const Program& program_;
  const BenchmarkOptions& options_;
  PealSide side_;
  Stream stream_;
  size_t n_;
  float* dst_ = nullptr;
  float* src_ = nullptr;
  uint64_t* outcome_ = nullptr;
  uint64_t* words_ = nullptr;
  Record* mine_ = nullptr;
  uint64_t preparation_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const Program program{
      .name = "collectives",
      .what = "Time of a collective call of all PEs.",
      .sizes = "8:1M",
      .ops = {{"all_reduce", Op::kAllReduce, CallWay::kTogether},
              {"all_gather", Op::kAllGather, CallWay::kTogether},
              {"broadcast", Op::kBroadcast, CallWay::kTogether},
              {"all_to_all", Op::kAllToAll, CallWay::kTogether},
              {"barrier", Op::kBarrier, CallWay::kTogether}},
      .defaults = {.scope = ScopeKind::kBlock, .threads = PEAL_CUDA ? 512 : 32, .warmup = 10},
      .metric = Metric::kCollective,
      .effort = {.operations = 200, .bytes = 8 << 20}};
  return run_program_as<CollectivesRun>(program, argc, argv);
}
