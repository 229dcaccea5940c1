// SPDX-License-Identifier: Apache-2.0
//
// The one PE of a process: how it begins and ends, and the first failure.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/immortal.h"
#include "bootstrap/bootstraps.h"
#include "bootstrap/launch.h"
#include "compat/detail/pe.h"
#include "compat/detail/setup.h"
#include "compat/detail/symmetric_size.h"
#include "host/base/address.h"
#include "host/base/error.h"
#include "simt/runtime/stream.h"

namespace peal::compat {
namespace {

// NVSHMEM has one PE a process and no handle for it. Never destroyed, as the C API's is not
// (peal/c_api.cc).
struct Process {
  std::optional<Pe> pe;
  int begins = 0;
  std::optional<std::string> unique_id;    // that the job was joined by
  std::optional<bootstrap::TcpRoot> root;  // of a job that this process made the id of
  int failure_code = 0;
  std::string failure_text;
  bool told_of_kernels = false;
  std::atomic<bool> told_of_no_pe = false;  // kernels' lanes are of several threads
};
Process& process() {
  static Immortal<Process> the_process;
  static const struct End {
    ~End() { (*the_process).pe.reset(); }
  } end;
  return *the_process;
}

// Remedies name what such a program has.
constexpr Renamed kNames[] = {
    {"Runtime::malloc", "nvshmem_malloc"},
    {"Runtime::register_window", "nvshmemx_buffer_register_symmetric"},
    {"Runtime::register_local", "nvshmemx_buffer_register"},
    {"gave to register_window", "gave to nvshmemx_buffer_register_symmetric"},
    {"or register_local(", "or nvshmemx_buffer_register("}};

void remember(int code, const std::string& text) {
  if (process().failure_code != 0) return;
  process().failure_code = code;
  process().failure_text = text;
}

void say(const std::string& text) { std::fprintf(stderr, "peal: %s\n", text.c_str()); }

// A file that nvcc compiled has kernels for GPUs; without one they run here, unless told otherwise.
Target target_of(const Config& config) {
  if (config.target == TargetKind::kGpu) return Target::kGpu;
  if (config.target == TargetKind::kCpu) return Target::kCpu;
  return any_module() ? Target::kGpu : Target::kCpu;
}

// NVSHMEM's own size; its default where neither is set.
uint64_t heap_size_of(const Config& config) {
  if (config.given.contains("PEAL_HEAP_SIZE")) return config.heap_size;
  const std::string& theirs = config.nvshmem_symmetric_size;
  if (const auto size = symmetric_size(theirs.empty() ? "1G" : theirs)) return *size;
  throw Error(ErrorCode::kInvalidArgument,
              "NVSHMEM_SYMMETRIC_SIZE=\"" + theirs +
                  "\" is not accepted: give bytes up to 16T, such as 1073741824, 512m or 1.5G");
}

std::unique_ptr<Bootstrap> bootstrap_of(const Config& config, const Joining& joining) {
  const auto deadline = std::chrono::duration_cast<bootstrap::Deadline>(config.bootstrap_timeout);
  if (joining.mpi_comm != nullptr) {
    auto group = bootstrap::make_mpi(joining.mpi_comm, deadline, config.mpi_plugin);
    bootstrap::check_size(config, "the MPI communicator", group->size());
    return group;
  }
  // Made with the ranks of such an MPI.
  if (joining.size == 1) bootstrap::check_size(config, "the job of this unique id", joining.size);
  const auto id = bootstrap::UniqueId::from_string(*joining.unique_id);
  std::optional<bootstrap::TcpRoot> root = std::exchange(process().root, std::nullopt);
  if (root && root->id() == id && joining.rank == 0) {
    return bootstrap::make_tcp(std::move(*root), joining.size, deadline);
  }
  root.reset();
  return bootstrap::make_tcp(id, joining.rank, joining.size, deadline);
}

// What a begin says of its job must be true of the one that runs: a process is in one. Of members
// nobody asks, but for the id, which is of one job.
void require_same_job(const Joining& asked) {
  if (asked.mpi_comm == nullptr && !asked.unique_id) return;  // whichever runs
  bootstrap::CommRank there{asked.rank, asked.size};
  const bool by_comm = asked.mpi_comm != nullptr;
  if (by_comm) {
    const Config config = Config::from_environment(environ);
    there = bootstrap::rank_in_mpi(asked.mpi_comm, config.mpi_plugin);
  }
  const Runtime& running = process().pe->runtime();
  const bool same_place = there.rank == running.my_pe() && there.size == running.n_pes();
  const bool same_id =
      !asked.unique_id || !process().unique_id || *asked.unique_id == *process().unique_id;
  if (same_place && same_id) return;
  fail(ErrorCode::kInvalidArgument,
       "{} this process as rank {} of {}, but it is PE {} of {} of a job that runs{}: a process is "
       "in one job at a time. nvshmem_init() counts one more begin of that job, and "
       "nvshmem_finalize() ends it",
       by_comm ? "the MPI communicator has" : "the unique id is for", there.rank, there.size,
       running.my_pe(), running.n_pes(), same_id ? "" : ", which was joined by another unique id");
}

Runtime start_runtime(const Joining& joining) {
  Config config = Config::from_environment(environ);
  const Target target = target_of(config);
  config.heap_size = heap_size_of(config);
  config.own_memory = true;
  if (target == Target::kGpu && config.device < 0) config.device = gpu_in_use();
  if (joining.mpi_comm == nullptr && !joining.unique_id) return start(config, target);
  return Runtime(bootstrap_of(config, joining), config, target);
}

}  // namespace

int begin(const Joining& joining, const char* call) {
  if (process().pe) {
    try {
      process().pe->runtime().require(call);
      require_same_job(joining);
    } catch (const std::exception& error) {
      tell(call, error);
      return NVSHMEMX_ERROR_INVALID_VALUE;
    }
    ++process().begins;
    return 0;
  }
  try {
    process().failure_code = 0;
    process().failure_text.clear();
    process().told_of_kernels = false;
    process().told_of_no_pe = false;
    process().pe.emplace(start_runtime(joining));
    fill_modules(&process().pe->state());
    process().begins = 1;
    process().unique_id = joining.unique_id;
    return 0;
  } catch (const std::exception& error) {
    tell(call, error);
  }
  process().pe.reset();
  return NVSHMEMX_ERROR_INTERNAL;
}

int begin_by_attributes(unsigned flags, const nvshmemx_init_attr_t* attributes, const char* call) {
  Joining joining;
  try {
    if ((flags & NVSHMEMX_INIT_WITH_SHMEM) != 0) {
      fail(ErrorCode::kUnsupported,
           "NVSHMEMX_INIT_WITH_SHMEM: peal joins no OpenSHMEM job; use a unique id");
    }
    const bool by_mpi = (flags & NVSHMEMX_INIT_WITH_MPI_COMM) != 0;
    const bool by_id = (flags & NVSHMEMX_INIT_WITH_UNIQUEID) != 0;
    if ((by_mpi || by_id) && attributes == nullptr) {
      fail(ErrorCode::kInvalidArgument, "flags {:#x} need attributes, which are null", flags);
    }
    if (by_mpi) joining.mpi_comm = attributes->mpi_comm;
    if (by_mpi && joining.mpi_comm == nullptr) {
      fail(ErrorCode::kInvalidArgument, "attributes->mpi_comm is null: a pointer to an MPI_Comm");
    }
    if (by_id) {
      const nvshmemx_uniqueid_args_t& args = attributes->args.uid_args;
      if (args.id == nullptr) {
        fail(ErrorCode::kInvalidArgument, "no unique id: nvshmemx_set_attr_uniqueid_args sets it");
      }
      const char* const digits = args.id->internal;
      joining = {nullptr, std::string(digits, ::strnlen(digits, sizeof(args.id->internal))),
                 args.myrank, args.nranks};
    }
  } catch (const std::exception& error) {
    tell(call, error);
    return NVSHMEMX_ERROR_INVALID_VALUE;
  }
  return begin(joining, call);
}

void end(const char* call) {
  if (!begun()) {
    return tell(call, Error(ErrorCode::kInvalidArgument, "call nvshmem_init() first"));
  }
  if (--process().begins > 0) return;
  (void)make(now(call), detail::word_call(Call::kBarrierAll));
  fill_modules(nullptr);
  try {
    process().pe->runtime().finalize();
    process().pe.reset();
  } catch (const std::exception& error) {
    process().pe.reset();
    tell(call, error);
  }
}

bool begun() { return process().pe.has_value(); }

void abort_job(int status, const char* call) {
  (void)code_of(call, [](Pe& pe) { pe.runtime().abort("nvshmem_global_exit was called"); });
  ::_exit(status);
}

int make_unique_id(char* text) {
  try {
    const Config config = Config::from_environment(environ);
    process().root.emplace(find_address(config.tcp_interface));
    const std::string digits = process().root->id().to_string();
    memcpy(text, digits.c_str(), digits.size() + 1);
    return 0;
  } catch (const std::exception& error) {
    tell("nvshmemx_get_uniqueid", error);
  }
  return NVSHMEMX_ERROR_INTERNAL;
}

Pe& this_pe() {
  if (!process().pe) fail(ErrorCode::kInvalidArgument, "call nvshmem_init() first");
  process().pe->runtime().require("nvshmem");
  return *process().pe;
}
Runtime* runtime_or_null() { return begun() ? &this_pe().runtime() : nullptr; }

namespace {

// What kernels find where there is no PE: one of no job, whose calls are refused and whose waits
// are over.
struct Nobody {
  static constexpr auto kStatus = Status::kBadPe;
  ContextState context{};
  Shared shared{};
  uint32_t stop = static_cast<uint32_t>(kStatus);
  State state{};

