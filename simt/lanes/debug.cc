// SPDX-License-Identifier: Apache-2.0
#include "simt/lanes/debug.h"

#include <atomic>

namespace peal::simt {
namespace {

const DebugField kGridFields[] = {PEAL_DEBUG_FIELD(DebugGrid, number),
                                  PEAL_DEBUG_FIELD(DebugGrid, blocks),
                                  PEAL_DEBUG_FIELD(DebugGrid, threads),
                                  PEAL_DEBUG_FIELD(DebugGrid, residents),
                                  PEAL_DEBUG_FIELD(DebugGrid, worker_count),
                                  PEAL_DEBUG_FIELD(DebugGrid, begun),
                                  {}};

const DebugField kResidentsFields[] = {PEAL_DEBUG_FIELD(ResidentBlocks, first), {}};

const DebugField kBlockFields[] = {PEAL_DEBUG_FIELD(ResidentBlock, lanes),
                                   PEAL_DEBUG_FIELD(ResidentBlock, number),
                                   PEAL_DEBUG_FIELD(ResidentBlock, next),
                                   {}};

const DebugField kFiberFields[] = {
    {"saved", Fiber::saved_offset(), sizeof(void*)},
    {"stack", Fiber::stack_offset() + offsetof(Stack, bottom), sizeof(void*)},
    {"stack_bytes", Fiber::stack_offset() + offsetof(Stack, bytes), sizeof(size_t)},
    {}};

const DebugField kLaneFields[] = {
    PEAL_DEBUG_FIELD(Lane, fiber),
    {"call", offsetof(Lane, request) + offsetof(LaneRequest, call), sizeof(LaneCall)},
    {"mask", offsetof(Lane, request) + offsetof(LaneRequest, mask), sizeof(uint32_t)},
    PEAL_DEBUG_FIELD(Lane, thread),
    PEAL_DEBUG_FIELD(Lane, started),
    PEAL_DEBUG_FIELD(Lane, ended),
    {}};

DebugField name_of(LaneCall call) { return {to_string(call), static_cast<uint64_t>(call), 0}; }

const DebugField kCalls[] = {name_of(LaneCall::kYield),
                             name_of(LaneCall::kShared),
                             name_of(LaneCall::kExit),
                             name_of(LaneCall::kConverged),
                             name_of(LaneCall::kSyncWarp),
                             name_of(LaneCall::kShuffle),
                             name_of(LaneCall::kBallot),
                             name_of(LaneCall::kMatchAny),
                             name_of(LaneCall::kSyncBlock),
                             name_of(LaneCall::kCountBlock),
                             {}};

const DebugType kTypes[] = {{"Grid", sizeof(DebugGrid), kGridFields},
                            {"Residents", sizeof(ResidentBlocks), kResidentsFields},
                            {"Block", sizeof(ResidentBlock), kBlockFields},
                            {"Fiber", sizeof(Fiber), kFiberFields},
                            {"Lane", sizeof(Lane), kLaneFields},
                            {"Call", sizeof(LaneCall), kCalls},
                            {}};

}  // namespace

// One for the process, as what it lists is the process's.
constinit DebugList peal_debug_grids{kTypes};

extern "C" const char peal_gdb_script[];  // gdb_script.S
const char* const peal_debug_script = peal_gdb_script;

void ListedGrid::show(const Dim3& blocks, const Dim3& threads,
                      const std::vector<ResidentBlocks>& residents, const void* begun) {
  static constinit std::atomic<uint64_t> grids{0};  // of the process
  grid_ = {.number = ++grids,
           .blocks = blocks,
           .threads = threads,
           .residents = residents.data(),
           .worker_count = residents.size(),
           .begun = begun};
  item_.emplace(peal_debug_grids, &grid_);
}

}  // namespace peal::simt
