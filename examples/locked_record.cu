// SPDX-License-Identifier: Apache-2.0
//
// A record that all PEs write: longer than a word, so no atomic changes it, and kept by a lock.
//
//   mpirun -np 4 bazel-bin/examples/locked_record        prints ok
//
//   any PE                              PE 0
//   lock      acquire  <--------------  what the holder before had put
//   get                <--------------  record
//   put_nbi            -------------->  record
//   unlock    release  -------------->  behind the put: nobody waits for it
//
// The lock is ticket_lock.h: a fetching atomic with acquire, a set with release. Without the two
// the next holder may get the record as it was.
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>

#include "peal/peal.h"
#include "ticket_lock.h"

namespace {

constexpr uint32_t kBlocks = 2;  // each takes the lock for itself
constexpr uint64_t kRounds = 20;
constexpr uint64_t kBuckets = 7;

/// What the PEs have drawn so far. Each holder leaves the parts in agreement.
struct Record {
  uint64_t numbers;
  uint64_t sum;
  uint64_t bucket[kBuckets];  // how many left this rest
};

struct Outcome {
  peal::Status status;
  uint32_t stale;  // records that were not as the holder before had left them
};

struct Objects {
  TicketLock* lock;
  Record* record;    // PE 0's counts
  Record* mine;      // [kBlocks][kRounds]
  Outcome* outcome;  // [kBlocks]
};

PEAL_HD bool agrees(const Record& record) {
  uint64_t numbers = 0;
  for (const uint64_t each : record.bucket) numbers += each;
  return numbers == record.numbers;
}

PEAL_HD void add(Record* record, uint64_t number) {
  ++record->numbers;
  record->sum += number;
  ++record->bucket[number % kBuckets];
}

}  // namespace

// One thread of each block.
PEAL_KERNEL draw(peal::Context ctx, Objects at) {
  using peal::Status;
  constexpr int kKeeper = 0;
  Status status = Status::kOk;
  uint32_t stale = 0;
  for (uint64_t round = 0; round < kRounds && status == Status::kOk; ++round) {
    // A source of its own for each round: put_nbi does not wait until it is read.
    Record* const mine = &at.mine[blockIdx.x * kRounds + round];
    const auto ticket = lock(ctx, at.lock, kKeeper);
    status = ticket.status;
    if (status != Status::kOk) break;
    status = peal::get(ctx, mine, at.record, 1, kKeeper);
    // The tickets are the numbers: the record has those before this one.
    if (status == Status::kOk && (!agrees(*mine) || mine->numbers != ticket.value)) ++stale;
    add(mine, ticket.value);
    const Status sent = peal::put_nbi(ctx, at.record, mine, 1, kKeeper).status;
    if (status == Status::kOk) status = sent;
    const Status left = unlock(ctx, at.lock, kKeeper, ticket.value);
    if (status == Status::kOk) status = left;
  }
  const Status end = peal::quiet(ctx);
  at.outcome[blockIdx.x] = {status != Status::kOk ? status : end, stale};
}

int main() {
  return peal::run_main([] {
    peal::Runtime pe = peal::start();
    const Objects at{.lock = pe.allocate<TicketLock>(1),
                     .record = pe.allocate<Record>(1),
                     .mine = pe.allocate<Record>(kBlocks * kRounds),
                     .outcome = pe.allocate<Outcome>(kBlocks)};
    peal::launch({.blocks = kBlocks, .threads = 1}, draw, pe.context(), at).wait();
    pe.check();
    Outcome outcome[kBlocks];
    pe.copy_out(outcome, at.outcome, sizeof outcome);
    for (const Outcome& each : outcome) {
      if (each.status != peal::Status::kOk) throw std::runtime_error(to_string(each.status));
      if (each.stale != 0) throw std::runtime_error("a holder of the lock got an old record");
    }
    pe.barrier();  // all have drawn, and quiet() has brought their records to PE 0
    if (pe.my_pe() != 0) return 0;

    Record record{};
    pe.copy_out(&record, at.record, sizeof record);
    Record expected{};
    const uint64_t turns = static_cast<uint64_t>(pe.n_pes()) * kBlocks * kRounds;
    for (uint64_t number = 0; number < turns; ++number) add(&expected, number);
    if (record.numbers != turns || record.sum != expected.sum || !agrees(record)) {
      throw std::runtime_error("the record has " + std::to_string(record.numbers) +
                               " numbers with sum " + std::to_string(record.sum) + ", not " +
                               std::to_string(turns) + " with sum " + std::to_string(expected.sum));
    }
    std::printf("ok\n");
    return 0;
  });
}
