// SPDX-License-Identifier: Apache-2.0
//
// The configuration table, given environments of the test's own.
#include "host/base/config.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "tests/support/error_of.h"

namespace peal {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

Config read(std::initializer_list<const char*> entries) {
  std::vector<const char*> environment(entries);
  environment.push_back(nullptr);
  return Config::from_environment(environment.data());
}

/// What the refusal of `entries` says; fails the test when they are accepted.
std::string refusal(std::initializer_list<const char*> entries) {
  try {
    read(entries);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kConfiguration);
    return error.what();
  }
  ADD_FAILURE() << "accepted";
  return "";
}

TEST(Config, HasTheDocumentedDefaults) {
  const Config config = read({"PATH=/bin", "HOME=/"});
  EXPECT_EQ(config.heap_size, 64u << 20);
  EXPECT_EQ(config.queues, 4);
  EXPECT_EQ(config.queue_depth, 1024);
  EXPECT_EQ(config.timeout, seconds(600));
  EXPECT_EQ(config.bootstrap, BootstrapKind::kAuto);
  EXPECT_EQ(config.bootstrap_timeout, seconds(60));
  EXPECT_EQ(config.transport, TransportKind::kAuto);
  EXPECT_EQ(config.relaxed_ordering, RelaxedOrdering::kAuto);
  EXPECT_EQ(config.device, -1);
  EXPECT_EQ(config.log, LogLevel::kWarn);
  EXPECT_FALSE(config.info);
  EXPECT_EQ(config.hca + config.ibverbs + config.mlx5 + config.tcp_id + config.mpi_plugin, "");
  EXPECT_TRUE(config.given.empty());
}

TEST(Config, NeedsNoEnvironmentAtAll) {
  EXPECT_EQ(Config::from_environment(nullptr).queues, Config::defaults().queues);
}

TEST(Config, ReadsSizesWithTheirSuffixes) {
  EXPECT_EQ(read({"PEAL_HEAP_SIZE=65536"}).heap_size, 65536u);
  EXPECT_EQ(read({"PEAL_HEAP_SIZE=64K"}).heap_size, 65536u);
  EXPECT_EQ(read({"PEAL_HEAP_SIZE=3M"}).heap_size, 3u << 20);
  EXPECT_EQ(read({"PEAL_HEAP_SIZE=2G"}).heap_size, uint64_t{2} << 30);
  EXPECT_EQ(read({"PEAL_HEAP_SIZE=1T"}).heap_size, uint64_t{1} << 40);
}

TEST(Config, ReadsTimesWithTheirUnits) {
  EXPECT_EQ(read({"PEAL_TIMEOUT=250us"}).timeout, microseconds(250));
  EXPECT_EQ(read({"PEAL_TIMEOUT=20ms"}).timeout, milliseconds(20));
  EXPECT_EQ(read({"PEAL_TIMEOUT=3s"}).timeout, seconds(3));
  EXPECT_EQ(read({"PEAL_TIMEOUT=0"}).timeout, microseconds(0));
  EXPECT_EQ(read({"PEAL_TIMEOUT=5"}).timeout, seconds(5));
}

// People write switches in many ways: none of them is to end a job before it begins.
TEST(Config, ReadsSwitchesHoweverTheyAreWritten) {
  for (const char* on : {"on", "1", "yes", "true"}) {
    EXPECT_TRUE(read({("PEAL_INFO=" + std::string(on)).c_str()}).info) << on;
    EXPECT_TRUE(read({("PEAL_CHECK=" + std::string(on)).c_str()}).check) << on;
    EXPECT_EQ(read({("PEAL_RELAXED_ORDERING=" + std::string(on)).c_str()}).relaxed_ordering,
              RelaxedOrdering::kOn);
    EXPECT_EQ(read({("PEAL_GDRCOPY=" + std::string(on)).c_str()}).gdrcopy, "auto");
  }
  for (const char* off : {"off", "0", "no", "false"}) {
    EXPECT_FALSE(read({("PEAL_INFO=" + std::string(off)).c_str()}).info) << off;
    EXPECT_FALSE(read({("PEAL_SELF_TEST=" + std::string(off)).c_str()}).self_test) << off;
    EXPECT_EQ(read({("PEAL_RELAXED_ORDERING=" + std::string(off)).c_str()}).relaxed_ordering,
              RelaxedOrdering::kOff);
    EXPECT_EQ(read({("PEAL_CUFILE=" + std::string(off)).c_str()}).cufile, "off");
    EXPECT_EQ(read({("PEAL_RECORD=" + std::string(off)).c_str()}).record, 0);
  }
  for (const char* entry : {"PEAL_INFO=", "PEAL_INFO=2", "PEAL_CHECK=auto", "PEAL_SELF_TEST=y"}) {
    expect_in(refusal({entry}), {"on or off (or 1, yes, true; 0, no, false)"});
  }
}

