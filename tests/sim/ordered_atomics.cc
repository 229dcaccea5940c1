// SPDX-License-Identifier: Apache-2.0
//
// Users' acquires and releases: the lock and the deque of examples/, over mapped memory and by
// NICs, and words that some PEs reach by a NIC and others by loads.
#include <algorithm>
#include <vector>

#include "examples/ticket_lock.h"
#include "examples/work_deque.h"
#include "tests/sim/kernels.h"

namespace peal::sim {
namespace {

constexpr size_t kWord = 2560;
constexpr uint32_t kRecordWords = 6;
constexpr uint32_t kSlots = 4;
constexpr uint32_t kTasks = 7;
constexpr uint32_t kSecondBytes = 256;

/// Makes `round` of the word, which was round - 1.
template <Reach R>
Status tell_by(const BasicContext<R>& ctx, uint32_t kind, uint64_t* word, uint64_t round, int pe) {
  if (kind == 0) return atomic_set(ctx, word, round, pe, release);
  if (kind == 1) return atomic_inc(ctx, word, pe, release);
  if (kind == 2) return atomic_compare_swap(ctx, word, round - 1, round, pe, acq_rel).status;
  return atomic_max(ctx, word, round, pe, release);
}

constexpr uint32_t kAnswered = 3;  // rounds

/// PE 0 puts and releases a word, PE 1 waits for it, looks and answers so.
template <Reach R>
void put_and_release(Job& job, int pe, uint32_t words, uint32_t kind) {
  const BasicContext<R> ctx = job.context<R>(pe);
  auto* const word = job.at<uint64_t>(pe, kFlags);
  auto* const target = job.at<uint64_t>(pe, kTarget);
  const auto look = [&](uint32_t round) {
    must(wait_until(ctx, word, Compare::kGe, round), "wait_until");
    check_words(target, words, 1 - pe, 0, round);
  };
  for (uint32_t round = 1; round <= kAnswered; ++round) {
    if (pe == 1) look(round);
    auto* const source = job.at<uint64_t>(pe, kSource, round * 16);
    write_words(source, words, pe, 0, round);
    must(put_nbi(ctx, target, source, words, 1 - pe).status, "put_nbi");
    must(tell_by(ctx, kind, word, round, 1 - pe), "release");
    if (pe == 0) look(round);
  }
  must(quiet(ctx), "quiet");
}

/// Takes the lock at PE 0 and counts the record there one up; its words follow one another.
void count_up(Job& job, int pe, uint32_t rounds) {
  const Context ctx = job.context<Reach::kGpu>(pe);
  const uint32_t me = block_in_grid();
  auto* const at = job.at<TicketLock>(pe, kWord);
  auto* const record = job.at<uint64_t>(pe, kTarget);
  for (uint32_t round = 0; round < rounds; ++round) {
    auto* const mine = job.at<uint64_t>(pe, kSource, (me * rounds + round) * kRecordWords);
    const Fetched<uint64_t> ticket = lock(ctx, at, 0);
    must(ticket.status, "lock");
    must(get(ctx, mine, record, kRecordWords, 0), "get");
    for (uint32_t i = 0; i < kRecordWords; ++i) {
      expect_equal(read(mine + i), ticket.value * (i + 1), "a word under the lock");
      write(mine + i, (ticket.value + 1) * (i + 1));
    }
    // Not waited for: unlock() goes behind it, and the next round has another source.
    must(put_nbi(ctx, record, mine, kRecordWords, 0).status, "put_nbi");
    must(unlock(ctx, at, 0, ticket.value), "unlock");
  }
  must(quiet(ctx), "quiet");
}

void lock_job(simt::Simulation& sim, bool direct) {
  constexpr uint32_t kRounds = 2;
  JobOptions options = any_options(sim.random());
  options.n_pes = 2 + static_cast<int>(sim.random().below(2));
  options.direct = direct;
  Job job(sim, options);
  const uint32_t blocks = 1 + sim.random().below(2);
  for (int pe = 0; pe < options.n_pes; ++pe) {
    job.launch(pe, {blocks, 1}, [&job, pe] { count_up(job, pe, kRounds); });
  }
  run_clean(sim, job);
  const uint64_t turns = static_cast<uint64_t>(options.n_pes) * blocks * kRounds;
  for (uint32_t i = 0; i < kRecordWords; ++i) {
    expect_equal(*job.at<uint64_t>(0, kTarget, i), turns * (i + 1), "the record in the end");
  }
}

/// Two words that differ from task to task and belong together.
struct Task {
  uint64_t name;
  uint64_t check;
};
using Deque = WorkDeque<Task>;

Task task_of(uint32_t i) { return {tagged(0, i, 1), ~tagged(0, i, 1)}; }

/// Marks a task as done once, by its number.
void note_done(std::vector<uint32_t>& done, const Task& task) {
  const uint32_t number = (task.name >> 32) & 0xffff;
  expect(task.name == task_of(number % kTasks).name && task.check == ~task.name,
         "a task is not what was pushed");
  expect_equal(++done[number], 1u, "how often task " + std::to_string(number) + " was taken");
}

void own_deque(const Context& ctx, const Deque& deque, std::vector<uint32_t>& done) {
  for (uint32_t next = 0; next < kTasks;) {
    const Fetched<bool> pushed = deque.push(ctx, task_of(next));
    must(pushed.status, "push");
    if (pushed.value) ++next;
    if (pushed.value && next % 3 != 0) continue;
    Task mine{};
    const Fetched<bool> taken = deque.pop(ctx, &mine);
    must(taken.status, "pop");
    if (taken.value) note_done(done, mine);
  }
}

/// Steals until all tasks are done, by whomever.
void rob_deque(const Context& ctx, const Deque& deque, Task* landing, std::vector<uint32_t>& done) {
  const auto left = [&] { return std::find(done.begin(), done.end(), 0u) != done.end(); };
  must(detail::spin(ctx,
                    [&] {
                      const Fetched<bool> stolen = deque.steal(ctx, 0, landing);
                      must(stolen.status, "steal");
                      if (stolen.value) note_done(done, read(landing));
                      return !left();
                    }),
       "tasks that nobody takes");
}

void deque_job(simt::Simulation& sim, bool direct) {
  JobOptions options = any_options(sim.random());
  options.n_pes = 2 + static_cast<int>(sim.random().below(2));
  options.direct = direct;
  Job job(sim, options);
  std::vector<std::byte*> slots;
  if (!direct && sim.random().one_in(2)) {
    for (int pe = 0; pe < options.n_pes; ++pe) {
      slots.push_back(job.add_host_window(pe, kSecondBytes));
    }
  } else {
    for (int pe = 0; pe < options.n_pes; ++pe) slots.push_back(job.heap(pe) + kTarget);
  }
  std::vector<uint32_t> done(kTasks);
  for (int pe = 0; pe < options.n_pes; ++pe) {
    const Deque deque{job.at<uint64_t>(pe, kWord),
                      reinterpret_cast<Task*>(slots[static_cast<size_t>(pe)]), kSlots};
    job.launch(pe, {1, 1}, [&job, &done, deque, pe] {
      const Context ctx = job.context<Reach::kGpu>(pe);
      if (pe == 0) return own_deque(ctx, deque, done);
      rob_deque(ctx, deque, job.at<Task>(pe, kSource), done);
    });
  }
  run_clean(sim, job);
}

}  // namespace

void lock_mapped(simt::Simulation& sim) { lock_job(sim, true); }
void lock_by_nic(simt::Simulation& sim) { lock_job(sim, false); }
void deque_mapped(simt::Simulation& sim) { deque_job(sim, true); }
void deque_by_nic(simt::Simulation& sim) { deque_job(sim, false); }

/// Data by the NIC and a release behind it; the PE that has the word waits for it and looks.
void release_by_nic(simt::Simulation& sim) {
  JobOptions options = any_options(sim.random());
  const uint32_t owner = sim.random().below(3);
  options.owned = owner != 0;
  Job job(sim, options);
  const uint32_t words = 1 + sim.random().below(12);
  const uint32_t kind = sim.random().below(4);
  for (int pe = 0; pe < 2; ++pe) {
    job.launch(pe, {1, 1}, [&job, pe, words, kind, owner] {
      if (owner == 0) put_and_release<Reach::kGpu>(job, pe, words, kind);
      if (owner == 1) put_and_release<Reach::kBlock>(job, pe, words, kind);
      if (owner == 2) put_and_release<Reach::kLane>(job, pe, words, kind);
    });
  }
  run_clean(sim, job);
}

/// Three PEs: PE 0 stores at home, puts to PE 1 and releases a word there. PE 1 acquires it and
/// releases a word of PE 2, which gets what PE 0 did, from either, without having heard of PE 0.
void release_chain(simt::Simulation& sim) {
  constexpr uint32_t kRounds = 2;
  JobOptions options = any_options(sim.random());
  options.n_pes = 3;
  const uint32_t route = sim.random().below(4);
  options.direct = route == 0;
  options.settle = route > 1;
  if (route == 2) options.map = [](int pe, int peer) { return (pe == 0) == (peer == 0); };
  if (route == 3) options.map = [](int pe, int peer) { return (pe == 2) == (peer == 2); };
  Job job(sim, options);
  const uint32_t words = 1 + sim.random().below(12);
  for (int pe = 0; pe < 3; ++pe) {
    job.launch(pe, {1, 1}, [&job, pe, words] {
      const Context ctx = job.context<Reach::kGpu>(pe);
      auto* const source = job.at<uint64_t>(pe, kSource);
      auto* const back = job.at<uint64_t>(pe, kSource, 32);
      auto* const target = job.at<uint64_t>(pe, kTarget);
      auto* const word = job.at<uint64_t>(pe, kFlags);
      for (uint32_t round = 1; round <= kRounds; ++round) {
        if (pe == 0) {
          write_words(source, words, 0, 0, round);
          must(put_nbi(ctx, target, source, words, 1).status, "put_nbi");
        } else {
          const auto come = [&] { return atomic_fetch(ctx, word, pe, acquire).value >= round; };
          must(detail::spin(ctx, come), "the word");
        }
        if (pe == 2) {
          must(get(ctx, back, source, words, 0), "get of what PE 0 stored");
          check_words(back, words, 0, 0, round);
          must(get(ctx, back, target, words, 1), "get of what PE 0 put");
          check_words(back, words, 0, 0, round);
        }
        must(atomic_set(ctx, word, round, (pe + 1) % 3, release), "release");
        if (pe == 0) must(wait_until(ctx, word, Compare::kGe, round), "wait_until");
      }
      must(quiet(ctx), "quiet");
    });
  }
  run_clean(sim, job);
}

/// PE 0 reaches the others by its NIC, and they one another by loads and stores. PE 0 puts to PE 2,
/// whose GPU shows what its NIC writes in no order, and releases a word there, which PE 1 acquires
/// by loads. PE 1 stores into PE 2's memory and releases a word of PE 0 by its NIC.
void release_mixed(simt::Simulation& sim) {
  constexpr uint32_t kRounds = 2;
  JobOptions options = any_options(sim.random());
  options.n_pes = 3;
  options.settle = true;
  options.map = [](int pe, int peer) { return (pe == 0) == (peer == 0); };
  options.fence = NicFence::kSystem;  // to the model the GPU's memory is the host's as well
  Job job(sim, options);
  job.put_on_host(2);
  const uint32_t words = 1 + sim.random().below(12);
  const bool sets = sim.random().one_in(2);
  const auto wait_for = [&job](int pe, int where, uint64_t round) {
    const Context ctx = job.context<Reach::kGpu>(pe);
    must(detail::spin(ctx,
                      [&] {
                        const auto seen =
                            atomic_fetch(ctx, job.at<uint64_t>(pe, kFlags), where, acquire);
                        must(seen.status, "atomic_fetch");
                        return seen.value >= round;
                      }),
         "the word");
  };
  const auto tell = [&job, sets](int pe, int whom, uint64_t round) {
    const Context ctx = job.context<Reach::kGpu>(pe);
    auto* const word = job.at<uint64_t>(pe, kFlags);
    must(sets ? atomic_set(ctx, word, round, whom, release) : atomic_inc(ctx, word, whom, release),
         "release");
  };
  for (int pe = 0; pe < 2; ++pe) {
    job.launch(pe, {1, 1}, [&job, pe, words, wait_for, tell] {
      const Context ctx = job.context<Reach::kGpu>(pe);
      auto* const source = job.at<uint64_t>(pe, kSource);
      auto* const back = job.at<uint64_t>(pe, kSource, 32);
      auto* const theirs = job.at<uint64_t>(pe, kTarget);
      for (uint32_t round = 1; round <= kRounds; ++round) {
        if (pe == 1) {
          wait_for(1, 2, round);
          must(get(ctx, back, theirs, words, 2), "get");
          check_words(back, words, 0, 0, round);
        }
        write_words(source, words, pe, 0, round);
        must(put(ctx, theirs + pe * 16, source, words, 2), "put");
        tell(pe, pe == 0 ? 2 : 0, round);
        if (pe == 0) {
          wait_for(0, 0, round);
          must(get(ctx, back, theirs + 16, words, 2), "get");
          check_words(back, words, 1, 0, round);
        }
      }
    });
  }
  run_clean(sim, job);
}

}  // namespace peal::sim
