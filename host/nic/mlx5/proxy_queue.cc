// SPDX-License-Identifier: Apache-2.0
#include "host/nic/mlx5/proxy_queue.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include "device/base/order.h"
#include "device/mlx5/key.h"
#include "host/base/exception.h"

namespace peal {
namespace {

using mlx5::Syndrome;
using WorkKind = ProxyWork::Kind;
using Request = nic::SendRequest;

constexpr uint32_t kScratchCell = kLandingCells + 1;

Request::Kind request_kind(WorkKind kind) {
  switch (kind) {
    case WorkKind::kRead:
      return Request::Kind::kRead;
    case WorkKind::kCompareSwap:
    case WorkKind::kMasked:
      return Request::Kind::kCompareSwap;
    case WorkKind::kFetchAdd:
      return Request::Kind::kFetchAdd;
    default:
      return Request::Kind::kWrite;
  }
}

bool waits_for_fetches(mlx5::Fence fence) {
  return fence == mlx5::Fence::kFence || fence == mlx5::Fence::kFenceAndSmall;
}

/// Two big-endian words, as they lie in memory.
uint64_t pair(uint32_t first, uint32_t second) {
  return uint64_t{Be32(first).raw} | uint64_t{Be32(second).raw} << 32;
}

}  // namespace

/// What is on its way to one post(). Not initialised: it is made for every turn.
struct ProxyQueue::Batch {
  std::array<Request, kBatch> request;
  std::byte in_place[kBatch][nic::VerbsQueue::kInlineBytes];
  size_t count = 0;
};

ProxyQueue::ProxyQueue(nic::VerbsQueue& nic, const nic::CarriedMemory& memory,
                       nic::FlushReads* flushes)
    : nic_(nic),
      flushes_(flushes),
      record_(
          reinterpret_cast<const mlx5::DoorbellRecord*>(memory.begin + memory.layout.doorbell())),
      cqe_(reinterpret_cast<mlx5::Cqe*>(memory.begin + memory.layout.cqe())),
      landing_(reinterpret_cast<LandingCell*>(memory.begin + memory.layout.landing())),
      landing_address_(memory.landing_address),
      landing_lkey_(mlx5::wire(memory.landing_key).host()),
      ring_{memory.begin + memory.layout.send_queue(), memory.layout.depth, nic.number()},
      window_(nic.capacity()) {}

void ProxyQueue::start() {
  next_ = posted_ = sent_ = told_ = done_ = cqes_ = 0;
  last_word_ = ~uint64_t{0};
  fault_ = Syndrome::kNone;
  state_ = State::kRunning;
}

bool ProxyQueue::advance() {
  if (state_ == State::kStopped || state_ == State::kFailed) return false;
  const bool worked = sent_ != done_ && collect();
  switch (state_) {
    case State::kRunning:
      return take() || worked;
    case State::kFlushing:
      return end_flush() || worked;
    case State::kFailing:
      if (!drained()) return worked;
      fail(next_, fault_opcode_, fault_);
      nic_.to_error();  // the other end is to notice
      return true;
    default:
      return worked;
  }
}

bool ProxyQueue::busy() const {
  if (state_ == State::kStopped || state_ == State::kFailed) return false;
  return sent_ != done_ || next_ != posted_ || unseen() != 0;
}

// kPostedBeforeDoorbell: acquires the entries that the record covers.
uint16_t ProxyQueue::unseen() const {
  const Be32 count =
      Be32::from_raw(load_acquire<Reach::kSystem, Edge::kPostedBeforeDoorbell>(&record_->send.raw));
  return static_cast<uint16_t>(count.host() - posted_);
}

bool ProxyQueue::observe() {
  posted_ += unseen();
  // Backwards it went, or further than the ring is long: neither do kernels of ours.
  if (posted_ - next_ <= ring_.depth) return true;
  fail_when_drained(mlx5::Opcode::kNop, Syndrome::kLocalQpOperation);
  return false;
}

bool ProxyQueue::collect() {
  std::array<nic::SendCompletion, kBatch> completions;
  const size_t count = nic_.poll(completions);
  // There is one CQE: of successes that came together only the newest need be written there.
  size_t newest = count;
  for (size_t i = 0; i < count && completions[i].syndrome == 0; ++i) {
    if (window_[completions[i].id % window_.size()].reports) newest = i;
  }
  for (size_t i = 0; i < count && state_ != State::kFailed; ++i) {
    if (i < newest && newest != count) {
      done_ = completions[i].id + 1;
    } else {
      take_completion(completions[i]);
    }
  }
  return count != 0;
}

void ProxyQueue::take_completion(const nic::SendCompletion& completion) {
  const Sent sent = window_[completion.id % window_.size()];
  done_ = completion.id + 1;
  if (completion.syndrome != 0) {
    fail(sent.index, sent.opcode, static_cast<Syndrome>(completion.syndrome),
         completion.vendor_syndrome);
  } else if (state_ == State::kMasked && done_ == sent_) {
    finish_masked(load_relaxed<Reach::kSystem>(&landing_[kScratchCell].value));
  } else if (sent.reports) {
    write_cqe(sent.index, sent.opcode, mlx5::CqeOpcode::kRequester);
  }
}

bool ProxyQueue::take() {
  if (!observe()) return true;
  if (next_ == posted_) return false;
  Batch batch;
  ProxyWork work;
  while (next_ != posted_ && batch.count < kBatch && admit(batch, work)) {
  }
  if (batch.count == 0) return state_ != State::kRunning;
  const uint64_t before = sent_;
  const int error = post(batch);
  if (sent_ - before != batch.count) {
    // What was found in entries behind the first that was refused is found again.
    const Sent& refused = window_[sent_ % window_.size()];
    next_ = refused.index;
    state_ = State::kRunning;
    if (error != ENOMEM) fail_when_drained(refused.opcode, Syndrome::kLocalQpOperation);
  }
  return sent_ != before;
}

/// Takes one entry; false when it has to wait for what is before it, or is wrong.
bool ProxyQueue::admit(Batch& batch, ProxyWork& work) {
  if (sent_ + batch.count - done_ + 1 >= window_.size()) return false;  // one is for drained()
  const Syndrome wrong = decode_for_proxy(ring_, next_, posted_, work);
  if (wrong != Syndrome::kNone) {
    fail_when_drained(work.opcode, wrong);
    return false;
  }
  if (work.fence == mlx5::Fence::kStrong && (batch.count != 0 || !drained())) return false;
  if (work.kind == WorkKind::kMasked) return batch.count == 0 && begin_masked(work);
  if (work.opcode == mlx5::Opcode::kDump && flushes_ != nullptr) {
    return batch.count == 0 && begin_flush(work);
  }
  add(work, batch);
  next_ += work.blocks;
  return true;
}

Request& ProxyQueue::next_request(Batch& batch, const Sent& sent) {
  const uint64_t id = sent_ + batch.count;
  Request& request = batch.request[batch.count++];
  window_[id % window_.size()] = sent;
  request = {};
  request.id = id;
  // Success is heard of only where it was signalled: without that there would be no room some time.
  request.signalled = sent.reports || id % (window_.size() / 4) == 0;
  return request;
}

void ProxyQueue::add(const ProxyWork& work, Batch& batch) {
  std::byte* const in_place = batch.in_place[batch.count];
  Request& request = next_request(batch, {next_, work.opcode, work.reports});
  request.kind = request_kind(work.kind);
  request.fence = waits_for_fetches(work.fence);
  // An entry that moves nothing is a write of no bytes: done when all before it is.
  if (work.kind == WorkKind::kNothing) return;
  request.remote = work.remote;
  request.rkey = work.rkey;
  request.bytes = work.bytes;
  request.lkey = work.lkey;
  request.local = work.local;
  request.swap_or_add = work.swap_or_add;
  request.compare = work.compare;
  if (work.kind == WorkKind::kInlineWrite) {
    std::memcpy(in_place, work.in_place, sizeof work.in_place);
    request.in_place = true;
    request.local = reinterpret_cast<uint64_t>(in_place);
  }
}

/// Gives the batch to the NIC, or as much as it takes; then answers the errno.
int ProxyQueue::post(const Batch& batch) {
  int error = 0;
  const size_t taken = nic_.post(std::span(batch.request.data(), batch.count), &error);
  for (size_t i = 0; i < taken; ++i) {
    if (batch.request[i].signalled) told_ = sent_ + i + 1;
  }
  sent_ += taken;
  return error;
}

/// True if everything sent is complete. Else sees to it that its completion will be heard of.
bool ProxyQueue::drained() {
  if (sent_ == done_) return true;
  if (told_ == sent_) return false;
  Batch batch;
  next_request(batch, {next_, mlx5::Opcode::kNop, false}).signalled = true;
  post(batch);  // the same again if it was not taken
  return false;
}

/// Begins when all entries before it are complete. Never lets the entry behind it be taken in the
/// same turn.
bool ProxyQueue::begin_flush(const ProxyWork& work) {
  if (!drained()) return false;
  work_ = work;
  try {
    const auto begun = flushes_->begin();
    if (!begun) return false;
    flush_ = *begun;
    state_ = State::kFlushing;
  } catch (const Error&) {
    fail_when_drained(work.opcode, Syndrome::kTransportRetryExceeded);
  }
  return false;
}

bool ProxyQueue::end_flush() {
  const auto syndrome = flushes_->ended(flush_);
  if (!syndrome) return false;
  if (*syndrome != 0) {
    fail_when_drained(work_.opcode, static_cast<Syndrome>(*syndrome));
    return true;
  }
  if (work_.reports) write_cqe(next_, work_.opcode, mlx5::CqeOpcode::kRequester);
  next_ += work_.blocks;
  state_ = State::kRunning;
  return true;
}

LandingCell* ProxyQueue::cell_of(const ProxyWork& work) const {
  const uint64_t offset = work.local - landing_address_;
  const bool a_cell =
      offset % sizeof(LandingCell) == 0 && offset / sizeof(LandingCell) <= kLandingCells;
  if (work.lkey != landing_lkey_ || !a_cell) return nullptr;
  return &landing_[offset / sizeof(LandingCell)];
}

/// Never lets the entry behind it be taken in the same turn.
bool ProxyQueue::begin_masked(const ProxyWork& work) {
  if (cell_of(work) == nullptr) {  // whose value no CPU could write
    fail_when_drained(work.opcode, Syndrome::kLocalProtection);
    return false;
  }
  work_ = work;
  const bool known = last_word_ == work.remote / 8 && last_rkey_ == work.rkey;
  guess_ = known ? last_value_ : 0;
  if (try_masked()) state_ = State::kMasked;
  return false;
}

/// Swaps in what the word becomes if it is what it was guessed to be. False if the NIC had no room,
/// or refused, which is the entry's error.
bool ProxyQueue::try_masked() {
  Batch batch;
  Request& request = next_request(batch, {next_, work_.opcode, work_.reports});
  request.signalled = true;
  request.kind = Request::Kind::kCompareSwap;
  request.fence = waits_for_fetches(work_.fence);
  request.remote = work_.remote & ~uint64_t{7};
  request.rkey = work_.rkey;
  request.lkey = landing_lkey_;
  request.local = landing_address_ + kScratchCell * sizeof(LandingCell);
  request.bytes = sizeof(uint64_t);
  request.compare = guess_;
  request.swap_or_add = work_.masked.apply_around(guess_, work_.remote);
  const uint64_t before = sent_;
  const int error = post(batch);
  if (sent_ != before) return true;
  if (error != ENOMEM) fail_when_drained(work_.opcode, Syndrome::kLocalQpOperation);
  return false;
}

void ProxyQueue::finish_masked(uint64_t found) {
  const uint64_t becomes = work_.masked.apply_around(found, work_.remote);
  if (found != guess_ && becomes != found) {
    guess_ = found;
    last_word_ = work_.remote / 8;
    last_rkey_ = work_.rkey;
    last_value_ = found;
    if (!try_masked() && state_ == State::kMasked) state_ = State::kRunning;  // the same again
    return;
  }
  const uint64_t old = work_.masked.word_in(found, work_.remote);
  uint64_t* const cell = &cell_of(work_)->value;
  if (work_.masked.bytes == 8) {
    store_relaxed<Reach::kSystem>(cell, old);
  } else {
    store_relaxed<Reach::kSystem>(reinterpret_cast<uint32_t*>(cell),
                                  Be32(static_cast<uint32_t>(old)).raw);
  }
  last_word_ = work_.remote / 8;
  last_rkey_ = work_.rkey;
  last_value_ = becomes;
  if (work_.reports) write_cqe(next_, work_.opcode, mlx5::CqeOpcode::kRequester);
  next_ += work_.blocks;
  state_ = State::kRunning;
}

/// The entry at next_ is not to be carried out; those before it first come to their end.
void ProxyQueue::fail_when_drained(mlx5::Opcode opcode, Syndrome syndrome) {
  fault_ = syndrome;
  fault_opcode_ = opcode;
  state_ = State::kFailing;
}

void ProxyQueue::fail(uint64_t index, mlx5::Opcode opcode, Syndrome syndrome, uint8_t vendor) {
  auto* const words = reinterpret_cast<uint32_t*>(cqe_);
  const uint32_t both = uint32_t{vendor} << 8 | static_cast<uint32_t>(syndrome);
  store_relaxed<Reach::kSystem>(&words[13], Be32(both).raw);
  write_cqe(index, opcode, mlx5::CqeOpcode::kRequesterError);
  state_ = State::kFailed;
}

// kResultBeforePoll: releases what the entry did, last word last.
void ProxyQueue::write_cqe(uint64_t index, mlx5::Opcode opcode, mlx5::CqeOpcode kind) {
  const uint32_t tag = static_cast<uint32_t>(opcode) << 24 | ring_.qpn;
  const auto owner = static_cast<uint32_t>(cqes_++ & 1);
  const uint32_t last =
      static_cast<uint32_t>(index & 0xffff) << 16 | static_cast<uint32_t>(kind) << 4 | owner;
  store_release<Reach::kSystem, Edge::kResultBeforePoll>(
      reinterpret_cast<uint64_t*>(&cqe_->opcode_qpn), pair(tag, last));
}

std::unique_ptr<nic::CarriedQueue> nic::carry(VerbsQueue& nic, const CarriedMemory& memory,
                                              FlushReads* flushes) {
  return std::make_unique<ProxyQueue>(nic, memory, flushes);
}

}  // namespace peal