TEST(Config, ReadsChoices) {
  EXPECT_EQ(read({"PEAL_BOOTSTRAP=mpi"}).bootstrap, BootstrapKind::kMpi);
  EXPECT_EQ(read({"PEAL_BOOTSTRAP=tcp"}).bootstrap, BootstrapKind::kTcp);
  EXPECT_EQ(read({"PEAL_BOOTSTRAP=single"}).bootstrap, BootstrapKind::kSingle);
  EXPECT_EQ(read({"PEAL_TRANSPORT=ibgda"}).transport, TransportKind::kIbgda);
  EXPECT_EQ(read({"PEAL_TRANSPORT=proxy"}).transport, TransportKind::kProxy);
  EXPECT_EQ(read({"PEAL_TRANSPORT=p2p"}).transport, TransportKind::kP2p);
  EXPECT_EQ(read({"PEAL_RELAXED_ORDERING=on"}).relaxed_ordering, RelaxedOrdering::kOn);
  EXPECT_EQ(read({"PEAL_RELAXED_ORDERING=off"}).relaxed_ordering, RelaxedOrdering::kOff);
  EXPECT_EQ(read({"PEAL_LOG=debug"}).log, LogLevel::kDebug);
  EXPECT_TRUE(read({"PEAL_INFO=1"}).info);
}

TEST(Config, KeepsTextsAsTheyAre) {
  EXPECT_EQ(read({"PEAL_IBVERBS=/a b/=c"}).ibverbs, "/a b/=c");
  EXPECT_EQ(read({"PEAL_HCA="}).hca, "");
  EXPECT_EQ(read({"PEAL_HCA=mlx5_3"}).hca, "mlx5_3");
}

TEST(Config, ReadsTheListsOfNicsThatOtherLibrariesHave) {
  const Config config = read({"NVSHMEM_HCA_LIST=mlx5_0:1", "NCCL_IB_HCA==mlx5_3", "NCCL_DEBUG=x"});
  EXPECT_EQ(config.hca, "");
  EXPECT_EQ(config.nvshmem_hca_list, "mlx5_0:1");
  EXPECT_EQ(config.nccl_ib_hca, "=mlx5_3");
  EXPECT_EQ(config.given.size(), 2u);
  expect_in(config.describe(), {"NCCL_IB_HCA            =mlx5_3      (set)"});
}

TEST(Config, RefusesAnUnknownNameAndSuggestsTheNearest) {
  expect_in(refusal({"PEAL_HEAPSIZE=1M"}), {"PEAL_HEAPSIZE", "PEAL_HEAP_SIZE"});
  expect_in(refusal({"PEAL_QUEUE=1"}), {"PEAL_QUEUES"});
  expect_in(refusal({"PEAL_SOFTNIC_FABRICS=x"}), {"PEAL_SOFTNIC_FABRIC?"});
  expect_in(refusal({"PEAL_HEAP=1M"}), {"did you mean PEAL_HEAP_SIZE?"});
  expect_in(refusal({"PEAL_"}), {"not a setting"});
}

TEST(Config, SuggestsWhatIsMeantAndNothingThatIsNot) {
  expect_in(refusal({"PEAL_DEBUG=1"}), {"did you mean PEAL_LOG=debug or PEAL_INFO=1?"});
  expect_in(refusal({"PEAL_SYMMETRIC_SIZE=1G"}), {"did you mean PEAL_HEAP_SIZE?"});
  for (const char* entry : {"PEAL_X=1", "PEAL_FROBNICATE=1", "PEAL_"}) {
    EXPECT_EQ(refusal({entry}).find("did you mean"), std::string::npos) << entry;
  }
}

