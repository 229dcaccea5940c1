// SPDX-License-Identifier: Apache-2.0
//
// What an environment means, row by row. The hazard: N processes that each take themselves for a
// job of one PE, and end with 0.
#include "bootstrap/launch.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bootstrap/bootstraps.h"
#include "tests/support/error_of.h"

namespace peal::bootstrap {
namespace {

constexpr auto kSingle = BootstrapKind::kSingle;
constexpr auto kMpi = BootstrapKind::kMpi;
using Variables = std::vector<std::string>;
constexpr Deadline kPatient = std::chrono::seconds(60);

Config read(const Variables& variables) {
  std::vector<const char*> environment;
  for (const std::string& variable : variables) environment.push_back(variable.c_str());
  environment.push_back(nullptr);
  return Config::from_environment(environment.data());
}

Variables operator+(Variables a, const Variables& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const std::string kId = "PEAL_TCP_ID=" + std::string(44, 'a');
const Variables kTcp{kId, "PEAL_TCP_RANK=1", "PEAL_TCP_SIZE=2"};
const Variables kMpirun{"OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_RANK=1", "PMIX_NAMESPACE=7",
                        "PMIX_RANK=1"};
const Variables kMpirunAlone{"OMPI_COMM_WORLD_SIZE=1", "PMIX_NAMESPACE=7", "PMIX_RANK=0"};
const Variables kByHand{"RANK=3", "WORLD_SIZE=8", "MASTER_ADDR=node1", "MASTER_PORT=29500"};
const Variables kTorchrun = kByHand + Variables{"TORCHELASTIC_RUN_ID=none", "LOCAL_RANK=3"};
const Variables kSrun{"SLURM_JOB_ID=17", "SLURM_NTASKS=2", "SLURM_STEP_NUM_TASKS=2",
                      "SLURM_PROCID=1"};
const Variables kPmi{"PMI_FD=6", "PMI_RANK=1", "PMI_SIZE=2"};
// Of a shell that srun --mpi=pmi2 --pty started; what is started from it inherits them.
const Variables kPmiOfAShell{"PMI_FD=6", "PMI_RANK=0", "PMI_SIZE=1", "PMI_JOBID=17.0"};
const Variables kPmix{"PMIX_NAMESPACE=slurm.pmix.17.0", "PMIX_RANK=1"};

TEST(Launch, OfPealRunIsNoJobOfAnotherSize) {
  const std::string told =
      refusal(ErrorCode::kConfiguration, [] { check_size(read(kTcp), "the MPI communicator", 1); });
  expect_in(told, {"the MPI communicator has 1 rank, and PEAL_TCP_SIZE=2 tells of 2 PEs", "mpirun",
                   "PEAL_BOOTSTRAP=single"});
  EXPECT_NE(error_of([] { check_size(read(kTcp), "it", 3); }).what(), std::string("no error"));
  check_size(read(kTcp), "it", 2);
  check_size(read(kTcp + Variables{"PEAL_BOOTSTRAP=single"}), "it", 1);
  check_size(read(kMpirun), "a communicator of two of its ranks", 2);
  check_size(read({}), "it", 1);
}

struct Choice {
  const char* name;
  Variables variables;
  BootstrapKind kind;
  int rank;
  int size;
};

class Chooses : public testing::TestWithParam<Choice> {};
INSTANTIATE_TEST_SUITE_P(
    Launch, Chooses,
    testing::Values(
        Choice{"nothing", {}, kSingle, 0, 1}, Choice{"tcp", kTcp, BootstrapKind::kTcp, 1, 2},
        Choice{"tcp_in_mpirun", kTcp + kMpirun, BootstrapKind::kTcp, 1, 2},
        Choice{"mpirun", kMpirun, kMpi, 0, 0}, Choice{"mpirun_alone", kMpirunAlone, kMpi, 0, 0},
        Choice{"mpirun_in_srun", kMpirun + kSrun, kMpi, 0, 0},
        Choice{"mpirun_alone_in_srun", kMpirunAlone + kSrun, kMpi, 0, 0},
        Choice{"torchs_set_by_hand_under_mpirun", kMpirun + kByHand, kMpi, 0, 0},
        Choice{"torchrun", kTorchrun, BootstrapKind::kTorchrun, 3, 8},
        Choice{"by_hand", kByHand, BootstrapKind::kTorchrun, 3, 8},
        Choice{"torchrun_in_srun", kTorchrun + kSrun + kPmix, BootstrapKind::kTorchrun, 3, 8},
        Choice{"torchrun_of_one",
               {"TORCHELASTIC_RUN_ID=none", "RANK=0", "WORLD_SIZE=1", "MASTER_ADDR=a",
                "MASTER_PORT=1"},
               kSingle,
               0,
               1},
        Choice{"one_by_hand", {"RANK=0", "WORLD_SIZE=1"}, kSingle, 0, 1},
        Choice{"only_masters_address", {"MASTER_ADDR=a", "MASTER_PORT=1"}, kSingle, 0, 1},
        Choice{"only_somebodys_rank", {"RANK=colonel"}, kSingle, 0, 1},
        Choice{"pmi2", kSrun + kPmi, BootstrapKind::kPmi, 1, 2},
        Choice{"mpiexec", kPmi, BootstrapKind::kPmi, 1, 2},
        Choice{"mpiexec_alone", {"PMI_FD=6", "PMI_RANK=0", "PMI_SIZE=1"}, kSingle, 0, 1},
        Choice{"srun_pmix", kSrun + kPmix, BootstrapKind::kPmix, 1, 0},
        Choice{"srun_pmi2_of_one", kPmiOfAShell + Variables{"SLURM_STEP_NUM_TASKS=1"}, kSingle, 0,
               1},
        Choice{"srun_pmix_from_a_shell_of_srun_pmi2", kPmiOfAShell + kSrun + kPmix,
               BootstrapKind::kPmix, 1, 0},
        Choice{"mpiexec_alone_in_srun", kSrun + Variables{"PMI_FD=6", "PMI_RANK=0", "PMI_SIZE=1"},
               kSingle, 0, 1},
        Choice{"pmix", kPmix, BootstrapKind::kPmix, 1, 0},
        Choice{"srun_pmix_of_one",
               {"SLURM_STEP_NUM_TASKS=1", "PMIX_NAMESPACE=s", "PMIX_RANK=0"},
               kSingle,
               0,
               1},
        // A shell of salloc or a batch script knows of tasks to come, and is one process itself.
        Choice{"salloc", {"SLURM_JOB_ID=17", "SLURM_NTASKS=8"}, kSingle, 0, 1},
        Choice{"sbatch", {"SLURM_JOB_ID=17", "SLURM_NTASKS=8", "SLURM_PROCID=0"}, kSingle, 0, 1},
        Choice{"interactive_step",
               {"SLURM_JOB_ID=17", "SLURM_NTASKS=8", "SLURM_STEP_NUM_TASKS=1", "SLURM_PROCID=0"},
               kSingle,
               0,
               1},
        Choice{"single_is_meant", kSrun + Variables{"PEAL_BOOTSTRAP=single"}, kSingle, 0, 1},
        Choice{"single_is_meant_in_mpirun", kMpirun + Variables{"PEAL_BOOTSTRAP=single"}, kSingle,
               0, 1},
        Choice{"pmix_is_meant", kMpirun + Variables{"PEAL_BOOTSTRAP=pmix"}, BootstrapKind::kPmix, 1,
               0},
        Choice{"mpi_is_meant", {"PEAL_BOOTSTRAP=mpi"}, kMpi, 0, 0}),
    [](const auto& row) { return std::string(row.param.name); });

TEST_P(Chooses, TheInnermostLauncher) {
  const JoinPlan launch = choose_launch(read(GetParam().variables));
  EXPECT_EQ(launch.kind, GetParam().kind);
  EXPECT_EQ(launch.rank, GetParam().rank);
  EXPECT_EQ(launch.size, GetParam().size);
}

struct Refusal {
  const char* name;
  Variables variables;
  std::vector<std::string> words;  // of the error, beside PEAL_BOOTSTRAP=single
};

class Refuses : public testing::TestWithParam<Refusal> {};
INSTANTIATE_TEST_SUITE_P(
    Launch, Refuses,
    testing::Values(
        Refusal{"rank_without_id",
                {"PEAL_TCP_RANK=1"},
                {"PEAL_TCP_RANK=1 without PEAL_TCP_ID", "peal-id"}},
        Refusal{"size_without_id", {"PEAL_TCP_SIZE=2"}, {"PEAL_TCP_SIZE=2 without PEAL_TCP_ID"}},
        Refusal{"empty_id", {"PEAL_TCP_ID=", "PEAL_TCP_RANK=1"}, {"PEAL_TCP_RANK=1 without"}},
        Refusal{"srun_without_pmi", kSrun, {"SLURM_STEP_NUM_TASKS=2", "srun --mpi=pmix"}},
        Refusal{"srun_without_pmi_from_a_shell_of_srun_pmi2",
                kPmiOfAShell + kSrun,
                {"SLURM_STEP_NUM_TASKS=2 tells of several processes", "srun --mpi=pmix"}},
        Refusal{"stray_mpirun",
                {"OMPI_COMM_WORLD_SIZE=2"},
                {"OMPI_COMM_WORLD_SIZE=2 without PMIX_NAMESPACE", "mpirun", "unset it"}},
        Refusal{"world_size_alone", {"WORLD_SIZE=2"}, {"WORLD_SIZE=2 without RANK", "torchrun"}},
        Refusal{"no_master",
                {"WORLD_SIZE=2", "RANK=0", "MASTER_ADDR=a"},
                {"WORLD_SIZE=2 without MASTER_PORT", "peal-run"}},
        Refusal{"many", {"WORLD_SIZE=many"}, {"WORLD_SIZE=many is not a number"}},
        Refusal{"pmi_without_descriptor", {"PMI_SIZE=2", "PMI_RANK=0"}, {"PMI_SIZE=2", "PMI_FD"}},
        Refusal{"half_a_pmix", {"PMIX_RANK=1"}, {"PMIX_RANK=1 without PMIX_NAMESPACE"}},
        Refusal{"mvapich", {"MV2_COMM_WORLD_SIZE=2"}, {"MV2_COMM_WORLD_SIZE=2", "peal-run"}},
        Refusal{"jsrun", {"JSM_NAMESPACE_SIZE=2"}, {"JSM_NAMESPACE_SIZE=2", "jsrun"}}),
    [](const auto& row) { return std::string(row.param.name); });

TEST_P(Refuses, WithVariableValueAndRemedy) {
  const Error error = error_of([&] { choose_launch(read(GetParam().variables)); });
  EXPECT_EQ(error.code(), ErrorCode::kConfiguration);
  for (const std::string& word : GetParam().words) {
    EXPECT_TRUE(contains(error, word)) << error.what();
  }
  EXPECT_TRUE(contains(error, "PEAL_BOOTSTRAP=single")) << error.what();
  const Config meant = read(GetParam().variables + Variables{"PEAL_BOOTSTRAP=single"});
  EXPECT_EQ(choose_launch(meant).kind, kSingle);
}

TEST(Launch, RefusesHalfOfATcpJob) {
  for (const Variables& half :
       {Variables{kId}, {kId, "PEAL_TCP_RANK=0"}, {kId, "PEAL_TCP_SIZE=2"}}) {
    const Error error = error_of([&] { choose_launch(read(half)); });
    EXPECT_TRUE(contains(error, "PEAL_TCP_ID without PEAL_TCP_")) << error.what();
  }
  const Error error = error_of([] {
    choose_launch(read({kId, "PEAL_TCP_RANK=2", "PEAL_TCP_SIZE=2"}));
  });
  EXPECT_TRUE(contains(error, "PEAL_TCP_RANK=2 in a job of PEAL_TCP_SIZE=2")) << error.what();
}

TEST(Launch, RefusesALauncherThatIsAskedForAndNotThere) {
  for (const auto& [kind, missing] : {std::pair{"pmix", "PMIX_RANK"},
                                      {"pmi", "PMI_FD"},
                                      {"torchrun", "WORLD_SIZE"},
                                      {"tcp", "PEAL_TCP_ID"}}) {
    const Error error =
        error_of([&] { choose_launch(read({std::string("PEAL_BOOTSTRAP=") + kind})); });
    EXPECT_TRUE(contains(error, missing)) << error.what();
  }
}

TEST(Launch, TakesATcpJobThatAProgramFilledIn) {
  Config config = Config::defaults();
  config.tcp_id = std::string(44, 'a');
  config.tcp_size = 3;
  EXPECT_EQ(choose_launch(config).size, 3);
}

TEST(MakeLaunched, StartsAlone) { EXPECT_EQ(make_launched(Config::defaults())->size(), 1); }

// The descriptor of a launcher that is gone, inherited by name only.
TEST(MakeLaunched, RefusesAPmiDescriptorThatIsNotOpen) {
  const Error error = error_of([] {
    make_launched(read({"PMI_FD=987", "PMI_RANK=0", "PMI_SIZE=2"}));
  });
  EXPECT_TRUE(contains(error, "PMI_FD=987 is no open descriptor")) << error.what();
}

// Hazard: where rank 0 did not come to a rejoin, the others heard that their ranks are taken.
TEST(MakeLaunched, TellsWhoIsRestartedThatRank0IsLate) {
  TcpRoot root;
  const std::string id = root.id().to_string();
  const std::jthread rank0([&] { make_tcp(std::move(root), 2, kPatient)->barrier(); });
  const auto earlier = make_tcp(UniqueId::from_string(id), 1, 2, kPatient);
  const Error late = error_of([&] {
    make_launched(read({"PEAL_TCP_ID=" + id, "PEAL_TCP_RANK=1", "PEAL_TCP_SIZE=2",
                        "PEAL_TCP_RESTART=1", "PEAL_BOOTSTRAP_TIMEOUT=2s"}));
  });
  expect_error(late, ErrorCode::kTimeout, {"rank 0 of 2 did not come within 2 s"});
  earlier->barrier();
}

// Where PE 0 has died its new process may be looked for on another host.
TEST(MakeLaunched, TellsWhoIsRestartedWhereRank0HasToBe) {
  const ReservedId reserved;
  const auto join = [&](const std::string& restart) {
    return error_of([&] {
      make_launched(
          read({"PEAL_TCP_ID=" + reserved.id().to_string(), "PEAL_TCP_RANK=1", "PEAL_TCP_SIZE=2",
                "PEAL_TCP_RESTART=" + restart, "PEAL_BOOTSTRAP_TIMEOUT=100ms"}));
    });
  };
  const std::string told = "rank 0 did not listen at 127.0.0.1:";
  const std::string remedy = "who takes the place of PE 0 runs on the host with that address";
  expect_error(join("1"), ErrorCode::kTimeout, {told, remedy});
  const std::string first = join("0").what();
  EXPECT_NE(first.find(told), std::string::npos) << first;
  EXPECT_EQ(first.find(remedy), std::string::npos) << first;
}

}  // namespace
}  // namespace peal::bootstrap
