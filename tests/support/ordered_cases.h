// SPDX-License-Identifier: Apache-2.0
//
// Atomics that acquire and release, between PEs: every call, messages of whole blocks, and the lock
// and the deque of examples/. As family_cases.h, for tests/gpu and tests/mp.
#pragma once

#include <string>

#include "examples/ticket_lock.h"
#include "examples/work_deque.h"
#include "tests/support/family_cases.h"

namespace peal::api_test {

/// Every call, in the orders that it takes; each line begins with what the one before left.
template <Reach R, class T>
PEAL_KERNEL call_ordered(Faults faults, BasicContext<R> ctx, T* words, T* old) {
  T* const word = words + ctx.pe;
  const int pe = next_pe(ctx);
  const auto was = [&](const Fetched<T>& answer, T wanted, unsigned line = __builtin_LINE()) {
    check(faults, answer.status, line);
    check(faults, answer.value == wanted, line);
  };
  const auto came = [&](const Ticket& ticket, T wanted, unsigned line = __builtin_LINE()) {
    check(faults, wait(ctx, ticket), line);
    check(faults, load_payload(old) == wanted, line);
  };
  check(faults, atomic_set(ctx, word, T{10}, pe, release));
  was(atomic_fetch(ctx, word, pe, acquire), T{10});
  was(atomic_swap(ctx, word, T{12}, pe, acq_rel), T{10});
  was(atomic_compare_swap(ctx, word, T{1}, T{2}, pe, acq_rel), T{12});
  was(atomic_compare_swap(ctx, word, T{12}, T{20}, pe, acquire), T{12});
  was(atomic_compare_swap(ctx, word, T{20}, T{30}, pe, release), T{20});
  check(faults, atomic_add(ctx, word, T{12}, pe, release));
  check(faults, atomic_inc(ctx, word, pe, release));
  was(atomic_fetch_add(ctx, word, T{1}, pe, acquire), T{43});
  was(atomic_fetch_inc(ctx, word, pe, acq_rel), T{44});
  check(faults, atomic_or(ctx, word, T{0x50}, pe, release));
  was(atomic_fetch_or(ctx, word, T{2}, pe, acq_rel), T{0x7d});
  check(faults, atomic_and(ctx, word, T{0x6f}, pe, release));
  was(atomic_fetch_and(ctx, word, T{0x3f}, pe, acquire), T{0x6f});
  check(faults, atomic_xor(ctx, word, T{0x10}, pe, release));
  was(atomic_fetch_xor(ctx, word, T{0x0f}, pe, release), T{0x3f});
  check(faults, atomic_max(ctx, word, T{0x40}, pe, release));
  was(atomic_fetch_max(ctx, word, T{0x41}, pe, acq_rel), T{0x40});
  check(faults, atomic_min(ctx, word, T{7}, pe, release));
  was(atomic_fetch_min(ctx, word, T{9}, pe, acquire), T{7});
  came(atomic_fetch_add_nbi(ctx, old, word, T{1}, pe, acquire), T{7});
  came(atomic_swap_nbi(ctx, old, word, T{3}, pe, acq_rel), T{8});
  came(atomic_compare_swap_nbi(ctx, old, word, T{3}, T{4}, pe, release), T{3});
  came(atomic_fetch_nbi(ctx, old, word, pe, acquire), T{4});
}

/// The same of reals.
template <Reach R, class T>
PEAL_KERNEL call_ordered_reals(Faults faults, BasicContext<R> ctx, T* words) {
  T* const word = words + ctx.pe;
  const int pe = next_pe(ctx);
  check(faults, atomic_set(ctx, word, T{0.5}, pe, release));
  check(faults, atomic_add(ctx, word, T{1}, pe, release));
  const Fetched<T> sum = atomic_fetch_add(ctx, word, T{2}, pe, acq_rel);
  check(faults, sum.status);
  check(faults, sum.value == T{1.5});
  const Fetched<T> last = atomic_fetch_add(ctx, word, T{2}, pe, acquire);
  check(faults, last.value == T{3.5});
  check(faults, atomic_fetch(ctx, word, pe, acquire).value == T{5.5});
}

template <class T>
std::string run_ordered(Runtime& pe) {
  const Cells<T> words(pe, static_cast<size_t>(pe.n_pes()));
  const Cells<T> old(pe, 1);
  if constexpr (std::is_floating_point_v<T>) {
    return run_family(pe, {}, call_ordered_reals<Reach::kGpu, T>, pe.context(), words.data());
  } else {
    return run_family(pe, {}, call_ordered<Reach::kGpu, T>, pe.context(), words.data(), old.data());
  }
}

struct Mail {
  uint32_t* source;  // [kMailWords], at home
  uint32_t* sent;    // [kMailWords], by the PE before
  uint32_t* fetched;
  uint64_t* come;   // by the PE before: what it has put is there
  uint64_t* ready;  // at home: the source may be fetched
  uint64_t* taken;  // by the PE behind: it has fetched
};
inline constexpr uint32_t kMailWords = 300;

template <class S>
PEAL_DEVICE void check_mail(Faults faults, S scope, const uint32_t* at, int pe, uint64_t round) {
  for (uint32_t i = scope.rank(); i < kMailWords; i += scope.size()) {
    check(faults, load_payload(at + i) == value_at<uint32_t>(pe, i) + round);
  }
  scope.sync();
}

/// Each PE writes a message, puts it to the next PE and lets that one fetch it too; all lanes
/// store, put and get, and one of them releases and acquires.
template <Reach R, class S>
PEAL_KERNEL exchange_mail(Faults faults, BasicContext<R> ctx, S scope, Mail mail, uint64_t rounds) {
  const int next = next_pe(ctx);
  const int previous = previous_pe(ctx);
  for (uint64_t round = 1; round <= rounds; ++round) {
    for (uint32_t i = scope.rank(); i < kMailWords; i += scope.size()) {
      store_payload(mail.source + i, static_cast<uint32_t>(value_at<uint32_t>(ctx.pe, i) + round));
    }
    scope.sync();
    const Ticket put = put_nbi(ctx, scope, mail.sent, mail.source, kMailWords, next);
    check(faults, put.status);
    scope.sync();
    if (scope.leader()) {
      check(faults, atomic_set(ctx, mail.come, round, next, release));
      check(faults, atomic_inc(ctx, mail.ready, ctx.pe, release));
    }
    check(faults, wait_until(ctx, scope, mail.come, Compare::kGe, round));
    check_mail(faults, scope, mail.sent, previous, round);
    if (scope.leader()) {
      const auto there = [&] {
        const Fetched<uint64_t> seen = atomic_fetch(ctx, mail.ready, previous, acquire);
        return seen.status != Status::kOk || seen.value >= round;
      };
      check(faults, spin_until(ctx.timeout_ns, there, [] { return false; }) == SpinEnd::kDone);
    }
    scope.sync();
    check(faults, get(ctx, scope, mail.fetched, mail.source, kMailWords, previous));
    check_mail(faults, scope, mail.fetched, previous, round);
    if (scope.leader()) check(faults, atomic_set(ctx, mail.taken, round, previous, release));
    check(faults, wait_until(ctx, scope, mail.taken, Compare::kGe, round));
    check(faults, wait(ctx, scope, put));  // the source is written again
  }
  check(faults, quiet(ctx, scope));
}

template <class S, Reach R>
std::string run_mail(Runtime& pe, const BasicContext<R>& ctx, const Grid& grid) {
  const Cells<uint32_t> words(pe, 3 * kMailWords);
  const Cells<uint64_t> flags(pe, 3);
  const Mail mail{words.data(), words.data() + kMailWords, words.data() + 2 * kMailWords,
                  flags.data(), flags.data() + 1,          flags.data() + 2};
  return run_family(pe, grid, exchange_mail<R, S>, ctx, S{}, mail, uint64_t{20});
}

inline constexpr uint32_t kRecordWords = 11;

/// One lane of each block counts the record of PE 0 up, under a lock.
template <Reach R>
PEAL_KERNEL count_record(Faults faults, BasicContext<R> ctx, TicketLock* at, uint64_t* record,
                         uint64_t* mine, uint32_t rounds) {
  if (thread_in_block() != 0) return;
  for (uint32_t round = 0; round < rounds; ++round) {
    uint64_t* const copy = mine + (block_in_grid() * rounds + round) * kRecordWords;
    const Fetched<uint64_t> ticket = lock(ctx, at, 0);
    check(faults, ticket.status);
    if (ticket.status != Status::kOk) return;
    check(faults, get(ctx, copy, record, kRecordWords, 0));
    for (uint32_t i = 0; i < kRecordWords; ++i) {
      check(faults, load_payload(copy + i) == ticket.value * (i + 1));
      store_payload(copy + i, (ticket.value + 1) * (i + 1));
    }
    check(faults, put_nbi(ctx, record, copy, kRecordWords, 0).status);
    check(faults, unlock(ctx, at, 0, ticket.value));
  }
  check(faults, quiet(ctx));
}

template <Reach R>
std::string run_locked(Runtime& pe, const BasicContext<R>& ctx, unsigned blocks) {
  constexpr uint32_t kRounds = 10;
  const Cells<TicketLock> lock(pe, 1);
  const Cells<uint64_t> record(pe, kRecordWords);
  const Cells<uint64_t> mine(pe, size_t{blocks} * kRounds * kRecordWords);
  return run_family(pe, {.blocks = blocks, .threads = 32}, count_record<R>, ctx, lock.data(),
                    record.data(), mine.data(), kRounds);
}

struct Chore {
  uint64_t number;
  uint64_t check[3];
};
inline constexpr uint64_t kChores = 200;
PEAL_HD Chore chore(uint64_t i) { return {i, {~i, i * i, i + 77}}; }

/// PE 0 pushes more tasks than its deque has room for; all take them, and each is taken once.
template <Reach R>
PEAL_KERNEL share_chores(Faults faults, BasicContext<R> ctx, WorkDeque<Chore> deque, Chore* landing,
                         uint64_t* taken) {
  const auto done = [&](const Chore& one) {
    const Chore right = chore(one.number);
    check(faults, one.number < kChores && one.check[0] == right.check[0]);
    check(faults, one.check[1] == right.check[1] && one.check[2] == right.check[2]);
    const Fetched<uint64_t> before = atomic_fetch_inc(ctx, taken + 1 + one.number % kChores, 0);
    check(faults, before.status);
    check(faults, before.value == 0);
    check(faults, atomic_inc(ctx, taken, 0));
  };
  for (uint64_t i = 0; ctx.pe == 0 && i < kChores;) {
    const Fetched<bool> pushed = deque.push(ctx, chore(i));
    check(faults, pushed.status);
    if (pushed.status != Status::kOk) return;
    if (pushed.value) ++i;
    if (pushed.value && i % 5 != 0) continue;
    Chore mine{};
    const Fetched<bool> popped = deque.pop(ctx, &mine);
    check(faults, popped.status);
    if (popped.value) done(mine);
  }
  const auto all_done = [&] {
    Chore mine{};
    const Fetched<bool> got = ctx.pe == 0 ? deque.pop(ctx, &mine) : deque.steal(ctx, 0, landing);
    check(faults, got.status);
    if (got.value) done(ctx.pe == 0 ? mine : load_payload(landing));
    const Fetched<uint64_t> so_far = atomic_fetch(ctx, taken, 0);
    return got.status != Status::kOk || so_far.status != Status::kOk || so_far.value == kChores;
  };
  check(faults, spin_until(ctx.timeout_ns, all_done, [] { return false; }) == SpinEnd::kDone);
}

template <Reach R>
std::string run_stolen(Runtime& pe, const BasicContext<R>& ctx) {
  constexpr uint32_t kSlots = 16;
  const Cells<uint64_t> ends(pe, 1);
  const Cells<Chore> slots(pe, kSlots);
  const Cells<Chore> landing(pe, 1);
  const Cells<uint64_t> taken(pe, kChores + 1);
  return run_family(pe, {}, share_chores<R>, ctx,
                    WorkDeque<Chore>{ends.data(), slots.data(), kSlots}, landing.data(),
                    taken.data());
}

}  // namespace peal::api_test
