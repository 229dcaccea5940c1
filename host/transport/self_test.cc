// SPDX-License-Identifier: Apache-2.0
//
// The steps, and what is to be said of them.
#include "host/transport/self_test.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "host/nic/model.h"
#include "host/nic/queue_layout.h"

namespace peal {
namespace {

using Step = SelfTestResult::Step;
using Kind = SelfTestResult::Kind;

// Cells behind those of kernels (landing cells, sink) and the proxy's.
constexpr uint32_t kSource = kLandingCells + 2, kFetched = kSource + 1, kRead = kSource + 2;
static_assert((kRead + 1) * sizeof(LandingCell) <= nic::QueueMemoryLayout::kLandingBytes);

struct Cell {
  uint64_t pattern;
  uint64_t count;
  bool operator==(const Cell&) const = default;
};
static_assert(sizeof(Cell) == kSelfTestCell && sizeof(Cell) == sizeof(LandingCell));

// Different for every queue and tag, and no small number.
Cell pattern_of(const QueueUnderTest& q, uint32_t tag) {
  const uint64_t mixed = (uint64_t{tag} << 32 | q.fields.nic.qpn()) * 0x9e3779b97f4a7c15u;
  return {mixed, ~mixed};
}

nic::Local local(const QueueUnderTest& q, uint32_t landing) {
  return {q.fields.landing_address + landing * sizeof(LandingCell), q.fields.landing_key};
}

// What is posted in a step.
nic::HostRequest request_of(const QueueUnderTest& q, Step step) {
  switch (step) {
    case Step::kIdentity:
      return nic::Read{{q.identity, q.rkey}, local(q, kRead), sizeof(q.owner)};
    case Step::kPut:
      return nic::Write{{q.cell, q.rkey}, local(q, kSource), sizeof(Cell)};
    case Step::kAtomic:
      return nic::Atomic<Update::kAdd, uint64_t>{
          {q.cell + offsetof(Cell, count), q.word_rkey}, local(q, kFetched), 1};
    default:
      return nic::Read{{q.cell, q.rkey}, local(q, kRead), sizeof(Cell)};
  }
}

void post(const QueueUnderTest& q, Step step, uint32_t tag) {
  if (step == Step::kPut) {
    const Cell mine = pattern_of(q, tag);
    q.memory->copy_in(&q.fields.landing[kSource], &mine, sizeof(mine));
  }
  const auto index = static_cast<uint64_t>(step);
  q.end->ring(nic::post(*q.memory, q.fields, index, request_of(q, step)));
}

// What is to be said of the data of a step that has completed.
Kind judge(const QueueUnderTest& q, Step step, uint32_t tag) {
  const Cell put = pattern_of(q, tag);
  Cell seen{};
  const uint32_t landing = step == Step::kAtomic ? kFetched : kRead;
  q.memory->copy_out(&seen, &q.fields.landing[landing], sizeof(seen));
  bool right = true;
  switch (step) {
    case Step::kIdentity:
      if (seen.pattern == q.owner) return Kind::kOk;
      return seen.pattern == q.self ? Kind::kItself : Kind::kStranger;
    case Step::kAtomic:
      right = seen.pattern == put.count;  // 8 bytes land, in host order
      break;
    case Step::kGet:
      right = seen == Cell{put.pattern, put.count + 1};
      break;
    default:
      break;
  }
  return right ? Kind::kOk : Kind::kWrongData;
}

// Looks at the completion once. True when the step has ended, well or not.
bool ended(const QueueUnderTest& q, Step step, SelfTestResult& result) {
  const auto end = nic::look(*q.memory, q.fields, static_cast<uint64_t>(step));
  if (!end) return false;
  if (end->failed) {
    result.kind = Kind::kError;
    result.syndrome = end->syndrome;
    result.vendor_syndrome = end->vendor_syndrome;
  }
  return true;
}

}  // namespace

QueueTest::QueueTest(std::vector<QueueUnderTest> queues, uint32_t tag)
    : queues_(std::move(queues)), tag_(tag) {
  begin_step();
}

void QueueTest::begin_step() {
  for (const QueueUnderTest& q : queues_) {
    post(q, step_, tag_);
    waiting_.push_back(&q);
  }
}

bool QueueTest::advance() {
  std::erase_if(waiting_, [&](const QueueUnderTest* q) {
    SelfTestResult result{q->index, q->fields.peer, step_, Kind::kOk, 0, 0};
    if (!ended(*q, step_, result)) return false;
    if (result.kind == Kind::kOk) result.kind = judge(*q, step_, tag_);
    if (result.kind != Kind::kOk) failed_.push_back(result);
    return true;
  });
  return waiting_.empty() && end_step();
}

void QueueTest::give_up(Kind why) {
  for (const QueueUnderTest* q : std::exchange(waiting_, {})) {
    failed_.push_back({q->index, q->fields.peer, step_, why, 0, 0});
  }
  std::ranges::stable_sort(failed_, {}, distance_from_cause);
}

bool QueueTest::settled(size_t i) const {
  if (i >= queues_.size()) return true;
  return std::ranges::find(waiting_, &queues_[i]) == waiting_.end() &&
         std::ranges::find(failed_, queues_[i].index, &SelfTestResult::index) == failed_.end();
}

// True when it was the last.
bool QueueTest::end_step() {
  std::ranges::stable_sort(failed_, {}, distance_from_cause);
  if (!failed_.empty() || step_ == Step::kDone) return true;
  step_ = static_cast<Step>(static_cast<uint8_t>(step_) + 1);
  if (step_ == Step::kDone) return true;
  begin_step();
  return false;
}

std::string untold(uint8_t ack_timeout, uint8_t retry_count, std::chrono::nanoseconds waited) {
  constexpr double kLongest = 4;  // times what was asked for, by the InfiniBand architecture
  const auto tries = [&](int code) { return std::ldexp(4.096e-6, code) * (retry_count + 1); };
  const double test = std::chrono::duration<double>(waited).count();
  if (kLongest * tries(ack_timeout) <= test) return "";
  int shorter = ack_timeout;
  while (shorter > 1 && kLongest * tries(shorter) > test) --shorter;
  return fmt::format(
      "or the peer is not there: the NIC says so after {:.0f} to {:.0f} s only "
      "(PEAL_ACK_TIMEOUT={}, "
      "PEAL_RETRY_COUNT={}), and the test waits {:.0f}: repeat with PEAL_ACK_TIMEOUT={}, or a "
      "longer "
      "PEAL_BOOTSTRAP_TIMEOUT",
      tries(ack_timeout), kLongest * tries(ack_timeout), ack_timeout, retry_count, test, shorter);
}

int distance_from_cause(const SelfTestResult& result) {
  if (result.kind == Kind::kItself || result.kind == Kind::kStranger) return 0;
  if (result.kind == Kind::kWrongData) return 1;
  if (result.kind != Kind::kError) return 4;
  const nic::Cause cause = nic::cause_of(result.syndrome);
  if (cause == nic::Cause::kNoAnswer) return 2;
  return cause == nic::Cause::kFlushed ? 3 : 0;
}

std::string explain(const SelfTestResult& result, const std::string& cause) {
  constexpr const char* kSteps[] = {"first get", "put", "atomic", "get", "test"};
  const char* const step = kSteps[static_cast<size_t>(result.step)];
  switch (result.kind) {
    case Kind::kError:
      if (nic::cause_of(result.syndrome) == nic::Cause::kNoAnswer && !cause.empty()) {
        return fmt::format("the {} failed: {}", step, cause);
      }
      return fmt::format("the {} failed: {} (syndrome {:#04x}, vendor {:#04x}); likely: {}", step,
                         nic::syndrome_text(result.syndrome), result.syndrome,
                         result.vendor_syndrome, nic::syndrome_remedy(result.syndrome));
    case Kind::kSilence:
      return fmt::format(
          "nothing came of the {}, not even an error; likely: the NIC does not hear the doorbell "
          "or "
          "cannot write its completion: run tools/doctor (driver options, IOMMU, ACS){}",
          step, cause.empty() ? "" : "; " + cause);
    case Kind::kItself:
      return "this PE itself answered, for in its network that address is its own; likely: the two "
             "are in different networks: PEAL_HCA chooses ports of one fabric; software NICs share "
             "PEAL_SOFTNIC_DIR and PEAL_SOFTNIC_FABRIC";
    case Kind::kStranger:
      return "somebody else answered: the number that the first get read is not that PE's; likely: "
             "another port has its address (LID, GID, IP), or the NIC and the kernels do not see "
             "the "
             "same memory: run tools/doctor (IOMMU, ACS, peer memory driver)";
    case Kind::kWrongData:
      return fmt::format(
          "the {} completed, but the data is wrong; likely: the NIC and the kernels do not see the "
          "same memory: run tools/doctor (IOMMU, ACS, peer memory driver)",
          step);
    case Kind::kNoTurn:
      return "there was no cell to test it in: tests of other queues to that PE are under way or "
             "were given up; Runtime::recover() frees the cells of those";
    case Kind::kEnded:
      return "its process has ended";
    case Kind::kOk:
      break;
  }
  return "nothing failed";
}

}  // namespace peal
