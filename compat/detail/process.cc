// SPDX-License-Identifier: Apache-2.0
//
// The one PE of a process, the modules that its kernels lie in, and the first failure.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "bootstrap/bootstraps.h"
#include "compat/detail/cuda.h"
#include "compat/detail/pe.h"
#include "compat/detail/setup.h"
#include "device/base/launch.h"
#include "host/base/error.h"
#include "simt/kernels.h"
#include "simt/stream.h"

namespace peal::compat {
namespace {

// The modules of the process, which are on the list before main() and outlive the PE.
struct Modules {
  std::mutex mutex;
  Module* first = nullptr;
  const State* filled_with = nullptr;
};
Modules& modules() {
  static Modules the_modules;
  return the_modules;
}

// NVSHMEM has one PE a process and no handle for it.
struct Process {
  std::optional<Pe> pe;
  int begins = 0;
  std::optional<bootstrap::TcpRoot> root;  // of a job that this process made the id of
  int failure_code = 0;
  std::string failure_text;
};
Process& process() {
  static Process the_process;
  return the_process;
}

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
  const std::lock_guard lock(modules().mutex);
  return modules().first != nullptr ? Target::kGpu : Target::kCpu;
}

// NVSHMEM's own size, in peal's spelling; its default where neither is set.
uint64_t heap_size_of(const Config& config) {
  if (config.given.contains("PEAL_HEAP_SIZE")) return config.heap_size;
  const std::string& theirs = config.nvshmem_symmetric_size;
  const std::string asked = "PEAL_HEAP_SIZE=" + (theirs.empty() ? "1G" : theirs);
  const char* const environment[] = {asked.c_str(), nullptr};
  try {
    return Config::from_environment(environment).heap_size;
  } catch (const Error& error) {
    throw Error(error.code(), std::string("NVSHMEM_SYMMETRIC_SIZE, read as ") + error.what());
  }
}

std::unique_ptr<Bootstrap> bootstrap_of(const Config& config, const Joining& joining) {
  const auto deadline = std::chrono::duration_cast<bootstrap::Deadline>(config.bootstrap_timeout);
  if (joining.mpi_comm != nullptr) {
    return bootstrap::make_mpi(joining.mpi_comm, deadline, config.mpi_plugin);
  }
  const auto id = bootstrap::UniqueId::from_string(joining.unique_id);
  std::optional<bootstrap::TcpRoot> root = std::exchange(process().root, std::nullopt);
  if (root && root->id() == id && joining.rank == 0) {
    return bootstrap::make_tcp(std::move(*root), joining.size, deadline);
  }
  root.reset();
  return bootstrap::make_tcp(id, joining.rank, joining.size, deadline);
}

Runtime start_runtime(const Joining& joining) {
  Config config = Config::from_environment(environ);
  const Target target = target_of(config);
  config.heap_size = heap_size_of(config);
  if (target == Target::kGpu && config.device < 0) config.device = gpu_in_use();
  if (joining.mpi_comm == nullptr && joining.unique_id == nullptr) return start(config, target);
  return Runtime(bootstrap_of(config, joining), config, target);
}

void fill_modules(const State* with) {
  const std::lock_guard lock(modules().mutex);
  modules().filled_with = with;
  if (with == nullptr) return;
  for (Module* module = modules().first; module != nullptr; module = module->next) {
    if (const int error = module->fill(*with); error != 0) {
      fail(ErrorCode::kSystem,
           "cudaMemcpyToSymbol: CUDA error {}: a file's kernels would not "
           "reach this PE",
           error);
    }
  }
}

}  // namespace

void add(Module& module) {
  const std::lock_guard lock(modules().mutex);
  module.next = std::exchange(modules().first, &module);
  // Of a library that is loaded later.
  if (modules().filled_with == nullptr) return;
  if (const int error = module.fill(*modules().filled_with); error != 0) {
    say(
        fmt::format("a library loaded after nvshmem_init: CUDA error {}: its kernels do not reach "
                    "this PE",
                    error));
  }
}

void remove(Module& module) {
  const std::lock_guard lock(modules().mutex);
  Module** at = &modules().first;
  while (*at != nullptr && *at != &module) at = &(*at)->next;
  if (*at != nullptr) *at = module.next;
}

int begin(const char* call, const Joining& joining) {
  if (process().pe) {
    ++process().begins;
    return 0;
  }
  try {
    process().failure_code = 0;
    process().failure_text.clear();
    process().pe.emplace(start_runtime(joining));
    fill_modules(&process().pe->state());
    process().begins = 1;
    return 0;
  } catch (const std::exception& error) {
    tell(call, error);
  }
  process().pe.reset();
  return NVSHMEMX_ERROR_INTERNAL;
}

