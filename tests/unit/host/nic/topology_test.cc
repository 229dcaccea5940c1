// SPDX-License-Identifier: Apache-2.0
//
// Machines of every kind: what is read of them, and which NIC each of their GPUs gets.
#include "host/nic/topology.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "tests/unit/host/nic/topology_fixture.h"

namespace peal::nic {
namespace {

std::vector<std::string> names_of(const Topology& topology) {
  std::vector<std::string> names;
  for (const NicPlace& nic : topology.nics) names.push_back(nic.name);
  return names;
}

RankedNic nearest(const Topology& topology, const std::string& gpu,
                  const std::vector<std::string>& names) {
  return rank_nics(topology, gpu, names).at(0);
}

/// "name: distance" of the first NIC of every GPU.
std::vector<std::string> dealt(const Topology& topology, const std::vector<std::string>& names) {
  std::vector<std::string> all;
  for (const PciPlace& gpu : topology.gpus) {
    const RankedNic first = nearest(topology, gpu.address, names);
    all.push_back(first.name + ": " + to_string(first.distance));
  }
  return all;
}

using Texts = std::vector<std::string>;

TEST(Topology, ReadsPlacesAndPorts) {
  const SysfsTree tree(kDgxH100);
  const Topology topology = Topology::read(tree.root());
  ASSERT_EQ(topology.gpus.size(), 8u);
  EXPECT_EQ(topology.gpus[0].address, "0000:1b:00.0");
  EXPECT_EQ(topology.gpus[0].path,
            (Texts{"pci0000:15", "0000:15:01.0", "0000:16:00.0", "0000:17:02.0", "0000:1b:00.0"}));
  EXPECT_EQ(topology.gpus[0].numa_node, 0);
  EXPECT_EQ(topology.gpus[7].numa_node, 1);
  ASSERT_EQ(topology.nics.size(), 12u);
  EXPECT_EQ(topology.nics[2].name, "mlx5_2");  // by PCI address, so 10 comes behind 9
  EXPECT_EQ(topology.nics[10].name, "mlx5_10");
  const NicPlace* const nic = topology.nic("mlx5_9");
  ASSERT_NE(nic, nullptr);
  EXPECT_EQ(nic->pci.address, "0000:c0:00.0");
  ASSERT_EQ(nic->ports.size(), 1u);
  EXPECT_EQ(nic->ports[0].number, 1);
  EXPECT_EQ(nic->ports[0].state, "ACTIVE");
  EXPECT_EQ(nic->ports[0].link_layer, "InfiniBand");
  EXPECT_EQ(nic->ports[0].rate, "400 Gb/sec (4X NDR)");
  EXPECT_EQ(topology.nic("mlx5_2")->ports[0].state, "DOWN");
  EXPECT_EQ(topology.nic("mlx5_99"), nullptr);
}

TEST(Topology, GivesEveryGpuOfADgxTheNicUnderItsSwitch) {
  const SysfsTree tree(kDgxH100);
  const Topology topology = Topology::read(tree.root());
  EXPECT_EQ(
      dealt(topology, names_of(topology)),
      (Texts{"mlx5_0: same PCIe switch", "mlx5_3: same PCIe switch", "mlx5_4: same PCIe switch",
             "mlx5_5: same PCIe switch", "mlx5_6: same PCIe switch", "mlx5_9: same PCIe switch",
             "mlx5_10: same PCIe switch", "mlx5_11: same PCIe switch"}));
}

TEST(Topology, RanksTheOthersByDistance) {
  const SysfsTree tree(kDgxH100);
  const Topology topology = Topology::read(tree.root());
  const auto ranked = rank_nics(topology, "0000:9D:00.0", {"mlx5_0", "mlx5_9", "mlx5_6", "none"});
  ASSERT_EQ(ranked.size(), 4u);
  EXPECT_EQ(ranked[0].name, "mlx5_6");
  EXPECT_EQ(ranked[1].name, "mlx5_9");
  EXPECT_EQ(ranked[1].distance, Distance::kSameNumaNode);
  EXPECT_EQ(ranked[2].name, "mlx5_0");
  EXPECT_EQ(ranked[2].distance, Distance::kAcrossSockets);
  EXPECT_EQ(ranked[3].name, "none");
  EXPECT_EQ(ranked[3].distance, Distance::kUnknown);
}

TEST(Topology, TellsEveryDistanceToASingleNic) {
  const SysfsTree tree(kHgxOneNic);
  EXPECT_EQ(dealt(Topology::read(tree.root()), {"mlx5_0"}),
            (Texts{"mlx5_0: same PCIe switch", "mlx5_0: same PCIe switch", "mlx5_0: same NUMA node",
                   "mlx5_0: same root complex", "mlx5_0: other NUMA node"}));
}

TEST(Topology, StaysOnTheSocketAndDealsItsNicsOut) {
  const SysfsTree tree(kTwoSockets);
  const Topology topology = Topology::read(tree.root());
  EXPECT_EQ(dealt(topology, names_of(topology)),
            (Texts{"mlx5_0: same NUMA node", "mlx5_1: same NUMA node", "mlx5_2: same NUMA node",
                   "mlx5_2: same NUMA node"}));
  EXPECT_EQ(dealt(topology, {"mlx5_2"})[0], "mlx5_2: other NUMA node");
  EXPECT_EQ(dealt(topology, {"mlx5_0", "mlx5_1"}),
            (Texts{"mlx5_0: same NUMA node", "mlx5_1: same NUMA node", "mlx5_0: other NUMA node",
                   "mlx5_1: other NUMA node"}));
}

TEST(Topology, DealsOutWhereAVirtualMachineHidesIt) {
  const SysfsTree flat(kFlatVm);
  const Topology one_bus = Topology::read(flat.root());
  EXPECT_EQ(one_bus.gpus[0].numa_node, -1);
  EXPECT_EQ(dealt(one_bus, names_of(one_bus)),
            (Texts{"mlx5_0: same root complex", "mlx5_1: same root complex",
                   "mlx5_2: same root complex"}));
  const SysfsTree domains(kDomainsVm);
  const Topology apart = Topology::read(domains.root());
  EXPECT_EQ(dealt(apart, names_of(apart)),
            (Texts{"mlx5_ib0: distance unknown", "mlx5_ib1: distance unknown"}));
}

// Eight GPUs and eight NICs under four switches, and one GPU that has no NIC below its own: it must
// not take one from those that have no other choice.
TEST(Topology, UsesEveryNicThatGpusCanShareOutAmongThem) {
  std::string table = "gpu - 0 - 10/10:09.0/11:00.0\n";
  const char* const kNumbers[] = {"1", "2", "3", "4"};
  for (const std::string n : kNumbers) {
    for (const std::string half : {"a", "b"}) {
      const std::string bridge = " 10/10:0" + n + ".0/" + n + "0:00.0/";
      table += "gpu - 0 -" + bridge + n + "1:0" + half + ".0/" + n + half + ":00.0\n";
      table += "nic mlx5_" + n + half + " 0 -" + bridge + n + "2:0" + half + ".0/" + n + half +
               ":01.0\n";
    }
  }
  const SysfsTree tree(table);
  const Topology topology = Topology::read(tree.root());
  const std::vector<std::string> names = names_of(topology);
  ASSERT_EQ(names.size(), 8u);
  std::multiset<std::string> used;
  for (const PciPlace& gpu : topology.gpus) {
    const RankedNic first = nearest(topology, gpu.address, names);
    if (gpu.address == "0000:11:00.0") {
      EXPECT_EQ(first.distance, Distance::kSameRootComplex);
    } else {
      EXPECT_EQ(first.distance, Distance::kSameSwitch);
      used.insert(first.name);
    }
  }
  EXPECT_EQ(std::set<std::string>(used.begin(), used.end()).size(), 8u);
}

// The GPU with the wider choice has the lower address: taken in that order, it would take the only
// NIC near to the other one.
TEST(Topology, LetsGpusWithLessChoiceGoFirst) {
  const SysfsTree tree(R"(
gpu - 0 - 10/10:01.0/11:00.0
gpu - 0 - 10/10:02.0/20:00.0/21:00.0/22:00.0
nic mlx5_0 0 - 10/10:02.0/20:00.0/21:01.0/23:00.0
nic mlx5_1 0 - 10/10:03.0/31:00.0
)");
  EXPECT_EQ(dealt(Topology::read(tree.root()), {"mlx5_0", "mlx5_1"}),
            (Texts{"mlx5_1: same root complex", "mlx5_0: same PCIe switch"}));
}

TEST(Topology, SharesNicsOutAmongTheGpusThatTheyAreNearestTo) {
  const auto share = [](const char* table, const char* gpu, const std::vector<std::string>& names) {
    const SysfsTree tree(table);
    const NicShare found = share_of(Topology::read(tree.root()), gpu, names);
    return std::vector<size_t>{found.nics, found.nearest, found.gpus};
  };
  using Counts = std::vector<size_t>;
  EXPECT_EQ(share(kDgxH100, "1b:00.0", {"mlx5_0", "mlx5_3"}), (Counts{1, 1, 1}));
  EXPECT_EQ(share(kDgxH100, "52:00.0", {"mlx5_0", "mlx5_3"}), (Counts{1, 2, 4}));
  EXPECT_EQ(share(kTwoNicsPerGpu, "1b:00.0", {"mlx5_0", "mlx5_1", "mlx5_2"}), (Counts{2, 2, 1}));
  EXPECT_EQ(share(kTwoSockets, "18:00.0", {"mlx5_0", "mlx5_1", "mlx5_2"}), (Counts{1, 2, 2}));
  EXPECT_EQ(share(kTwoSockets, "86:00.0", {"mlx5_0", "mlx5_1", "mlx5_2"}), (Counts{1, 1, 2}));
  EXPECT_EQ(share(kFlatVm, "00:05.0", {"mlx5_0"}), (Counts{1, 1, 3}));
  EXPECT_EQ(share("", "00:05.0", {"mlx5_0", "mlx5_1"}), (Counts{2, 2, 1}));
}

TEST(Topology, PrefersTheDeeperOfTwoSwitches) {
  const SysfsTree tree(R"(
gpu - 0 - 10/10:01.0/11:00.0/12:00.0/13:00.0/14:00.0/15:00.0
nic mlx5_0 0 - 10/10:01.0/11:00.0/12:01.0/16:00.0
nic mlx5_1 0 - 10/10:01.0/11:00.0/12:00.0/13:00.0/14:01.0/17:00.0
)");
  EXPECT_EQ(dealt(Topology::read(tree.root()), {"mlx5_0", "mlx5_1"}),
            (Texts{"mlx5_1: same PCIe switch"}));
}

TEST(Topology, IsEmptyWhereThereIsNone) {
  const SysfsTree bare("");
  for (const fs::path& root : {bare.root(), fs::path("/nowhere")}) {
    const Topology none = Topology::read(root);
    EXPECT_TRUE(none.gpus.empty());
    EXPECT_TRUE(none.nics.empty());
    EXPECT_TRUE(rank_nics(none, "0000:1b:00.0", {}).empty());
    const auto ranked = rank_nics(none, "0000:1b:00.0", {"mlx5_0", "mlx5_1"});
    ASSERT_EQ(ranked.size(), 2u);
    EXPECT_EQ(ranked[0].name, "mlx5_0");
    EXPECT_EQ(ranked[0].distance, Distance::kUnknown);
  }
}

TEST(Topology, TakesGarbageForUnknown) {
  const SysfsTree tree(R"(
gpu - zero - 10/10:01.0/11:00.0
nic mlx5_0 0x0 garbage 20/20:01.0/21:00.0
nic mlx5_1 -7 - 30/30:01.0/31:00.0
nic rxe0 - ACTIVE/Ethernet -
)");
  const fs::path infiniband = tree.root() / "sys/class/infiniband";
  SysfsTree::write(infiniband / "mlx5_0/ports/all/state", "4: ACTIVE");
  fs::create_directory_symlink("../nowhere", infiniband / "mlx5_dangling");
  SysfsTree::write(infiniband / "a_file", "");
  fs::create_directory_symlink("nowhere", tree.root() / "sys/bus/pci/devices/0000:99:00.0");
  const Topology topology = Topology::read(tree.root());
  ASSERT_EQ(topology.gpus.size(), 1u);
  EXPECT_EQ(topology.gpus[0].numa_node, -1);
  EXPECT_EQ(topology.nic("mlx5_0")->pci.numa_node, -1);
  EXPECT_EQ(topology.nic("mlx5_1")->pci.numa_node, -1);
  ASSERT_EQ(topology.nic("mlx5_0")->ports.size(), 1u);  // not "all"
  EXPECT_EQ(topology.nic("mlx5_0")->ports[0].state, "garbage");
  EXPECT_TRUE(topology.nic("rxe0")->pci.path.empty());
  EXPECT_TRUE(topology.nic("mlx5_dangling")->ports.empty());
  EXPECT_EQ(nearest(topology, "0000:11:00.0", {"mlx5_1"}).distance, Distance::kUnknown);
  EXPECT_EQ(nearest(topology, "no address", {"mlx5_1"}).distance, Distance::kUnknown);
}

// A driver's sub-function lies one level below the PCI device that it is one of.
TEST(Topology, PlacesASubFunctionWhereItsDeviceIs) {
  const SysfsTree tree(kHgxOneNic);
  const fs::path sys = tree.root() / "sys";
  const fs::path function = fs::canonical(sys / "bus/pci/devices/0000:19:00.0") / "mlx5_core.sf.2";
  fs::create_directories(function / "infiniband/mlx5_1");
  SysfsTree::link(function / "infiniband/mlx5_1/device", function);
  SysfsTree::link(sys / "class/infiniband/mlx5_1", function / "infiniband/mlx5_1");
  const Topology topology = Topology::read(tree.root());
  EXPECT_EQ(topology.nic("mlx5_1")->pci.path, topology.nic("mlx5_0")->pci.path);
  EXPECT_EQ(topology.nic("mlx5_1")->pci.numa_node, 0);
}

TEST(PciAddress, IsSpelledAsSysfsDoes) {
  EXPECT_EQ(pci_address("0000:1B:00.0"), "0000:1b:00.0");
  EXPECT_EQ(pci_address("00000000:1b:00.0"), "0000:1b:00.0");
  EXPECT_EQ(pci_address("1b:00.0"), "0000:1b:00.0");
  EXPECT_EQ(pci_address("0009:01:00.0"), "0009:01:00.0");
  EXPECT_EQ(pci_address("00010000:01:00.0"), "10000:01:00.0");
  for (const char* none : {"", "mlx5_0", "pci0000:00", "0000:1b:00", "0000:1b:00.0 ", "000:1b:00.0",
                           "0000:1b:00.g", "0000:1b:000.0", "0000:1b:00.00", "::.", "1b.00:0"}) {
    EXPECT_EQ(pci_address(none), "") << none;
  }
}

}  // namespace
}  // namespace peal::nic
