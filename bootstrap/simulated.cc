// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/simulated.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <vector>

#include "bootstrap/bootstraps.h"
#include "host/base/error.h"
#include "simt/lanes/lane.h"
#include "simt/simulation/simulated_program.h"
#include "simt/simulation/simulation.h"
#include "simt/simulation/threads.h"

namespace peal::bootstrap {
namespace {

using simt::simulated_pe;

// The deadline counts simulated time, which runs fast while all wait.
constexpr uint64_t kDeadlineNs = std::chrono::nanoseconds(kDefaultDeadline).count();

/// One collective call: what each PE gave.
struct Call {
  std::map<int, std::vector<std::byte>> given;
  size_t left = 0;
};

/// What PEs share: the calls of each of their groups, by number.
struct Board {
  simt::Mutex mutex;  // guards what follows
  simt::Condition changed;
  std::map<std::pair<uint64_t, uint64_t>, Call> calls;  // group, number
  std::map<int, uint64_t> groups;                       // made so far, by PE
};

Board& board() {
  static auto& the_one = *new Board;  // of the process: a simulation has one of its own
  return the_one;
}

class SimulatedGroup : public Bootstrap {
 public:
  SimulatedGroup() : group_(board().groups[simulated_pe()]++) {}

  int rank() const override { return pe_; }
  int size() const override { return size_; }
  void barrier() override { meet({}, {}); }
  void allgather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    meet(mine, all);
  }
  [[noreturn]] void abort(const std::string& reason) override {
    fail(ErrorCode::kPeerLost, "PE {} ends the job: {}", pe_, reason);
  }

 private:
  void meet(std::span<const std::byte> mine, std::span<std::byte> all) {
    const std::pair key{group_, calls_++};
    std::unique_lock lock(board().mutex);
    Call& call = board().calls[key];
    call.given[pe_].assign(mine.begin(), mine.end());
    board().changed.notify_all();
    const uint64_t begin = simt::now_ns();
    board().changed.wait(lock, [&] {
      const bool complete = call.given.size() == static_cast<size_t>(size_);
      if (!complete && simt::now_ns() - begin > kDeadlineNs) fail_missing(call);
      return complete;
    });
    for (const auto& [pe, bytes] : call.given) {
      if (bytes.size() != mine.size()) {
        fail(ErrorCode::kInvalidArgument, "collective call #{}: PE {} gives {} bytes, PE {} {}",
             key.second, pe, bytes.size(), pe_, mine.size());
      }
      std::ranges::copy(bytes,
                        all.subspan(static_cast<size_t>(pe) * bytes.size(), bytes.size()).begin());
    }
    if (++call.left == static_cast<size_t>(size_)) board().calls.erase(key);
  }

  [[noreturn]] void fail_missing(const Call& call) const {
    std::vector<int> missing;
    for (int pe = 0; pe < size_; ++pe) {
      if (!call.given.contains(pe)) missing.push_back(pe);
    }
    fail(ErrorCode::kTimeout, "collective call of the host: PEs {} did not come to it",
         fmt::join(missing, ", "));
  }

  const int pe_ = simulated_pe();
  const int size_ = simt::simulated_pes();
  const uint64_t group_;
  uint64_t calls_ = 0;
};

}  // namespace

std::unique_ptr<Bootstrap> make_simulated() { return std::make_unique<SimulatedGroup>(); }

}  // namespace peal::bootstrap
