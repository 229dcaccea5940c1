// SPDX-License-Identifier: Apache-2.0
//
// Each launcher is a question to the environment, asked from the innermost to the outermost; the
// first that has an answer ends it. The last ones can only tell that they cannot help.
#include "bootstrap/launch.h"

#include <charconv>
#include <optional>

#include "bootstrap/bootstraps.h"
#include "bootstrap/launchers.h"
#include "host/base/error.h"

namespace peal::bootstrap {
namespace {

constexpr const char* kAlone = "PEAL_BOOTSTRAP=single, if one PE is meant";

class Environment {
 public:
  explicit Environment(const Config& config) : config_(config) {}

  bool has(const std::string& name) const { return config_.launcher.contains(name); }
  std::string text(const std::string& name) const {
    const auto found = config_.launcher.find(name);
    return found == config_.launcher.end() ? "" : found->second;
  }
  std::string shown(const std::string& name) const { return name + "=" + text(name); }

  /// A count or a rank; nothing where the variable is not set.
  std::optional<int> number(const std::string& name) const {
    if (!has(name)) return std::nullopt;
    const std::string digits = text(name);
    int value = -1;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size() || value < 0) {
      fail(ErrorCode::kConfiguration, "{} is not a number of processes: unset it, or set {}",
           shown(name), kAlone);
    }
    return value;
  }
  bool several(const std::string& name) const { return number(name).value_or(1) > 1; }

  /// Throws unless all of `names` are set; `told` is the variable that makes them necessary.
  void require(const std::string& told, std::initializer_list<const char*> names,
               const std::string& remedy) const {
    for (const char* name : names) {
      if (has(name)) continue;
      fail(ErrorCode::kConfiguration, "{} without {}: {}, or set {}", shown(told), name, remedy,
           kAlone);
    }
  }