TEST(Config, PassesOverTheSoftwareNicsOwnSettings) {
  const Config config = read(
      {"PEAL_SOFTNIC_FABRIC=a", "PEAL_SOFTNIC_DIR=/tmp", "PEAL_SOFTNIC_TIMEOUT_SCALE=nonsense"});
  EXPECT_TRUE(config.given.empty());
  EXPECT_EQ(config.softnic.size(), 3u);
}

TEST(Config, LeavesOtherProgramsVariablesAlone) {
  EXPECT_NO_THROW(read({"PEALX=1", "APPEAL_X=2", "peal_queues=9", "=PEAL_", ""}));
}

TEST(Config, RefusesMalformedSizesAndSaysWhatIsAccepted) {
  for (const char* value : {"", "x", "64 M", "64MB", "-1", "+1M", "0x100000", "1.5G", "M", "64m",
                            "99999999999999999999", "18446744073709551615T"}) {
    const std::string entry = std::string("PEAL_HEAP_SIZE=") + value;
    expect_in(refusal({entry.c_str()}), {"PEAL_HEAP_SIZE", value, "64K", "16T"});
  }
}

TEST(Config, RefusesSizesOutOfRange) {
  refusal({"PEAL_HEAP_SIZE=0"});
  refusal({"PEAL_HEAP_SIZE=65535"});
  refusal({"PEAL_HEAP_SIZE=17T"});
}

TEST(Config, RefusesCountsOutOfRange) {
  EXPECT_EQ(read({"PEAL_QUEUES=1"}).queues, 1);
  EXPECT_EQ(read({"PEAL_QUEUES=1024"}).queues, 1024);
  for (const char* entry : {"PEAL_QUEUES=0", "PEAL_QUEUES=1025", "PEAL_QUEUES=4x",
                            "PEAL_QUEUES=", "PEAL_QUEUES=-1", "PEAL_QUEUES=4294967297"}) {
    expect_in(refusal({entry}), {"PEAL_QUEUES", "from 1 to 1024"});
  }
}

TEST(Config, ReadsADeviceOrLeavesItOpen) {
  EXPECT_EQ(read({"PEAL_DEVICE=auto"}).device, -1);
  EXPECT_EQ(read({"PEAL_DEVICE=7"}).device, 7);
  for (const char* entry : {"PEAL_DEVICE=-1", "PEAL_DEVICE=", "PEAL_DEVICE=cuda:0"}) {
    expect_in(refusal({entry}), {"PEAL_DEVICE", "auto or a whole number"});
  }
}

TEST(Config, RefusesDepthsThatAreNoPowerOfTwo) {
  EXPECT_EQ(read({"PEAL_QUEUE_DEPTH=128"}).queue_depth, 128);
  EXPECT_EQ(read({"PEAL_QUEUE_DEPTH=16384"}).queue_depth, 16384);
  for (const char* entry :
       {"PEAL_QUEUE_DEPTH=64", "PEAL_QUEUE_DEPTH=1000", "PEAL_QUEUE_DEPTH=32768"}) {
    expect_in(refusal({entry}), {"power of two from 128 to 16384"});
  }
}

TEST(Config, ReadsHowManyCallsTheRecorderKeeps) {
  EXPECT_EQ(Config::defaults().record, 0);
  EXPECT_EQ(read({"PEAL_RECORD=0"}).record, 0);
  EXPECT_EQ(read({"PEAL_RECORD=4096"}).record, 4096);
  for (const char* entry : {"PEAL_RECORD=3", "PEAL_RECORD=8", "PEAL_RECORD=100", "PEAL_RECORD=-16",
                            "PEAL_RECORD=on", "PEAL_RECORD=2097152", "PEAL_RECORD=4294967296"}) {
    expect_in(refusal({entry}), {"PEAL_RECORD", "0 or a power of two from 16 to 1048576"});
  }
}

TEST(Config, RefusesNamesOfTracesThatSayMoreThanTheyCan) {
  EXPECT_EQ(read({"PEAL_RECORD_FILE=/tmp/100%%-%r.%p.json"}).record_file, "/tmp/100%%-%r.%p.json");
  for (const char* entry : {"PEAL_RECORD_FILE=a%", "PEAL_RECORD_FILE=%d", "PEAL_RECORD_FILE=%r%"}) {
    expect_in(refusal({entry}), {"PEAL_RECORD_FILE", "%r stands for the PE"});
  }
}

