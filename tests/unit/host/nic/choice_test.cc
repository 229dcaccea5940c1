// SPDX-License-Identifier: Apache-2.0
//
// The NICs that a PE gets, of those that the fake lists, on machines of the test's own; and the
// reason that is given.
#include "host/nic/choice.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "host/nic/topology.h"
#include "tests/support/fake_rdma_fixture.h"
#include "tests/unit/host/nic/topology_fixture.h"

namespace peal::nic {
namespace {

using Syntax = HcaList::Syntax;
using Texts = std::vector<std::string>;

const HcaList kAny;

class NicChoice : public FakeRdmaTest {
 protected:
  /// For a machine's GPU; null: kernels on a CPU.
  Choice choice(const SysfsTree& tree, const char* address, const HcaList& list = kAny,
                size_t rails = 0) const {
    std::optional<GpuPlace> gpu;
    if (address) gpu = {2, address};
    const Choice made =
        choose_nics(*library(), gpu, {.list = list, .rails = rails, .root = tree.root()});
    EXPECT_EQ(made.why.find(made.names.at(0)), 0u);
    return made;
  }
  std::string why(const SysfsTree& tree, const char* address, const HcaList& list = kAny,
                  size_t rails = 0) const {
    return choice(tree, address, list, rails).why;
  }
  /// The NICs of every GPU, "mlx5_0 mlx5_1" each, when each looks for its own.
  std::vector<std::string> all_chosen(const SysfsTree& tree) const {
    std::vector<std::string> chosen;
    for (const PciPlace& gpu : Topology::read(tree.root()).gpus) {
      chosen.push_back(fmt::format("{}", fmt::join(choice(tree, gpu.address.c_str()).names, " ")));
    }
    return chosen;
  }
  /// As library(), but it says of itself that it is the software NIC.
  std::shared_ptr<const VerbsLibrary> software() const {
    const fs::path folder = fs::path(::testing::TempDir()) / "peal-softnic";
    fs::create_directories(folder);
    fs::copy_file(path_, folder / "lib.so", fs::copy_options::overwrite_existing);
    return VerbsLibrary::open({folder / "lib.so", folder / "lib.so", "", "", ""});
  }
};

TEST_F(NicChoice, TakesTheNearestAndSaysWhy) {
  const SysfsTree two(kTwoSockets);
  fake_.devices = {"mlx5_0", "mlx5_1", "mlx5_2"};
  EXPECT_EQ(why(two, "0000:86:00.0"), "mlx5_2: same NUMA node as GPU 2");
  EXPECT_EQ(why(two, "0000:3B:00.0"),
            "mlx5_1: same NUMA node as GPU 2; 1 of 2 as near, for 2 GPUs");
  fake_.devices = {"mlx5_0"};
  EXPECT_EQ(why(two, "0000:86:00.0"), "mlx5_0: other NUMA node than GPU 2");
  const SysfsTree one(kHgxOneNic);
  EXPECT_EQ(why(one, "0000:1B:00.0"), "mlx5_0: same PCIe switch as GPU 2");
  EXPECT_EQ(why(one, "0000:3C:00.0"), "mlx5_0: same root complex as GPU 2");
}

TEST_F(NicChoice, NamesThoseThatItCannotUse) {
  const SysfsTree tree(
      "gpu - 0 - 10/10:01.0/11:00.0\n"
      "nic mlx5_0 0 DOWN/InfiniBand 10/10:02.0/12:00.0\n"
      "nic mlx5_1 0 INIT/Ethernet 10/10:03.0/13:00.0\n"
      "nic mlx5_2 1 ACTIVE/Ethernet 20/20:02.0/22:00.0\n");
  fake_.foreign = {"hfi1_0"};
  fake_.devices = {"mlx5_0", "mlx5_1", "mlx5_2"};
  EXPECT_EQ(why(tree, "0000:11:00.0"),
            "mlx5_2: other NUMA node than GPU 2; not usable: mlx5_0 (port 1 DOWN), mlx5_1 (port 1 "
            "INIT)");
}

TEST_F(NicChoice, TakesInfiniBandAndEthernetAlike) {
  const SysfsTree tree(
      "gpu - 0 - 10/10:01.0/11:00.0\n"
      "nic mlx5_0 1 ACTIVE/InfiniBand 20/20:02.0/22:00.0\n"
      "nic mlx5_1 0 ACTIVE/Ethernet 10/10:02.0/12:00.0\n");
  fake_.devices = {"mlx5_0", "mlx5_1"};
  EXPECT_EQ(why(tree, "0000:11:00.0"), "mlx5_1: same root complex as GPU 2");
}

TEST_F(NicChoice, TakesANicForAnotherPortThanItsFirst) {
  const SysfsTree two(kTwoSockets);
  fake_.devices = {"mlx5_0", "mlx5_1", "mlx5_2"};
  EXPECT_EQ(choose_nics(*library(), {},
                        {.list = {"PEAL_HCA", "mlx5_1:2", Syntax::kPeal}, .root = two.root()})
                .names.at(0),
            "mlx5_1");
}

// Its link may come up, or sysfs may be wrong: the one there is gets tried.
TEST_F(NicChoice, TakesOneThatIsDownWhenThereIsNoOther) {
  const SysfsTree down(
      "gpu - 0 - 10/10:01.0/11:00.0\n"
      "nic mlx5_0 0 DOWN/InfiniBand 10/10:02.0/12:00.0\n"
      "nic mlx5_1 1 ACTIVE/InfiniBand 20/20:02.0/22:00.0\n");
  EXPECT_EQ(why(down, "0000:11:00.0"),
            "mlx5_0: same root complex as GPU 2; not usable: mlx5_0 (port 1 DOWN)");
  fake_.devices = {"mlx5_0", "mlx5_1"};
  EXPECT_EQ(why(down, "0000:11:00.0"),
            "mlx5_1: other NUMA node than GPU 2; not usable: mlx5_0 (port 1 DOWN)");
  EXPECT_EQ(why(down, nullptr), "mlx5_1: the only one; not usable: mlx5_0 (port 1 DOWN)");
}

/// Names and reasons of those that a PE would have otherwise.
std::string left_out(const Choice& choice) {
  std::string text;
  for (const UnusableNic& nic : choice.left_out) text += nic.name + ": " + nic.why + "\n";
  return text;
}

// Others may be down as they like: a machine has NICs that no job is meant to use.
TEST_F(NicChoice, TellsOfThoseItWouldHaveTaken) {
  const SysfsTree tree(
      "gpu - 0 - 10/10:01.0/11:00.0\n"
      "nic mlx5_0 0 DOWN/InfiniBand 10/10:01.0/12:00.0\n"
      "nic mlx5_1 0 ACTIVE/InfiniBand 10/10:02.0/13:00.0\n"
      "nic mlx5_2 1 DOWN/Ethernet 20/20:02.0/22:00.0\n");
  fake_.devices = {"mlx5_0", "mlx5_1", "mlx5_2"};
  const Choice one = choice(tree, "0000:11:00.0");
  EXPECT_EQ(one.names, (Texts{"mlx5_1"}));
  EXPECT_EQ(left_out(one), "mlx5_0: port 1 DOWN\n");
  EXPECT_EQ(left_out(choice(tree, nullptr)), "mlx5_0: port 1 DOWN\n");
  fake_.devices = {"mlx5_1", "mlx5_2"};
  EXPECT_EQ(left_out(choice(tree, "0000:11:00.0")), "");
  fake_.devices = {"mlx5_0"};
  EXPECT_EQ(left_out(choice(tree, "0000:11:00.0")), "") << "it is used";
}

TEST_F(NicChoice, TakesWhatIsNamedEvenIfItIsDown) {
  const SysfsTree tree(
      "gpu - 0 - 10/10:01.0/11:00.0\n"
      "nic mlx5_0 0 DOWN/InfiniBand 10/10:01.0/12:00.0\n"
      "nic mlx5_1 0 ACTIVE/InfiniBand 10/10:02.0/13:00.0\n");
  fake_.devices = {"mlx5_0", "mlx5_1"};
  EXPECT_EQ(choice(tree, nullptr, {"PEAL_HCA", "mlx5_0,mlx5_1", Syntax::kPeal}).names,
            (Texts{"mlx5_0", "mlx5_1"}));
  EXPECT_EQ(choice(tree, "0000:11:00.0", {"PEAL_HCA", "mlx5_0,mlx5_1", Syntax::kPeal}).names,
            (Texts{"mlx5_0"}));
  // Lists that say what may be used, not what must be.
  EXPECT_EQ(choice(tree, nullptr, {"PEAL_HCA", "^mlx5_7", Syntax::kPeal}).names, (Texts{"mlx5_1"}));
  EXPECT_EQ(choice(tree, nullptr, {"NCCL_IB_HCA", "mlx5", Syntax::kNccl}).names, (Texts{"mlx5_1"}));
}

TEST_F(NicChoice, PassesOverWhatCouldNotBeOpened) {
  const SysfsTree two(kTwoSockets);
  fake_.devices = {"mlx5_0", "mlx5_1", "mlx5_2"};
  const auto without = [&](std::vector<UnusableNic> refused, size_t rails) {
    return choose_nics(*library(), {},
                       {.rails = rails, .refused = std::move(refused), .root = two.root()});
  };
  const Choice second = without({{"mlx5_0", "no DEVX"}}, 0);
  EXPECT_EQ(second.why, "mlx5_1: the first of 2; not usable: mlx5_0 (no DEVX)");
  EXPECT_EQ(left_out(second), "mlx5_0: no DEVX\n");
  const Choice third = without({{"mlx5_0", "no DEVX"}, {"mlx5_1", "no port"}}, 0);
  EXPECT_EQ(third.names, (Texts{"mlx5_2"}));
  EXPECT_EQ(left_out(third), "mlx5_0: no DEVX\nmlx5_1: no port\n");
  EXPECT_EQ(without({{"mlx5_0", "a"}, {"mlx5_1", "b"}, {"mlx5_2", "c"}}, 0).names,
            (Texts{"mlx5_0"}))
      << "there is no other";
  expect_in(refusal(ErrorCode::kUnsupported,
                    [&] {
                      without({{"mlx5_0", "no DEVX"}}, 3);
                    }),
            {"PEAL_RAILS=3", "only mlx5_1, mlx5_2 can be used; not usable: mlx5_0 (no DEVX)"});
}

TEST_F(NicChoice, KeepsToTheList) {
  const SysfsTree two(kTwoSockets);
  fake_.devices = {"mlx5_0", "mlx5_1", "mlx5_2"};
  EXPECT_EQ(why(two, "0000:18:00.0", {"PEAL_HCA", "^mlx5_0", Syntax::kPeal}),
            "mlx5_1: same NUMA node as GPU 2, of those that PEAL_HCA=\"^mlx5_0\" allows");
  EXPECT_EQ(why(two, "0000:18:00.0", {"NCCL_IB_HCA", "=mlx5_2:1", Syntax::kNccl}),
            "mlx5_2: other NUMA node than GPU 2, of those that NCCL_IB_HCA=\"=mlx5_2:1\" allows");
}

TEST_F(NicChoice, TakesTheFirstWithoutAGpuOrWithoutSysfs) {
  const SysfsTree two(kTwoSockets);
  const SysfsTree bare("");
  fake_.devices = {"mlx5_2", "mlx5_0"};
  EXPECT_EQ(why(two, nullptr), "mlx5_2: the first of 2");
  EXPECT_EQ(why(bare, nullptr), "mlx5_2: the first of 2");
  EXPECT_EQ(why(bare, "0000:18:00.0"), "mlx5_2: distance to GPU 2 unknown");
  EXPECT_EQ(why(two, ""), "mlx5_2: distance to GPU 2 unknown");
}

TEST_F(NicChoice, UsesEightNicsForEightGpus) {
  const SysfsTree dgx(kDgxH100);
  fake_.devices = {"mlx5_0", "mlx5_3", "mlx5_4",  "mlx5_5",
                   "mlx5_6", "mlx5_9", "mlx5_10", "mlx5_11"};
  EXPECT_EQ(all_chosen(dgx), fake_.devices);
}

TEST_F(NicChoice, GivesAGpuAllNicsThatAreItsAlone) {
  const SysfsTree paired(kTwoNicsPerGpu);
  fake_.devices = {"mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3", "mlx5_4"};
  EXPECT_EQ(all_chosen(paired), (Texts{"mlx5_0 mlx5_1", "mlx5_2 mlx5_3"}));
  EXPECT_EQ(why(paired, "0000:1b:00.0"),
            "mlx5_0: same PCIe switch as GPU 2, mlx5_1: same PCIe switch as GPU 2; 2 of 2 as near, "
            "for 1 GPU");
  // A GPU that has none of its own leaves the other's alone.
  fake_.devices = {"mlx5_2", "mlx5_3", "mlx5_4"};
  EXPECT_EQ(all_chosen(paired), (Texts{"mlx5_4", "mlx5_2 mlx5_3"}));
}

TEST_F(NicChoice, SharesTheNearestOutInEqualParts) {
  fake_.devices = {"mlx5_0", "mlx5_1", "mlx5_2"};
  EXPECT_EQ(all_chosen(SysfsTree(kTwoSockets)), (Texts{"mlx5_0", "mlx5_1", "mlx5_2", "mlx5_2"}));
  EXPECT_EQ(all_chosen(SysfsTree(kFlatVm)), (Texts{"mlx5_0", "mlx5_1", "mlx5_2"}));
  fake_.devices = {"mlx5_0"};
  EXPECT_EQ(all_chosen(SysfsTree(kHgxOneNic)), Texts(5, "mlx5_0"));
  // Five for two: one is left over.
  const std::string gpus = "gpu - 0 - 10/10:01.0/11:00.0\ngpu - 0 - 10/10:02.0/12:00.0\n";
  std::string nics;
  for (const char* n : {"0", "1", "2", "3", "4"}) {
    nics +=
        std::string("nic mlx5_") + n + " 0 ACTIVE/InfiniBand 10/10:1" + n + ".0/2" + n + ":00.0\n";
  }
  fake_.devices = {"mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3", "mlx5_4"};
  const SysfsTree two(gpus + nics);
  EXPECT_EQ(all_chosen(two), (Texts{"mlx5_0 mlx5_1", "mlx5_2 mlx5_3"}));
  EXPECT_EQ(why(two, "0000:12:00.0"),
            "mlx5_2: same root complex as GPU 2, mlx5_3: same root complex as GPU 2; 2 of 5 as "
            "near, for 2 GPUs");
  // All five are one GPU's, more than it can use.
  EXPECT_EQ(all_chosen(SysfsTree("gpu - 0 - 10/10:01.0/11:00.0\n" + nics)),
            (Texts{"mlx5_0 mlx5_1 mlx5_2 mlx5_3"}));
}

// Eight processes that see no topology must not take all NICs each.
TEST_F(NicChoice, TakesOneWhereDistancesAreUnknown) {
  fake_.devices = {"mlx5_ib0", "mlx5_ib1"};
  EXPECT_EQ(all_chosen(SysfsTree(kDomainsVm)), (Texts{"mlx5_ib0", "mlx5_ib1"}));
  EXPECT_EQ(choice(SysfsTree(""), "0000:18:00.0").names, (Texts{"mlx5_ib0"}));
}

TEST_F(NicChoice, TakesAsManyAsAreAskedFor) {
  const SysfsTree two(kTwoSockets);
  fake_.devices = {"mlx5_0", "mlx5_1", "mlx5_2"};
  EXPECT_EQ(choice(two, "0000:86:00.0", kAny, 1).names, (Texts{"mlx5_2"}));
  EXPECT_EQ(why(two, "0000:86:00.0", kAny, 2),
            "mlx5_2: same NUMA node as GPU 2, mlx5_0: other NUMA node than GPU 2; PEAL_RAILS=2");
  EXPECT_EQ(why(two, nullptr, kAny, 2), "mlx5_0, mlx5_1: the first 2 of 3; PEAL_RAILS=2");
  const std::string too_many =
      refusal(ErrorCode::kUnsupported, [&] { why(two, "0000:86:00.0", kAny, 4); });
  expect_in(too_many,
            {"PEAL_RAILS=4", "only mlx5_2, mlx5_0, mlx5_1 can be used", "to 3 or to auto"});
}

TEST_F(NicChoice, TakesOneWithoutAGpuUnlessPealsListNamesSeveral) {
  const SysfsTree two(kTwoSockets);
  fake_.devices = {"mlx5_0", "mlx5_1", "mlx5_2"};
  const auto chosen = [&](const char* variable, const char* text, Syntax syntax) {
    return choice(two, nullptr, {variable, text, syntax}).names;
  };
  EXPECT_EQ(chosen("PEAL_HCA", "mlx5_2,mlx5_0", Syntax::kPeal), (Texts{"mlx5_0", "mlx5_2"}));
  EXPECT_EQ(chosen("PEAL_HCA", "^mlx5_0", Syntax::kPeal), (Texts{"mlx5_1"}));
  EXPECT_EQ(chosen("NVSHMEM_HCA_LIST", "mlx5_0,mlx5_1", Syntax::kNvshmem), (Texts{"mlx5_0"}));
  EXPECT_EQ(why(two, nullptr, {"PEAL_HCA", "mlx5_0,mlx5_1", Syntax::kPeal}),
            "mlx5_0, mlx5_1: all 2, of those that PEAL_HCA=\"mlx5_0,mlx5_1\" allows");
  // With a GPU the list says which may be used, not how many.
  EXPECT_EQ(choice(two, "0000:18:00.0", {"PEAL_HCA", "mlx5_0,mlx5_1,mlx5_2", Syntax::kPeal}).names,
            (Texts{"mlx5_0"}));
}

TEST_F(NicChoice, NamesTheListThatAllowsNone) {
  const SysfsTree bare("");
  fake_.devices = {"mlx5_0", "mlx5_1"};
  const auto refused = [&](const HcaList& list) {
    return refusal(ErrorCode::kUnsupported, [&] { why(bare, nullptr, list); });
  };
  expect_in(refused({"PEAL_HCA", "mlx5_7:2", Syntax::kPeal}),
            {"PEAL_HCA=\"mlx5_7:2\" allows no mlx5 device", "it has mlx5_0, mlx5_1"});
  expect_in(refused({"NCCL_IB_HCA", "ib", Syntax::kNccl}),
            {"NCCL_IB_HCA=\"ib\" allows", "PEAL_HCA chooses one"});
  fake_.devices = {};
  expect_in(refused(kAny), {"no mlx5 device at all by ConnectX via"});
}

// What sysfs tells of a real NIC with the same name is not about it.
TEST_F(NicChoice, TreatsTheSoftwareNicAsLyingNowhere) {
  const SysfsTree dgx(kDgxH100);
  const auto library = software();
  FakeRdma& fake = fake_at((fs::path(::testing::TempDir()) / "peal-softnic/lib.so").string());
  fake.devices = {"mlx5_1"};
  const GpuPlace gpu{0, "0000:1B:00.0"};
  EXPECT_EQ(choose_nics(*library, gpu, {.root = dgx.root()}).why, "mlx5_1: the only one");
  expect_in(refusal(ErrorCode::kUnsupported,
                    [&] {
                      choose_nics(*library, gpu, {.list = {"PEAL_HCA", "mlx5_7", Syntax::kPeal}});
                    }),
            {"PEAL_HCA=\"mlx5_7\"", "it has mlx5_1"});
}

}  // namespace
}  // namespace peal::nic