int begin_by_attributes(const char* call, unsigned flags, const nvshmemx_init_attr_t* attributes) {
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
      joining = {nullptr, args.id->internal, args.myrank, args.nranks};
    }
  } catch (const std::exception& error) {
    tell(call, error);
    return NVSHMEMX_ERROR_INVALID_VALUE;
  }
  return begin(call, joining);
}

void end(const char* call) {
  if (!process().pe)
    return tell(call, Error(ErrorCode::kInvalidArgument, "call nvshmem_init() first"));
  if (--process().begins > 0) return;
  meet(call, [](const HostCalls& host) { host.barrier_all(); });
  fill_modules(nullptr);
  try {
    process().pe.reset();
  } catch (const std::exception& error) {
    tell(call, error);
  }
}

bool begun() { return process().pe.has_value(); }

int make_unique_id(char* text) {
  try {
    process().root.emplace();
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
  return *process().pe;
}
Runtime& runtime(const char*) { return this_pe().runtime(); }
Runtime* runtime_or_null() { return begun() ? &this_pe().runtime() : nullptr; }
const State& process_state() { return process().pe->state(); }

void* stream_of(cudaStream_t stream) {
  if (stream != nullptr || this_pe().runtime().target() == Target::kGpu) return stream;
  return &simt::default_stream();
}

void tell(const char* call, const std::exception& error) {
  const std::string text = fmt::format("{}: {}", call, error.what());
  const Status status = begun() ? this_pe().runtime().status() : Status::kOk;
  remember(status == Status::kOk ? -1 : static_cast<int>(status), text);
  say(text);
}

void tell_of_kernels(const char* call) {
  if (!begun() || process().failure_code != 0) return;
  const std::string text = this_pe().look_for_failure(&process().failure_code);
  if (process().failure_code == 0) return;
  process().failure_text = text;
  say(fmt::format("{}: PE {}: {}", call, this_pe().runtime().my_pe(), text));
}

FirstFailure failure() {
  if (begun() && process().failure_code == 0) {
    process().failure_text = this_pe().look_for_failure(&process().failure_code);
  }
  return {process().failure_code, process().failure_text.c_str()};
}

int launch(const char* call, const KernelStart& asked) {
  return code_of(call, [&](Runtime& pe) {
    KernelStart start = asked;
    if (start.blocks.x == 0) {
      int blocks = 0;
      if (most_blocks(call, start, &blocks) != 0) fail(ErrorCode::kInvalidArgument, "0 blocks");
      start.blocks = static_cast<unsigned>(blocks);
    }
    if (pe.target() == Target::kGpu) {
      Module* const module = modules().first;
      if (module == nullptr) {
        fail(ErrorCode::kUnsupported, "no file of the program was compiled by nvcc");
      }
      if (const int error = module->launch(start); error != 0) {
        fail(ErrorCode::kSystem, "cudaLaunchCooperativeKernel: CUDA error {}", error);
      }
      return;
    }
    const simt::Grid grid{{start.blocks.x, start.blocks.y, start.blocks.z},
                          {start.threads.x, start.threads.y, start.threads.z},
                          start.shared_bytes};
    auto body = simt::bind_kernel(start.kernel, start.arguments);
    static_cast<simt::Stream*>(stream_of(static_cast<cudaStream_t>(start.stream)))
        ->add([grid, body = std::move(body)] { simt::launch(grid, body).wait(); });
  });
}

int most_blocks(const char* call, const KernelStart& start, int* blocks) {
  return code_of(call, [&](Runtime& pe) {
    // simt runs all blocks at a time; more than there are workers gain nothing.
    *blocks = static_cast<int>(simt::limits().workers);
    if (pe.target() != Target::kGpu) return;
    Module* const module = modules().first;
    const int error = module == nullptr ? -1 : module->most_blocks(start, blocks);
    if (error != 0) fail(ErrorCode::kSystem, "occupancy of the kernel: CUDA error {}", error);
  });
}

int fill_module(const char* call, CUmod_st* module) {
  return code_of(call, [&](Runtime&) {
    // Its name in the code of state.h, as nvcc writes it.
    fill_object(module, "_ZN4peal6compat12module_stateE", &this_pe().state(), sizeof(State));
  });
}

}  // namespace peal::compat