 private:
  const Config& config_;
};

// What the three variables say together: none or all of them, but for those a program has filled in
// itself.
constexpr const char* kTcpId = "PEAL_TCP_ID";

std::optional<JoinPlan> by_tcp(const Config& config) {
  const auto given = [&config](const char* name) {
    const auto found = config.given.find(name);
    return found != config.given.end() && !found->second.empty();
  };
  const bool asked = config.bootstrap == BootstrapKind::kTcp;
  const bool from_environment = given("PEAL_TCP_ID");
  if (config.tcp_id.empty()) {
    for (const char* name : {"PEAL_TCP_RANK", "PEAL_TCP_SIZE"}) {
      if (!given(name)) continue;
      fail(ErrorCode::kConfiguration,
           "{}={} without PEAL_TCP_ID: set all three for every PE (peal-id makes an id), start the "
           "program by peal-run, or set {}",
           name, config.given.at(name), kAlone);
    }
    if (!asked) return std::nullopt;
    fail(ErrorCode::kConfiguration,
         "PEAL_BOOTSTRAP=tcp needs PEAL_TCP_ID, PEAL_TCP_RANK and PEAL_TCP_SIZE: peal-id makes an "
         "id, peal-run sets all three");
  }
  UniqueId::from_string(config.tcp_id, kTcpId);  // throws for one that is none
  for (const char* name : {"PEAL_TCP_RANK", "PEAL_TCP_SIZE"}) {
    if (from_environment && !given(name)) {
      fail(ErrorCode::kConfiguration,
           "PEAL_TCP_ID without {}: set PEAL_TCP_RANK and PEAL_TCP_SIZE for every PE, or let "
           "peal-run do it",
           name);
    }
  }
  if (config.tcp_rank >= config.tcp_size) {
    fail(ErrorCode::kConfiguration,
         "PEAL_TCP_RANK={} in a job of PEAL_TCP_SIZE={}: ranks are 0 to size - 1", config.tcp_rank,
         config.tcp_size);
  }
  return JoinPlan{BootstrapKind::kTcp, config.tcp_rank, config.tcp_size, ""};
}

// The plan to join as rank *rank of *size. `remedy` ends the error about a rank that is none.
JoinPlan placed(BootstrapKind kind, const Environment& its, const char* rank, const char* size,
                const std::string& remedy = "") {
  const JoinPlan plan{kind, *its.number(rank), *its.number(size), its.shown(size)};
  if (plan.rank < plan.size) return plan;
  fail(ErrorCode::kConfiguration, "{} in a job of {}: ranks are 0 to size - 1{}", its.shown(rank),
       its.shown(size), remedy);
}

JoinPlan by_torch(const Environment& its) {
  const std::string remedy =
      "torchrun sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; start the program by it or by "
      "peal-run, or unset it";
  its.require("WORLD_SIZE", {"RANK", "MASTER_ADDR", "MASTER_PORT"}, remedy);
  return placed(BootstrapKind::kTorchrun, its, "RANK", "WORLD_SIZE", "; " + remedy);
}

JoinPlan by_mpi(const Environment& its) {
  its.require("OMPI_COMM_WORLD_SIZE", {"PMIX_NAMESPACE"},
              "no mpirun stands behind it; start the program by mpirun or peal-run, or unset it");
  return {BootstrapKind::kMpi, 0, 0, its.shown("OMPI_COMM_WORLD_SIZE")};
}

JoinPlan by_pmi(const Environment& its) {
  its.require("PMI_FD", {"PMI_RANK", "PMI_SIZE"},
              "start the program by srun --mpi=pmi2, MPICH's mpiexec or peal-run, or unset it");
  return placed(BootstrapKind::kPmi, its, "PMI_RANK", "PMI_SIZE");
}

JoinPlan by_pmix(const Environment& its) {
  const char* const other = its.has("PMIX_RANK") ? "PMIX_RANK" : "PMIX_NAMESPACE";
  its.require(other, {"PMIX_NAMESPACE", "PMIX_RANK"},
              "start the program by srun --mpi=pmix, mpirun or peal-run, or unset it");
  const bool counted = its.several("SLURM_STEP_NUM_TASKS");
  return {BootstrapKind::kPmix, *its.number("PMIX_RANK"), 0,
          counted ? its.shown("SLURM_STEP_NUM_TASKS") : ""};
}

// Launchers whose processes meet by means that peal does not have, or that were told not to help.
struct Unhelpful {
  const char* size;
  const char* remedy;
};
constexpr Unhelpful kUnhelpful[] = {
    {"PMI_SIZE", "its launcher gives no PMI_FD; use srun --mpi=pmi2 or --mpi=pmix, or peal-run"},
    {"SLURM_STEP_NUM_TASKS",
     "srun gave the processes no way to meet; use srun --mpi=pmix or --mpi=pmi2, or peal-run"},
    {"MV2_COMM_WORLD_SIZE", "peal has no bootstrap over MVAPICH; use Open MPI, srun or peal-run"},
    {"FLUX_JOB_SIZE", "use flux run -o pmi=simple, Open MPI or peal-run"},
    {"JSM_NAMESPACE_SIZE", "peal has no bootstrap over jsrun; use Open MPI or peal-run"},
};

// srun hands the variables of the shell that it is called from on to its tasks. Where another srun
// --mpi=pmi2 started that shell, as a step of one task, they tell of a PMI that has left.
bool told_by_pmi_of_a_shell(const Environment& its) {
  return its.has("PMI_JOBID") && its.number("PMI_SIZE") == 1 && its.several("SLURM_STEP_NUM_TASKS");
}

JoinPlan by_launcher(const Environment& its) {
  if (its.has("TORCHELASTIC_RUN_ID") && its.has("WORLD_SIZE")) {
    const JoinPlan launch = by_torch(its);
    return launch.size > 1 ? launch : JoinPlan{};
  }
  if (its.several("OMPI_COMM_WORLD_SIZE")) return by_mpi(its);
  // Alone under mpirun: a launcher that this process may rely on, whatever others around it say.
  if (its.has("OMPI_COMM_WORLD_SIZE") && its.has("PMIX_NAMESPACE")) return by_mpi(its);
  if (its.several("WORLD_SIZE")) return by_torch(its);
  if (its.has("PMI_FD") && !told_by_pmi_of_a_shell(its)) {
    const JoinPlan launch = by_pmi(its);
    return launch.size > 1 ? launch : JoinPlan{};
  }
  if (its.has("PMIX_RANK") || its.has("PMIX_NAMESPACE")) {
    return its.number("SLURM_STEP_NUM_TASKS") == 1 ? JoinPlan{} : by_pmix(its);
  }
  for (const auto& [size, remedy] : kUnhelpful) {
    if (!its.several(size)) continue;
    fail(ErrorCode::kConfiguration,
         "{} tells of several processes, and this one is alone: {}, or set {}", its.shown(size),
         remedy, kAlone);
  }
  return {};
}

std::unique_ptr<Bootstrap> join_tcp(const Config& config, const JoinPlan& launch,
                                    Deadline deadline) {
  const UniqueId id = UniqueId::from_string(config.tcp_id, kTcpId);
  if (config.tcp_restart > 0) return make_tcp_again(id, launch.rank, launch.size, deadline);
  return make_tcp(id, launch.rank, launch.size, deadline);
}

}  // namespace

