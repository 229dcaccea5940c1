// SPDX-License-Identifier: Apache-2.0
//
// See run.h.
#include "tests/sim/run.h"

#include <exception>

namespace peal::sim {
namespace {

constexpr size_t kMemoryBytes = 320 << 10;
constexpr uint64_t kSlices = 3'000'000;

constexpr EdgeName kEdges[] = {
    {Edge::kPostedBeforeRing, "M1", "many_lanes", "store of a word in `ready`: release to relaxed"},
    {Edge::kGroupBeforePublish, "M1 group", "many_lanes",
     "sync of lanes that post together, before hand_over()"},
    {Edge::kRingAfterPosted, "M1 ring", "many_lanes",
     "acquire behind the words of `ready` that are taken: none"},
    {Edge::kPostedBeforeDoorbell, "M2", "index_wrap",
     "fence before the record and the doorbell: none"},
    {Edge::kOffGpuSourceBeforeDoorbell, "M2 off-GPU", "off_gpu_source",
     "fence of a source that the queue's does not reach: none"},
    {Edge::kRecordBeforeSecondDoorbell, "M3", "barrier_storm",
     "fence before the register is rung again: none"},
    {Edge::kDoneBeforeReuse, "M4", "full_queue",
     "acquire behind the load of `completed` in reserve(): none"},
    {Edge::kReuseAfterDone, "M4 raise", "full_queue",
     "raise of `completed` in look(): release to relaxed"},
    {Edge::kResultBeforePoll, "M5", "fetches", "load of the CQE's last word: acquire to relaxed"},
    {Edge::kResultBeforeWait, "M5 wait", "fetches",
     "acquire behind loads of `completed` in wait_completed(): none"},
    {Edge::kDataBeforeWord, "M6", "put_signal_thread", "words go through the key of payload"},
    {Edge::kDataBeforeSwap, "M6 swap", "put_signal_thread",
     "words are WRITEs where those overtake others"},
    {Edge::kWordBeforeWait, "M7", "put_signal_thread",
     "load of the word in wait_until(): acquire to relaxed"},
    {Edge::kLanesBeforeLeader, "M8", "put_signal_scope",
     "sync of a warp before its leader posts: waits, orders nothing"},
    {Edge::kBlockBeforeLeader, "M8 block", "put_signal_scope",
     "sync of a block before its leader posts: waits, orders nothing"},
    {Edge::kLeaderBeforeLanes, "M8 back", "fetches",
     "sync of a warp behind its leader's answer: orders nothing"},
    {Edge::kPublishedBeforeTaken, "M10", "full_queue",
     "`posted` taken and given back: acquire and release to relaxed"},
    {Edge::kReadyBeforeWanted, "M10 wanted", "full_queue",
     "`posted` marked as wanted, and cleared of that: acq_rel to relaxed"},
    {Edge::kCellReadBeforeReuse, "M11", "landing_cells",
     "store of a landing cell's `lap`: release to relaxed"},
    {Edge::kReuseAfterCellRead, "M11 take", "landing_cells",
     "load of a landing cell's `lap`: acquire to relaxed"},
    {Edge::kErrorBeforeStatus, "M12", "refused_write",
     "store of the error's `status`: release to relaxed"},
    {Edge::kWindowBeforeVersion, "M13", "new_window",
     "load of the window table's `version`: acquire to relaxed"},
    {Edge::kDoneBeforeQuiet, "M14", "quiet_of_many", "quiet drains the first queue only"},
    {Edge::kDrainedBeforeQuiet, "M14 batch", "quiet_of_many",
     "acquire of what queues found drained had released: none"},
    {Edge::kQuietBeforeBarrier, "M15", "barrier_direct",
     "fence before a barrier's later rounds: none"},
    {Edge::kStoresBeforeFlag, "M16", "barrier_direct",
     "fence in quiet, fence, sync_all and barriers: none"},
    {Edge::kStoresBeforeFlag, "M16 home", "home_stores",
     "fence in quiet where no other PE's memory is mapped: none"},
    {Edge::kOffGpuStoresBeforeFlag, "M16 off-GPU", "off_gpu_stores",
     "the same fence where memory of the host is a window: the GPU's"},
    {Edge::kOffGpuStoresBeforeFlag, "M16 own", "own_memory_stores",
     "the same fence where a program has named its own memory: the GPU's"},
    {Edge::kStoresBeforeSignal, "M16 signal", "put_signal_direct",
     "a signal's own store or add: release to relaxed"},
    {Edge::kDataBeforeWord, "M6 team", "team_by_nic",
     "words of a meeting go through the key of payload"},
    {Edge::kDataBeforeSwap, "M6 swap team", "team_by_nic",
     "words behind what a meeting carries are WRITEs"},
    {Edge::kWordBeforeWait, "M7 team", "team_mapped",
     "load of an arrival's word: acquire to relaxed"},
    {Edge::kLanesBeforeLeader, "M8 team", "team_mapped",
     "sync of a warp in a collective call: orders nothing"},
    {Edge::kBlockBeforeLeader, "M8 block team", "team_mapped",
     "sync of a block in a collective call: orders nothing"},
    {Edge::kLeaderBeforeLanes, "M8 back team", "team_mapped",
     "sync of a warp behind its leader's meeting: orders nothing"},
    {Edge::kDoneBeforeQuiet, "M14 team", "team_by_nic",
     "a call by NICs drains the first queue only"},
    {Edge::kQuietBeforeBarrier, "M15 team", "team_of_ten",
     "fence before a meeting's later rounds: none"},
    {Edge::kStoresBeforeFlag, "M16 team", "team_mapped",
     "fence before the meeting behind a call: none"},
    {Edge::kStoresBeforeMeeting, "M16 meet", "team_mapped",
     "fence before the meeting ahead of a call: none"},
    {Edge::kNicDataBeforeFlag, "M17 team", "team_mixed",
     "READ behind what a call's queues have carried: none"},
    {Edge::kBlockBeforeGrid, "M19", "team_of_grids",
     "a block's arrival at the end of a grid's call: orders nothing"},
    {Edge::kGridBeforeBlock, "M19 done", "team_of_grids",
     "load of `done` by the other blocks: acquire to relaxed"},
    {Edge::kTakenBeforeReuse, "M21", "team_mapped",
     "meeting once the rings of short calls are used up: none"},
    {Edge::kTakenBeforeReuse, "M21 nic", "team_by_nic",
     "two sets of blocks that meetings carry: one"},
    {Edge::kNicDataBeforeFlag, "M17", "relay_mixed",
     "READ behind what a queue has carried: none in quiet"},
    {Edge::kNicDataBeforeSignal, "M17 signal", "put_signal_two_ways",
     "READ between data by the NIC and its signal by a store: none"},
    {Edge::kDrainedBeforeUnmark, "M22", "quiet_marks",
     "clearing of a drained queue's mark: release to relaxed"},
    {Edge::kMarkBeforePublish, "M22 post", "quiet_marks",
     "the first post of a queue does not mark it"},
    {Edge::kMarkBeforeReserve, "M22 reserve", "quiet_marks",
     "who has marked a queue says so: orders nothing"},
    {Edge::kUnmarkBeforeMark, "M22 mark", "quiet_marks",
     "who marks a queue does not wait for who takes the mark off"},
    {Edge::kPublishedBeforeUnmark, "M22 unmark", "quiet_marks",
     "a queue is unmarked although somebody has reserved since"},
    {Edge::kSettledBeforeUnmark, "M22 settle", "quiet_of_many",
     "a queue is unmarked that is drained and not settled"},
    {Edge::kAnswerBeforeDump, "M18", "host_fetches", "DUMP behind a fetch: none"},
    {Edge::kReadBeforeDump, "M18 fence", "host_fetches", "DUMP waits for the READ before it: not"},
    {Edge::kPostedBeforeRing, "M1 batch", "batches",
     "store of a batch's word in `ready`: release to relaxed"},
    {Edge::kAnswerBeforeDump, "M18 later", "fetches_later",
     "DUMP behind an atomic whose value comes later: none"},
    {Edge::kBatchBeforeRing, "M20", "batches", "a batch's end does not ring"},
    {Edge::kBatchBeforeQuiet, "M20 drain", "batch_left_open",
     "quiet does not ring what is held back"},
    {Edge::kBatchBeforeWait, "M20 wait", "batch_ticket",
     "wait and test do not ring for their ticket"},
    {Edge::kStoresBeforeRelease, "M23", "lock_mapped",
     "store of the lock's word: release to relaxed"},
    {Edge::kStoresBeforeRelease, "M23 deque", "deque_mapped",
     "add of, and swap of, a deque's ends: release taken"},
    {Edge::kStoresBeforeNicRelease, "M23 nic", "deque_by_nic",
     "fence before a release by the NIC: none"},
    {Edge::kDataBeforeNicRelease, "M23 key", "release_by_nic",
     "a release by the NIC is an atomic like any other"},
    {Edge::kNicDataBeforeRelease, "M23 settle", "release_mixed",
     "READ between data by the NIC and a release by it: none"},
    {Edge::kAcquireBeforeLoads, "M24", "lock_mapped",
     "load of the lock's word: acquire to relaxed"},
    {Edge::kAcquireBeforeLoads, "M24 deque", "deque_mapped",
     "load, and swap, of a deque's ends: acquire taken"},
};

}  // namespace

std::span<const EdgeName> edges() { return kEdges; }

unsigned edge_by_name(const std::string& name) {
  for (const EdgeName& edge : kEdges) {
    if (name == edge.name) return static_cast<unsigned>(edge.edge);
  }
  return 0;
}

const Workload* find_workload(const std::string& name) {
  for (const Workload& workload : workloads()) {
    if (name == workload.name) return &workload;
  }
  return nullptr;
}

Result run_once(const Workload& workload, uint64_t seed, unsigned weaken) {
  simt::Simulation sim(seed, {.memory_bytes = kMemoryBytes, .slices = kSlices});
  sim.weaken(weaken);
  Result result;
  try {
    workload.run(sim);
  } catch (const std::exception& error) {
    result.failure = error.what();
    if (result.failure.find("seed ") == std::string::npos) {
      result.failure += "\n  seed " + std::to_string(seed) + ", behind the run";
    }
  }
  result.slices = sim.slices();
  result.digest = sim.digest();
  return result;
}

}  // namespace peal::sim