  Nobody() {
    context.ended = stop;
    shared.first_failure = stop;
    Context& fields = state.context;
    fields.pe = -1;
    fields.n_pes = -1;
    fields.state = &context;
    fields.stop = &stop;
    context.fields = fields;
    state.unordered = fields;
    state.shared = &shared;
  }
};

const State& nobody() {
  static Immortal<Nobody> the_nobody;
  if (!process().told_of_no_pe.exchange(true)) {
    const std::string text =
        "a kernel makes calls where there is no PE: before nvshmem_init(), or after "
        "nvshmem_finalize(); they do nothing";
    remember(static_cast<int>(Nobody::kStatus), text);
    say(text);
  }
  return (*the_nobody).state;
}

}  // namespace

const State& process_state() {
  Process& its = process();
  return its.pe ? its.pe->state() : nobody();
}

void* stream_of(cudaStream_t stream) {
  if (stream != nullptr || this_pe().runtime().target() == Target::kGpu) return stream;
  return &simt::default_stream();
}

void tell(const char* call, const std::exception& error) {
  const std::string text = fmt::format("{}: {}", call, renamed(error.what(), kNames));
  const auto* const known = dynamic_cast<const Error*>(&error);
  const bool refused = known != nullptr && known->code() == ErrorCode::kInvalidArgument;
  const Failure failure = begun() && !refused ? this_pe().runtime().failure() : Failure();
  const bool of_kernels = failure.status != Status::kOk;
  remember(of_kernels ? static_cast<int>(failure.status) : -1, text);
  // What kernels met with ends every call from then on.
  if (of_kernels && (std::exchange(process().told_of_kernels, true) || failure.said)) return;
  say(text);
}

void tell_of_kernels(const char* call) {
  if (!begun() || process().told_of_kernels) return;
  int code = 0;
  bool said = false;
  const std::string text = renamed(this_pe().look_for_failure(&code, &said), kNames);
  if (code == 0) return;
  process().told_of_kernels = true;
  remember(code, text);
  if (!said) say(fmt::format("{}: PE {}: {}", call, this_pe().runtime().my_pe(), text));
}

FirstFailure failure() {
  bool said = false;
  if (begun() && process().failure_code == 0) {
    process().failure_text =
        renamed(this_pe().look_for_failure(&process().failure_code, &said), kNames);
  }
  return {process().failure_code, process().failure_text.c_str()};
}

}  // namespace peal::compat
