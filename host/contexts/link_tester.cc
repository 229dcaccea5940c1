// SPDX-License-Identifier: Apache-2.0
#include "host/contexts/link_tester.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <list>
#include <map>
#include <string_view>
#include <utility>

#include "base/host_name.h"
#include "base/patience.h"
#include "host/job/together.h"
#include "host/transport/connection.h"

namespace peal {
namespace {

using Clock = RunClock;

// The test takes three quarters of the bootstrap's deadline: the rest is for telling the others.
constexpr int kShareOfDeadline = 4;
constexpr Patience::Nap kLongestNap{1000};

// How long a PE tests in a collective test before it hears how the others stand. The other end of a
// queue that has failed would go on for as long as its NIC retries.
constexpr std::chrono::seconds kRound{2};
constexpr StepOutcome kUnderWay = kStepTaken - 1;

// What an end says of itself, as it travels.
struct End {
  std::array<char, 512> name{};     // "host n17, mlx5_0: InfiniBand, LID 5, GID fe80::2, MTU 4096"
  std::array<char, 768> trouble{};  // "": its NICs know of none
  std::array<char, 384> silence{};  // what its NICs may not have said in the time of a test
};

template <size_t kBytes>
void keep(std::array<char, kBytes>& text, std::string_view words) {
  words.substr(0, kBytes - 1).copy(text.data(), kBytes - 1);
}

End this_end(const Rails& rails, std::chrono::nanoseconds time) {
  std::string name = fmt::format("host {}", host_name());
  std::string trouble;
  for (const IbgdaNic& nic : rails.nics()) {
    const Endpoint end = endpoint_of(nic.device, 0);
    name +=
        fmt::format(", {}: {}{}", nic.device.name(), describe(end),
                    end.link_layer == nic::LinkLayer::kInfiniBand ? ", GID " + end.gid.text() : "");
    if (trouble.empty()) trouble = nic.device.trouble();
  }
  // The software NIC has times of its own, all of them shorter.
  const nic::Device& first = rails.nics()[0].device;
  const nic::PathSettings& path = first.path_settings();
  const std::string silence =
      first.software() ? "" : untold(path.ack_timeout, path.retry_count, time);
  End all;
  keep(all.name, name);
  keep(all.trouble, trouble);
  keep(all.silence, silence);
  return all;
}

// `here` and `there` are what each end says of itself.
std::string describe(const std::vector<SelfTestResult>& failed, uint32_t n_pes, const End& here,
                     const End& there) {
  const SelfTestResult& first = failed.front();
  std::string cause;
  if (here.trouble[0] != '\0') cause = fmt::format("its software NIC: {}", here.trouble.data());
  if (there.trouble[0] != '\0') {
    cause += fmt::format("{}that of PE {}: {}", cause.empty() ? "" : "; ", first.peer,
                         there.trouble.data());
  }
  if (first.kind == SelfTestResult::Kind::kSilence && here.silence[0] != '\0') {
    cause += fmt::format("{}{}", cause.empty() ? "" : "; ", here.silence.data());
  }
  return fmt::format(
      "self-test ({}): queue {} to PE {} ({}): {}; {} of its queues failed. PEAL_SELF_TEST=off "
      "starts without this test",
      here.name.data(), first.index / n_pes, first.peer, there.name.data(), explain(first, cause),
      failed.size());
}

}  // namespace

LinkTester::LinkTester(LiveGroup& group, const Rails& rails, PublishedWindows::Keys keys,
                       const Backing& heap, uint64_t cells, std::chrono::nanoseconds deadline)
    : group_(group),
      rails_(rails),
      cells_(cells + static_cast<uint64_t>(group.rank()) * kSlots * kSelfTestCell),
      identity_(cells + identity_at(group.size())),
      keys_(std::move(keys)),
      time_(deadline * (kShareOfDeadline - 1) / kShareOfDeadline),
      taken_(static_cast<size_t>(group.size()) * kSlots) {
  const uint64_t owner = rails.owner();
  heap.copy_in(heap.address() + identity_, &owner, sizeof(owner));
}

std::chrono::nanoseconds LinkTester::time_for_link(std::chrono::nanoseconds patience) const {
  return patience.count() == 0 ? time_ : std::min(time_, patience);
}

std::vector<uint32_t> LinkTester::take_cells(uint32_t peer, size_t most) {
  const std::lock_guard lock(mutex_);
  std::vector<uint32_t> cells;
  for (uint32_t cell = 0; cell < kSlots && cells.size() < most; ++cell) {
    if (std::exchange(taken_[peer * kSlots + cell], uint8_t{1}) == 0) cells.push_back(cell);
  }
  return cells;
}

bool LinkTester::ended(uint32_t pe) const {
  const std::vector<int> lost = group_.lost_pes();
  return std::ranges::find(lost, static_cast<int>(pe)) != lost.end();
}

void LinkTester::free_cells() {
  const std::lock_guard lock(mutex_);
  std::ranges::fill(taken_, uint8_t{0});
}

QueueTest LinkTester::test(Queues& queues, std::span<const uint32_t> chosen,
                           std::span<const uint32_t> cells) {
  std::vector<QueueUnderTest> under_test;
  for (size_t i = 0; i < chosen.size(); ++i) {
    QueueUnderTest& q = under_test.emplace_back(queues.under_test(chosen[i]));
    const size_t key = queues.rail(chosen[i]) * queues.n_pes() + q.fields.peer;
    q.identity = identity_;
    q.cell = cells_ + cells[i] * kSelfTestCell;
    q.rkey = keys_.payload[key];
    q.word_rkey = keys_.words[key];
  }
  uint32_t tag = 0;
  {
    const std::lock_guard lock(mutex_);
    tag = ++tests_;
  }
  return QueueTest(std::move(under_test), tag);
}

LinkTester::Test::Test(LinkTester& link_tester, Queues& queues, std::vector<uint32_t> chosen,
                       std::chrono::nanoseconds time)
    : link_tester_(link_tester),
      queues_(queues),
      peer_(chosen.front() % queues.n_pes()),
      left_(std::move(chosen)),
      end_(Clock::now() + time) {}

LinkTester::Test::~Test() {
  const std::lock_guard lock(link_tester_.mutex_);
  for (size_t i = 0; i < cells_.size(); ++i) {
    if (round_ && round_->settled(i)) link_tester_.taken_[peer_ * kSlots + cells_[i]] = 0;
  }
}

// True when it never will have its turn.
bool LinkTester::Test::no_turn() {
  if (Clock::now() < end_) return false;
  using Result = SelfTestResult;
  for (const uint32_t index : left_) {
    failed_.push_back({index, peer_, Result::Step::kPut, Result::Kind::kNoTurn, 0, 0});
  }
  return true;
}

void LinkTester::Test::begin_round() {
  const size_t count = std::min(left_.size(), cells_.size());
  round_.emplace(link_tester_.test(queues_, std::span(left_).first(count), cells_));
  left_.erase(left_.begin(), left_.begin() + static_cast<ptrdiff_t>(count));
}

bool LinkTester::Test::advance() {
  if (!round_) {
    cells_ = link_tester_.take_cells(peer_, left_.size());
    if (cells_.empty()) return no_turn();
    begin_round();
  }
  if (!round_->advance()) {
    // A NIC may try for many seconds to reach a process that has ended.
    using Kind = SelfTestResult::Kind;
    const bool ended = link_tester_.ended(peer_);
    if (!ended && Clock::now() < end_) return false;
    round_->give_up(ended ? Kind::kEnded : Kind::kSilence);
  }
  failed_ = round_->failed();
  if (!failed_.empty() || left_.empty()) return true;
  begin_round();
  return false;
}

// Until all tests are over, or the others want to hear how they stand.
void LinkTester::advance_for_a_round(std::list<Test>& running,
                                     std::vector<SelfTestResult>& failed) {
  const auto end = Clock::now() + kRound;
  for (Patience patience(kLongestNap); !running.empty() && Clock::now() < end;
       patience.after(false)) {
    std::erase_if(running, [&failed](Test& test) {
      if (!test.advance()) return false;
      std::ranges::copy(test.failed(), std::back_inserter(failed));
      return true;
    });
  }
  std::ranges::stable_sort(failed, {}, distance_from_cause);
}

void LinkTester::test_together(Queues& queues, const std::vector<uint32_t>& chosen) {
  std::list<Test> running;
  std::vector<SelfTestResult> failed;
  auto failure = failure_of([&] {
    std::map<uint32_t, std::vector<uint32_t>> by_peer;
    for (const uint32_t index : chosen) by_peer[index % queues.n_pes()].push_back(index);
    for (auto& [peer, indices] : by_peer) {
      running.emplace_back(*this, queues, std::move(indices), time_);
    }
  });
  std::vector<StepOutcome> outcomes;
  do {
    if (!failure) failure = failure_of([&] { advance_for_a_round(running, failed); });
    StepOutcome mine = running.empty() ? kStepTaken : kUnderWay;
    if (!failed.empty()) mine = distance_from_cause(failed.front());
    if (failure) mine = failure->distance;
    outcomes = gather(group_, mine);
    if (all_taken(outcomes)) return;
  } while (std::ranges::max(outcomes) < 0);
  std::ranges::replace(outcomes, kUnderWay, kStepTaken);
  const std::vector<End> ends = gather(group_, this_end(rails_, time_));
  if (!failure && !failed.empty()) {
    const auto me = static_cast<size_t>(group_.rank());
    failure = {Error(ErrorCode::kSystem,
                     describe(failed, queues.n_pes(), ends[me], ends[failed.front().peer])),
               outcomes[me]};
  }
  fail_together(group_, outcomes, failure);
}

std::string LinkTester::describe_failed(const Queues& queues,
                                        const std::vector<SelfTestResult>& failed) const {
  End there;
  keep(there.name, queues.describe_path(failed.front().index));
  return describe(failed, queues.n_pes(), this_end(rails_, time_), there);
}

}  // namespace peal
