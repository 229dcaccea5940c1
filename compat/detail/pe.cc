// SPDX-License-Identifier: Apache-2.0
#include "compat/detail/pe.h"

#include <cstddef>
#include <utility>

#include "compat/detail/setup.h"
#include "host/base/error.h"

namespace peal::compat {
namespace {

// Calls of a program go by the default context alone.
constexpr TeamOptions kOneContext{.contexts = 1};

}  // namespace

Pe::Pe(Runtime runtime) : runtime_(std::move(runtime)) {
  state_.context = runtime_.context();
  state_.unordered = state_.context;
  // With several NICs an atomic leaves its block's queue, and settles that one first.
  state_.unordered.by_warp = state_.context.rails == 1 ? 1 : 0;
  state_.shared = static_cast<Shared*>(runtime_.calloc(1, sizeof(Shared)));
  gpu_ = runtime_.target() == Target::kGpu ? gpu_in_use() : -1;
  for (nvshmem_team_t handle = 0; handle < kMaxTeams; ++handle) write(handle);
  keep(runtime_.world());
  keep(runtime_.split_node_team(kOneContext));
  const Team host = runtime_.split_host_team(kOneContext);
  keep(host);
  keep(runtime_.split_team(runtime_.world(), host.rank, 0, kOneContext));
}

const Team& Pe::team(nvshmem_team_t handle) const {
  if (handle < 0 || handle >= kMaxTeams || teams_[static_cast<size_t>(handle)].rank < 0) {
    fail(ErrorCode::kInvalidArgument, "team {}: this PE is in no such team", handle);
  }
  return teams_[static_cast<size_t>(handle)];
}

nvshmem_team_t Pe::keep(const Team& team) {
  if (team.rank < 0) return NVSHMEM_TEAM_INVALID;
  for (nvshmem_team_t handle = 0; handle < kMaxTeams; ++handle) {
    if (teams_[static_cast<size_t>(handle)].rank >= 0) continue;
    teams_[static_cast<size_t>(handle)] = team;
    write(handle);
    return handle;
  }
  fail(ErrorCode::kOutOfMemory, "this PE is in {} teams already: destroy some", kMaxTeams);
}

void Pe::forget(nvshmem_team_t handle) {
  teams_[static_cast<size_t>(handle)] = Team{};
  write(handle);
}

void Pe::write(nvshmem_team_t handle) {
  runtime_.copy_in(&state_.shared->teams[handle], &teams_[static_cast<size_t>(handle)],
                   sizeof(Team));
}

void Pe::check_gpu() const {
  if (gpu_ < 0) return;
  const int now = gpu_in_use();
  if (now < 0 || now == gpu_) return;
  fail(ErrorCode::kConfiguration,
       "this thread uses GPU {}, nvshmem_init() took GPU {}: call cudaSetDevice({}) before "
       "nvshmem_init(), or set PEAL_DEVICE",
       now, gpu_, now);
}

std::string Pe::look_for_failure(int* code, bool* said) const {
  const Failure failure = runtime_.failure();
  *said = failure.said;
  *code = static_cast<int>(failure.status);
  if (failure.status != Status::kOk) return failure.text;
  uint32_t kept = 0;
  runtime_.copy_out(&kept, &state_.shared->first_failure, sizeof(kept));
  *code = static_cast<int>(kept);
  if (kept == 0) return {};
  return fmt::format("a call in a kernel ended with: {}", to_string(static_cast<Status>(kept)));
}

// ---- memory

void* allocate(size_t count, size_t bytes, size_t alignment, const char* call) {
  return on_host(call, [&](Pe& pe) {
    pe.check_gpu();
    if (alignment != 0) return pe.runtime().align(alignment, bytes);
    return count != 0 ? pe.runtime().calloc(count, bytes) : pe.runtime().malloc(bytes);
  });
}

void deallocate(void* pointer, const char* call) {
  if (pointer == nullptr) return;
  on_host(call, [&](Pe& pe) { pe.runtime().free(pointer); });
}

int register_buffer(void* address, size_t bytes, bool symmetric, const char* call) {
  return code_of(call, [&](Pe& pe) {
    pe.check_gpu();
    if (symmetric) {
      pe.runtime().register_window(address, bytes);
    } else {
      pe.runtime().register_local(address, bytes);
    }
  });
}

int unregister_buffer(void* address, bool symmetric, const char* call) {
  return code_of(call, [&](Pe& pe) {
    if (symmetric) return pe.runtime().unregister_window(address);
    pe.runtime().unregister_local(address);
  });
}

// ---- teams

// -1 where the PE is in no such team, which is an answer and no failure.
int team_member(nvshmem_team_t team, const char* call) {
  if (team == NVSHMEM_TEAM_INVALID) return -1;
  int member = -1;
  code_of(call, [&](Pe& pe) { member = pe.team(team).rank; });
  return member;
}

int team_size(nvshmem_team_t team, const char* call) {
  if (team == NVSHMEM_TEAM_INVALID) return -1;
  int size = -1;
  code_of(call, [&](Pe& pe) { size = pe.team(team).size; });
  return size;
}

int team_translate(nvshmem_team_t from, int member, nvshmem_team_t to, const char* call) {
  if (from == NVSHMEM_TEAM_INVALID || to == NVSHMEM_TEAM_INVALID) return -1;
  int found = -1;
  code_of(call, [&](Pe& pe) {
    const std::vector<int> theirs = pe.runtime().team_pes(pe.team(from));
    const std::vector<int> ours = pe.runtime().team_pes(pe.team(to));
    if (member < 0 || static_cast<size_t>(member) >= theirs.size()) return;
    for (size_t i = 0; i < ours.size(); ++i) {
      if (ours[i] == theirs[static_cast<size_t>(member)]) found = static_cast<int>(i);
    }
  });
  return found;
}

int split_team(nvshmem_team_t parent, const Members& members, nvshmem_team_t* made,
               const char* call) {
  *made = NVSHMEM_TEAM_INVALID;
  return code_of(call, [&](Pe& pe) {
    const Team& of = pe.team(parent);
    const int64_t last = members.first + (int64_t{members.count} - 1) * members.stride;
    const bool right = members.count >= 1 && members.first >= 0 && members.first < of.size &&
                       last >= 0 && last < of.size && (members.stride != 0 || members.count == 1);
    if (!right) {
      fail(ErrorCode::kInvalidArgument,
           "start {}, stride {}, size {}: the parent has members 0 to {}", members.first,
           members.stride, members.count, of.size - 1);
    }
    int key = -1;
    for (int i = 0; i < members.count; ++i) {
      if (members.first + i * members.stride == of.rank) key = i;
    }
    *made = pe.keep(pe.runtime().split_team(of, key < 0 ? -1 : 0, key, kOneContext));
  });
}

int split_team_2d(nvshmem_team_t parent, int columns, nvshmem_team_t* row, nvshmem_team_t* column,
                  const char* call) {
  *row = NVSHMEM_TEAM_INVALID;
  *column = NVSHMEM_TEAM_INVALID;
  return code_of(call, [&](Pe& pe) {
    const Team& of = pe.team(parent);
    const auto made =
        pe.runtime().split_team_2d(of, columns < of.size ? columns : of.size, kOneContext);
    *row = pe.keep(made.row);
    *column = pe.keep(made.column);
  });
}

void destroy_team(nvshmem_team_t team, const char* call) {
  if (team == NVSHMEM_TEAM_INVALID) return;
  code_of(call, [&](Pe& pe) {
    if (team <= NVSHMEMX_TEAM_SAME_MYPE_NODE) {
      fail(ErrorCode::kInvalidArgument, "team {} is predefined, and stays", team);
    }
    pe.runtime().free_team(pe.team(team));
    pe.forget(team);
  });
}

}  // namespace peal::compat