TEST(Config, RefusesTimesThatAreNone) {
  for (const char* entry : {"PEAL_TIMEOUT=", "PEAL_TIMEOUT=10m", "PEAL_TIMEOUT=s",
                            "PEAL_TIMEOUT=-1s", "PEAL_TIMEOUT=86401s", "PEAL_TIMEOUT=86401"}) {
    expect_in(refusal({entry}), {"PEAL_TIMEOUT", "20ms"});
  }
}

TEST(Config, RefusesACollectiveDeadlineOfNothing) {
  refusal({"PEAL_BOOTSTRAP_TIMEOUT=0"});
  refusal({"PEAL_BOOTSTRAP_TIMEOUT=999us"});
  EXPECT_EQ(read({"PEAL_BOOTSTRAP_TIMEOUT=1ms"}).bootstrap_timeout, milliseconds(1));
}

TEST(Config, ReadsAnAlgorithmOfACall) {
  using collective::Algorithm;
  EXPECT_EQ(read({}).algorithm, collective::ForcedAlgorithm{});
  EXPECT_EQ(read({"PEAL_ALGORITHM="}).algorithm, collective::ForcedAlgorithm{});
  EXPECT_EQ(read({"PEAL_ALGORITHM=broadcast:relay"}).algorithm,
            (collective::ForcedAlgorithm{Call::kBroadcast, Algorithm::kRelay}));
  for (const char* entry : {"PEAL_ALGORITHM=all_reduce:relay", "PEAL_ALGORITHM=all_reduce",
                            "PEAL_ALGORITHM=relay", "PEAL_ALGORITHM=sync:put"}) {
    expect_in(refusal({entry}), {"PEAL_ALGORITHM", "broadcast:exchange|fetch|relay|bruck|scatter",
                                 "all_to_all_v:store|put", "docs/collectives.md"});
  }
}

TEST(Config, RefusesChoicesAndListsThem) {
  expect_in(refusal({"PEAL_BOOTSTRAP=MPI"}), {"auto", "mpi", "tcp", "single"});
  expect_in(refusal({"PEAL_TRANSPORT="}), {"auto", "p2p", "ibgda"});
  expect_in(refusal({"PEAL_LOG=2"}), {"error", "warn", "info", "debug"});
}

TEST(Config, DescribesEverySettingWithItsOrigin) {
  const std::string table = read({"PEAL_QUEUES=8"}).describe();
  expect_in(table, {"PEAL_QUEUES            8            (set)", "PEAL_HEAP_SIZE         64M",
                    "(default)", "PEAL_HCA               (empty)", "PEAL_TRANSPORT", "PEAL_LOG"});
}

TEST(Config, DoesNotPrintSecrets) {
  const std::string table = read({"PEAL_TCP_ID=deadbeef"}).describe();
  EXPECT_EQ(table.find("deadbeef"), std::string::npos);
  expect_in(table, {"(not shown)"});
}

TEST(Config, KeepsTheVariablesOfLaunchers) {
  EXPECT_TRUE(Config::defaults().launcher.empty());
  const std::map<std::string, std::string> kept = {{"OMPI_COMM_WORLD_SIZE", "4"},
                                                   {"PMIX_RANK", "0"}};
  EXPECT_EQ(read({"OMPI_COMM_WORLD_SIZE=4", "PMIX_RANK=0", "OMPI_COMM_WORLD_SIZEX=4"}).launcher,
            kept);
}

TEST(FormatSize, UsesTheLargestSuffixThatDivides) {
  EXPECT_EQ(format_size(0), "0");
  EXPECT_EQ(format_size(1000), "1000");
  EXPECT_EQ(format_size(1536), "1536");
  EXPECT_EQ(format_size(65536), "64K");
  EXPECT_EQ(format_size(uint64_t{1} << 44), "16T");
  EXPECT_EQ(format_size(uint64_t{1} << 54), "16384T");
}

TEST(Error, NamesEveryCode) {
  EXPECT_STREQ(to_string(ErrorCode::kOutOfMemory), "out of memory");
  EXPECT_STREQ(to_string(ErrorCode::kInternal), "internal");
  EXPECT_STREQ(to_string(static_cast<ErrorCode>(99)), "unknown error code");
}

TEST(Error, TellsCallAndCauseOfASystemError) {
  try {
    fail_errno(2, "open(/x)");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kSystem);
    EXPECT_STREQ(error.what(), "open(/x): No such file or directory");
    return;
  }
  FAIL();
}

}  // namespace
}  // namespace peal
