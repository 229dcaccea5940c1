// SPDX-License-Identifier: Apache-2.0
//
// Beginnings and ends: PEs that come up in any order, windows that appear while kernels run, wires
// that lose packets, a peer that refuses, a host that says stop.
#include "tests/sim/kernels.h"

namespace peal::sim {
namespace {

constexpr size_t kCounters = 2048;
constexpr uint32_t kWordsEach = 6;

/// A host that has other things to do first.
void dawdle(simt::Simulation& sim) {
  for (uint32_t turns = sim.random().below(200); turns != 0; --turns) simt::yield();
}

void put_to_next(Job& job, int pe, uint32_t round) {
  const Context ctx = job.context<Reach::kGpu>(pe);
  auto* const source = job.at<uint64_t>(pe, kSource);
  auto* const target = job.at<uint64_t>(pe, kTarget);
  if (warp.leader()) write_words(source, kWordsEach, pe, 0, round);
  must(put(ctx, warp, target, source, kWordsEach, (pe + 1) % n_pes(ctx)), "put");
  must(barrier_all(ctx, warp), "barrier_all");
  check_words(target, kWordsEach, (pe + n_pes(ctx) - 1) % n_pes(ctx), 0, round);
  must(sync_all(ctx, warp), "sync_all");  // all have looked before the next round
}

/// Each of two lanes adds one at the other PE, then both put, twice.
void count_and_put(Job& job, int pe) {
  const Context ctx = job.context<Reach::kGpu>(pe);
  const auto old = atomic_fetch_add(ctx, job.at<uint64_t>(pe, kCounters), 1, 1 - pe);
  must(old.status, "atomic_fetch_add");
  put_to_next(job, pe, 1);
  put_to_next(job, pe, 2);
}

void expect_counted(Job& job) {
  for (int pe = 0; pe < 2; ++pe) {
    expect_equal<uint64_t>(*job.at<uint64_t>(pe, kCounters), 2, "the counter");
  }
}

}  // namespace

/// Queue pairs become ready one PE after the other, while the kernels of others already call.
void start_up(simt::Simulation& sim) {
  JobOptions options = any_options(sim.random());
  options.n_pes = 3;
  options.connected = false;
  options.hears = Hears::kRecords;  // a queue pair that is not ready cannot hear its register
  Job job(sim, options);
  for (int pe = 0; pe < options.n_pes; ++pe) {
    job.launch_host(pe, [&sim, &job, pe] {
      dawdle(sim);
      job.connect(pe);
    });
    job.launch(pe, {1, 2}, [&job, pe] {
      must(sync_all(job.context<Reach::kGpu>(pe), warp), "sync_all");
      put_to_next(job, pe, 1);
    });
  }
  run_clean(sim, job);
}

/// Hosts register a window together while kernels wait for it to appear.
void new_window(simt::Simulation& sim) {
  constexpr uint32_t kBytes = 256;
  JobOptions options = any_options(sim.random());
  Job job(sim, options);
  int registered = 0;
  std::byte* memory[2];
  for (int pe = 0; pe < 2; ++pe) {
    const std::string name = "window 1 of pe " + std::to_string(pe);
    memory[pe] = static_cast<std::byte*>(sim.memory().allocate(kBytes, name));
    job.launch_host(pe, [&, pe] {
      softnic::Key key = job.key(pe, 1);
      key.number = Job::kSecondKey;
      key.bytes = kBytes;
      key.memory = memory[pe];
      job.key(pe, 4) = key;
      dawdle(sim);
      for (++registered; registered < 2;) simt::yield();
      const NicKey* keys = job.rkeys(pe, Job::kSecondKey);
      WindowTable& table = job.windows(pe);
      store_payload(&table.window[1],
                    Window{memory[pe], kBytes, {mlx5::key(Job::kSecondKey)}, keys, keys, nullptr});
      store_payload(&table.count, 2u);
      store_release<Reach::kSystem>(&table.version, 2u);
    });
    job.launch(pe, {1, 1}, [&, pe] {
      const Context ctx = job.context<Reach::kGpu>(pe);
      // Somebody else saw the window and said so, in a way that orders nothing.
      must(detail::spin(ctx,
                        [&] { return load_relaxed<Reach::kSystem>(&ctx.windows->version) == 2; }),
           "the window");
      auto* const target = reinterpret_cast<uint64_t*>(memory[pe]);
      must(p(ctx, target, tagged(pe, 0, 1), 1 - pe), "p into window 1");
      must(quiet(ctx), "quiet");
    });
  }
  run_clean(sim, job);
  for (int pe = 0; pe < 2; ++pe) {
    expect_equal(*reinterpret_cast<uint64_t*>(memory[pe]), tagged(1 - pe, 0, 1), "the window");
  }
}

/// Packets are lost and come twice: every request acts once.
void lossy_wire(simt::Simulation& sim) {
  JobOptions options = any_options(sim.random());
  options.wire_faults.lost_in_256 = 8u << sim.random().below(4);
  options.wire_faults.twice_in_256 = 16;
  options.timeout_ns = 1000 * kSecond;  // a lost packet is sent again after one
  Job job(sim, options);
  for (int pe = 0; pe < 2; ++pe) {
    job.launch(pe, {1, 2}, [&job, pe] { count_and_put(job, pe); });
  }
  run_clean(sim, job);
  expect_counted(job);
}

/// Doorbells that are heard late, twice or out of order, WQEs that stall or lose packets or the
/// peer's readiness, completions that come late: nobody notices but by the time it takes.
void fault_plan(simt::Simulation& sim) {
  using softnic::FaultKind;
  using Trigger = softnic::FaultRule::Trigger;
  constexpr FaultKind kKinds[] = {FaultKind::kDelayDoorbell,   FaultKind::kDuplicateDoorbell,
                                  FaultKind::kReorderDoorbell, FaultKind::kStall,
                                  FaultKind::kLoseAck,         FaultKind::kLoseRequest,
                                  FaultKind::kNotReady,        FaultKind::kLateCqe};
  JobOptions options = any_options(sim.random());
  options.hears = Hears::kRecords;
  options.timeout_ns = 1000 * kSecond;
  options.faults.seed = sim.random().next();
  options.faults.count = 1 + sim.random().below(3);
  for (uint32_t i = 0; i < options.faults.count; ++i) {
    softnic::FaultRule& rule = options.faults.rule[i];
    const uint32_t which = sim.random().below(8);
    rule.kind = kKinds[which];
    rule.trigger = which < 3 ? Trigger::kDoorbell : Trigger::kWqe;
    rule.chance = softnic::FaultRule::kAlways / (1 + sim.random().below(4));
    rule.ns = 100 + sim.random().below(20'000);
    rule.times = 1 + sim.random().below(2);
  }
  Job job(sim, options);
  for (int pe = 0; pe < 2; ++pe) {
    job.launch(pe, {1, 2}, [&job, pe] { count_and_put(job, pe); });
  }
  run_clean(sim, job);
  expect_counted(job);
}

/// The peer's NIC knows no such key: every lane hears of it, and the host finds a whole record.
void refused_write(simt::Simulation& sim) {
  JobOptions options = any_options(sim.random());
  options.start = sim.random().below(2) * (uint64_t{3} << 16);
  Job job(sim, options);
  job.key(1, 1).number = 0;
  const uint32_t lanes = 1 + sim.random().below(3);
  const uint32_t good = sim.random().below(4);
  job.launch(0, {2, lanes}, [&job, good] {
    const Context ctx = job.context<Reach::kGpu>(0);
    auto* const target = job.at<uint64_t>(0, kTarget);
    if (block_in_grid() == 1) {  // looks on, and learns of the error by itself
      while (quiet(ctx) == Status::kOk) relax();
      return;
    }
    // Words go through the other key, so these succeed.
    if (thread_in_block() == 0) {
      for (uint32_t i = 0; i < good; ++i) must(p(ctx, target, 1, 1), "p");
    }
    const Ticket ticket = put_nbi(ctx, warp, target, target, 1, 1);
    const Status status = wait(ctx, warp, ticket);
    expect(status == Status::kQueueError, "a lane was told " + std::string(to_string(status)));
    expect(quiet(ctx) == Status::kQueueError, "quiet did not report the error");
  });
  job.launch_host(0, [&job, &options, good] {
    const QueueError& error = job.queue(0, 1).error;
    while (load_acquire<Reach::kSystem>(&error.status) == 0) simt::yield();
    expect_equal(read(&error.syndrome), static_cast<uint8_t>(mlx5::Syndrome::kRemoteAccess),
                 "the syndrome");
    expect_equal(read(&error.wqe_index), options.start + good, "the index of the failed WQE");
  });
  sim.run();
}

/// Waits that nothing else would end.
void stopped(simt::Simulation& sim) {
  JobOptions options = any_options(sim.random());
  options.timeout_ns = 0;
  Job job(sim, options);
  job.launch(0, {1, 3}, [&job] {
    const Context ctx = job.context<Reach::kGpu>(0);
    const Status status = wait_until(ctx, job.at<uint64_t>(0, kCounters), Compare::kNe, 0);
    expect(status == Status::kAborted, "a wait ended with " + std::string(to_string(status)));
  });
  job.launch_host(0, [&sim, &job] {
    dawdle(sim);
    store_release<Reach::kSystem>(job.stop_word(0), static_cast<uint32_t>(Status::kAborted));
  });
  run_clean(sim, job);
}

}  // namespace peal::sim