JoinPlan choose_launch(const Config& config) {
  const Environment its(config);
  const auto need = [&its](const char* name, const char* asked, const char* remedy) {
    if (!its.has(name)) {
      fail(ErrorCode::kConfiguration, "PEAL_BOOTSTRAP={}, but {} is not set: {}", asked, name,
           remedy);
    }
  };
  switch (config.bootstrap) {
    case BootstrapKind::kSingle:
      return {};
    case BootstrapKind::kMpi: {
      if (its.several("OMPI_COMM_WORLD_SIZE")) return by_mpi(its);
      const bool by_srun = !its.has("OMPI_COMM_WORLD_SIZE") && its.several("SLURM_STEP_NUM_TASKS");
      return {BootstrapKind::kMpi, 0, 0, by_srun ? its.shown("SLURM_STEP_NUM_TASKS") : ""};
    }
    case BootstrapKind::kPmix:
      need("PMIX_RANK", "pmix", "start the program by srun --mpi=pmix or mpirun");
      return by_pmix(its);
    case BootstrapKind::kPmi:
      need("PMI_FD", "pmi", "start the program by srun --mpi=pmi2 or MPICH's mpiexec");
      return by_pmi(its);
    case BootstrapKind::kTorchrun:
      need("WORLD_SIZE", "torchrun", "start the program by torchrun");
      return by_torch(its);
    case BootstrapKind::kTcp:
    case BootstrapKind::kAuto:
      break;
  }
  const std::optional<JoinPlan> tcp = by_tcp(config);
  return tcp ? *tcp : by_launcher(its);
}

void check_size(const Config& config, const std::string& group, int size) {
  const bool told = config.given.contains("PEAL_TCP_ID") && config.given.contains("PEAL_TCP_SIZE");
  if (!told || config.tcp_size < 2 || config.tcp_size == size ||
      config.bootstrap == BootstrapKind::kSingle) {
    return;
  }
  fail(ErrorCode::kConfiguration,
       "{} has {} {}, and PEAL_TCP_SIZE={} tells of {} PEs: peal-run starts no MPI job, in which "
       "each process then is one of its own; start the program by mpirun, let the launcher's "
       "variables make the job (PEAL_BOOTSTRAP=auto, nvshmem_init()), or set {}",
       group, size, size == 1 ? "rank" : "ranks", config.tcp_size, config.tcp_size, kAlone);
}

std::unique_ptr<Bootstrap> make_launched(const Config& config) {
  const JoinPlan launch = choose_launch(config);
  const auto deadline = std::chrono::duration_cast<Deadline>(config.bootstrap_timeout);
  std::unique_ptr<Bootstrap> group;
  switch (launch.kind) {
    case BootstrapKind::kMpi:
      group = make_mpi(nullptr, deadline, config.mpi_plugin);
      check_size(config, "MPI's world", group->size());
      break;
    case BootstrapKind::kPmix:
      group = make_pmix(launch.rank, config.tcp_interface, deadline);
      break;
    case BootstrapKind::kPmi:
      group = make_pmi({.fd = *Environment(config).number("PMI_FD"),
                        .rank = launch.rank,
                        .size = launch.size,
                        .interface = config.tcp_interface},
                       deadline);
      break;
    case BootstrapKind::kTorchrun:
      group = make_torchrun(TorchJob::from(config.launcher), deadline);
      break;
    case BootstrapKind::kTcp:
      group = join_tcp(config, launch, deadline);
      break;
    case BootstrapKind::kAuto:
    case BootstrapKind::kSingle:
      group = make_single();
      break;
  }
  if (group->size() == 1 && !launch.told_by.empty() && !launch.told_by.ends_with("=1")) {
    fail(
        ErrorCode::kConfiguration,
        "{} tells of several processes, but this one is alone: its launcher did not start this "
        "process, or is of another kind than the library here; start the program by srun "
        "--mpi=pmix or --mpi=pmi2, by mpirun of the Open MPI that libpeal_mpi.so is built with, or "
        "by peal-run, unset the variable, or set {}",
        launch.told_by, kAlone);
  }
  return group;
}

}  // namespace peal::bootstrap
