// SPDX-License-Identifier: Apache-2.0
//
// What the doctor says of a ready machine, of one with nothing, and of each defect by itself.
#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "doctor/report.h"
#include "tests/unit/doctor/fixture.h"

namespace peal::doctor {
namespace {

class Doctor : public ::testing::Test {
 protected:
  // Whatever a test did to the machine: who is warned is told what to do.
  ~Doctor() override {
    for (const Finding& finding : examine(node.machine)) {
      const bool bad = finding.level == Level::kWarn || finding.level == Level::kFail;
      EXPECT_EQ(bad, !finding.remedy.empty()) << finding.check << ": " << finding.found;
      EXPECT_FALSE(finding.found.empty()) << finding.check;
    }
  }

  void expect(Level level, const std::string& check, const std::string& subject,
              const std::string& found, const std::string& remedy) const {
    const Finding line = node.of(check, subject);
    EXPECT_STREQ(to_string(line.level), to_string(level)) << line.check << ": " << line.found;
    EXPECT_NE(line.found.find(found), std::string::npos) << line.found;
    EXPECT_NE(line.remedy.find(remedy), std::string::npos) << line.remedy;
  }

  Node node;
};

class ReadyNode : public Doctor {
 protected:
  ReadyNode() { node.make_ready(); }

  void make_ethernet() {
    const std::string port = Node::kPort;
    node.write(port + "/link_layer", "Ethernet\n");
    node.write(port + "/gids/0", "fe80:0000:0000:0000:e8eb:d303:00a1:b2c3\n");
    node.write(port + "/gids/1", "fe80:0000:0000:0000:e8eb:d303:00a1:b2c3\n");
    node.write(port + "/gids/2", "0000:0000:0000:0000:0000:ffff:0a00:0001\n");
    node.write(port + "/gids/3", "0000:0000:0000:0000:0000:ffff:0a00:0001\n");
    node.write(port + "/gids/4", "0000:0000:0000:0000:0000:0000:0000:0000\n");
    for (const char* index : {"0", "2"}) {
      node.write(port + "/gid_attrs/types/" + index, "IB/RoCE v1\n");
    }
    for (const char* index : {"1", "3"})
      node.write(port + "/gid_attrs/types/" + index, "RoCE v2\n");
    node.write(std::string(Node::kNic) + "/net/ens1f0/mtu", "9000\n");
    node.write("sys/class/net/ens1f0/mtu", "9000\n");
  }
};

TEST_F(Doctor, HasSomethingToSayOnAMachineWithNothing) {
  const Findings all = examine(node.machine);
  EXPECT_GE(all.size(), 17u);
  EXPECT_EQ(exit_code(all), 0) << table(all);
  expect(Level::kWarn, "gpu driver", "", "kernels run on the CPU", "nothing to do");
  expect(Level::kWarn, "nic", "", "software NIC", "modprobe mlx5_ib");
  expect(Level::kWarn, "mpi", "", "no mpirun", "openmpi-bin");
  for (const char* check :
       {"cuda", "gdrcopy", "devx", "link", "gid", "mtu", "lossless", "memlock", "distance", "acs",
        "iommu", "doorbell mapping", "nvidia-peermem", "dma-buf"}) {
    EXPECT_EQ(node.of(check).level, Level::kSkip) << check;
  }
}

TEST_F(ReadyNode, HasNoComplaintAboutAReadyMachine) {
  const Findings all = examine(node.machine);
  for (const Finding& finding : all) {
    EXPECT_TRUE(finding.level == Level::kOk || finding.check == "lossless") << table(all);
  }
  expect(Level::kOk, "gpu driver", "", "580.95.05, open kernel module", "");
  expect(Level::kOk, "cuda", "", "CUDA 13.0 of the driver, 8 GPUs", "");
  expect(Level::kOk, "gdrcopy", "", "GDRCopy 2.6, gdrdrv 2.5", "");
  expect(Level::kOk, "nic", "mlx5_0", "0000:17:00.0, firmware 28.39.1002", "");
  expect(Level::kOk, "link", "mlx5_0/1", "active, InfiniBand, 400 Gb/sec", "");
  expect(Level::kOk, "gid", "mlx5_0/1", "LID 0x12, GID fe80:", "");
  expect(Level::kOk, "mtu", "mlx5_0/1", "4096 bytes", "");
  expect(Level::kOk, "distance", "0000:18:00.0", "mlx5_0: same PCIe switch", "");
  expect(Level::kOk, "acs", "", "all 1 bridges", "");
  expect(Level::kOk, "iommu", "", "passes through", "");
  expect(Level::kOk, "mpi", "", "/usr/bin/mpirun, Open MPI 4", "");
}

TEST_F(ReadyNode, FindsAMissingDriverOption) {
  for (const char* dwords : {"", "PeerMappingOverride=0;", "RMIntrLockingMode=1;"}) {
    node.write("proc/driver/nvidia/params", std::string("RegistryDwords: \"") + dwords + "\"\n");
    expect(Level::kWarn, "doorbell mapping", "", "cannot ring the NIC, a CPU thread does it",
           "NVreg_RegistryDwords=\"PeerMappingOverride=1;\"");
  }
  EXPECT_EQ(exit_code(examine(node.machine)), 0);
  node.write("proc/self/status", "CapEff:\t000001ffffffffff\n");
  expect(Level::kWarn, "doorbell mapping", "", "you are administrator", "PeerMappingOverride=1");
}

TEST_F(ReadyNode, FindsNoWayFromTheNicToGpuMemory) {
  node.remove("sys/module/nvidia_peermem");
  expect(Level::kSkip, "nvidia-peermem", "", "not there; dma-buf takes its place", "");
  EXPECT_EQ(exit_code(examine(node.machine)), 0);
  node.write("lib/modules/6.1.0-18-amd64/modules.dep", "updates/dkms/nvidia-peermem.ko: x\n");
  expect(Level::kSkip, "nvidia-peermem", "", "installed, not loaded; dma-buf takes", "");
  node.write("proc/sys/kernel/osrelease", "5.4.0-100-generic\n");
  expect(Level::kFail, "nvidia-peermem", "", "not there, and no dma-buf", "DOCA-OFED");
  expect(Level::kWarn, "dma-buf", "", "kernel older than 5.12", "kernel 6.1");
  node.write("lib/modules/5.4.0-100-generic/modules.dep", "updates/dkms/nvidia-peermem.ko: x\n");
  expect(Level::kFail, "nvidia-peermem", "", "installed, not loaded", "modprobe nvidia-peermem");
  node.write("sys/module/nv_peer_mem/version", "1.1\n");
  expect(Level::kFail, "nvidia-peermem", "", "nv_peer_mem is loaded", "rmmod nv_peer_mem");
}

// Linux 5.12 to 6.0: windows may be dma-bufs, queues may not.
TEST_F(ReadyNode, FindsQueuesThatNoDmaBufMayHold) {
  node.machine.verbs.nics[0].dma_buf_error = EPROTONOSUPPORT;
  expect(Level::kOk, "nvidia-peermem", "", "loaded", "");
  expect(Level::kWarn, "dma-buf", "", "for windows only: no queues in it", "Linux 6.1");
  node.remove("sys/module/nvidia_peermem");
  expect(Level::kWarn, "nvidia-peermem", "", "not there, and no dma-buf for queues: a CPU thread",
         "DOCA-OFED");
  EXPECT_EQ(exit_code(examine(node.machine)), 0);
}

TEST_F(ReadyNode, FindsAProprietaryModuleWithoutDmaBuf) {
  node.write("proc/driver/nvidia/version",
             "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5\n");
  expect(Level::kOk, "gpu driver", "", "550.54.15, proprietary", "");
  expect(Level::kWarn, "dma-buf", "", "proprietary kernel module", "open kernel modules");
}

TEST_F(ReadyNode, FindsALimitOnLockedMemory) {
  node.machine.memlock_bytes = 8u << 20;
  expect(Level::kFail, "memlock", "", "8M, less than a heap of 64M", "ulimit -l unlimited");
  node.machine.environment["PEAL_HEAP_SIZE"] = "1M";
  expect(Level::kWarn, "memlock", "", "8M: counts for all windows", "ulimit -l unlimited");
  node.write("proc/self/status", "CapEff:\t0000000000004000\n");  // CAP_IPC_LOCK
  expect(Level::kOk, "memlock", "", "may exceed it", "");
}

TEST_F(ReadyNode, FindsThatDevxIsNotPermitted) {
  node.machine.verbs.nics[0].open_error = EACCES;
  expect(Level::kFail, "devx", "mlx5_0", "not permitted", "--device=/dev/infiniband");
  node.machine.verbs.nics[0].open_error = ENOENT;
  expect(Level::kFail, "devx", "mlx5_0", "No such file", "uverbs");
  node.machine.verbs.nics[0].open_error = 0;
  node.machine.verbs.nics[0].uar_error = EOPNOTSUPP;
  expect(Level::kFail, "devx", "mlx5_0", "no doorbell page", "UCTX_EN=1");
  node.machine.verbs.nics[0].uar_error = 0;
  node.machine.verbs.nics[0].lacks = "it lacks: atomics";
  expect(Level::kFail, "devx", "mlx5_0", "it lacks: atomics", "firmware");
  node.machine.verbs.nics.clear();
  expect(Level::kFail, "devx", "mlx5_0", "does not list it", "ibverbs-providers");
  node.machine.verbs.problem = "dlopen(libibverbs.so.1): not there";
  expect(Level::kFail, "devx", "", "dlopen(libibverbs.so.1)", "ibverbs-providers");
}

TEST_F(ReadyNode, FindsAPortThatIsDown) {
  const std::string port = Node::kPort;
  node.write(port + "/state", "1: DOWN\n");
  node.write(port + "/phys_state", "2: Polling\n");
  expect(Level::kFail, "link", "mlx5_0/1", "DOWN (Polling)", "mlxlink -d 0000:17:00.0");
  node.write(port + "/state", "2: INIT\n");
  expect(Level::kFail, "link", "mlx5_0/1", "INIT", "subnet manager");
}

TEST_F(ReadyNode, ForgivesADownPortWhereAnotherIsUp) {
  const std::string other = "sys/class/infiniband/mlx5_1";
  node.link(other + "/device", Node::kNic);
  node.write(other + "/ports/1/state", "1: DOWN\n");
  node.write(other + "/ports/1/link_layer", "InfiniBand\n");
  expect(Level::kWarn, "link", "mlx5_1/1", "DOWN", "PEAL_HCA");
  node.machine.environment["PEAL_HCA"] = "mlx5_1";
  expect(Level::kFail, "link", "mlx5_1/1", "DOWN", "PEAL_HCA");
}

TEST_F(ReadyNode, LooksAtThePortThatTheListNames) {
  const std::string second = "sys/class/infiniband/mlx5_0/ports/2";
  node.write(second + "/state", "4: ACTIVE\n");
  node.write(second + "/rate", "200 Gb/sec (4X HDR)\n");
  node.write(second + "/link_layer", "InfiniBand\n");
  expect(Level::kSkip, "link", "mlx5_0/2", "peal takes port 1 unless PEAL_HCA names this one", "");
  node.machine.environment["PEAL_HCA"] = "mlx5_0:2";
  expect(Level::kOk, "link", "mlx5_0/2", "active, InfiniBand, 200 Gb/sec", "");
}

TEST_F(ReadyNode, FindsAPortWithoutALid) {
  node.write(std::string(Node::kPort) + "/lid", "0x0\n");
  expect(Level::kFail, "gid", "mlx5_0/1", "LID 0x0", "opensm");
}

TEST_F(ReadyNode, SaysWhichGidServesOnEthernet) {
  make_ethernet();
  expect(Level::kOk, "link", "mlx5_0/1", "active, Ethernet", "");
  expect(Level::kOk, "gid", "mlx5_0/1", "index 3: RoCE v2 ::ffff:10.0.0.1", "");
}

TEST_F(ReadyNode, FindsAPortWithoutARoutableRoceV2Gid) {
  make_ethernet();
  node.remove(std::string(Node::kPort) + "/gids/3");
  expect(Level::kWarn, "gid", "mlx5_0/1", "index 1: RoCE v2 fe80::e8eb:d303:a1:b2c3 does not pass",
         "ip addr add A.B.C.D/24 dev ens1f0");
  node.remove(std::string(Node::kPort) + "/gids/1");
  expect(Level::kFail, "gid", "mlx5_0/1", "no RoCE v2 GID; the port has index 0: RoCE v1 fe80",
         "cma_roce_mode -d mlx5_0 -p 1 -m 2");
}

TEST_F(ReadyNode, FindsLostPacketsOnEthernet) {
  make_ethernet();
  expect(Level::kOk, "lossless", "mlx5_0/1", "no packet lost", "");
  node.write(std::string(Node::kPort) + "/hw_counters/packet_seq_err", "17\n");
  expect(Level::kWarn, "lossless", "mlx5_0/1", "packet_seq_err 17", "--pfc");
}

TEST_F(ReadyNode, FindsSmallPacketsAndPortsThatDiffer) {
  node.machine.verbs.nics[0].ports[0].active_mtu = 2048;
  expect(Level::kWarn, "mtu", "mlx5_0/1", "2048 bytes; the port can do 4096", "mtu=5");
  const std::string other = "sys/class/infiniband/mlx5_1";
  node.link(other + "/device", Node::kNic);
  node.write(other + "/ports/1/state", "4: ACTIVE\n");
  ProbedNic probed = node.machine.verbs.nics[0];
  probed.name = "mlx5_1";
  probed.ports[0].active_mtu = 4096;
  node.machine.verbs.nics.push_back(probed);
  expect(Level::kWarn, "mtu", "mlx5_1/1", "the first port has 2048", "mtu=5");
  make_ethernet();
  node.write("sys/class/net/ens1f0/mtu", "1500\n");
  expect(Level::kWarn, "mtu", "mlx5_0/1", "2048 bytes", "dev ens1f0 mtu 9000 (now 1500)");
}

TEST_F(ReadyNode, FindsBridgesThatRedirect) {
  const std::string config = std::string(Node::kSwitch) + "/config";
  node.write(config, Node::config_space(0x1d));
  expect(Level::kWarn, "acs", "",
         "on in 1 bridge, which send GPU-NIC traffic by the CPU: 0000:15:01.0",
         "setpci -s 0000:15:01.0 ECAP_ACS+6.w=0000");
  node.write(config, Node::config_space(0x1));  // source validation alone redirects nothing
  expect(Level::kOk, "acs", "", "off", "");
  node.write(config, std::string(64, '\0'));
  expect(Level::kSkip, "acs", "", "sudo tools/doctor", "");
}

TEST_F(ReadyNode, FindsAnIommuThatTranslates) {
  node.write(std::string(Node::kNic) + "/iommu_group/type", "DMA-FQ\n");
  expect(Level::kWarn, "iommu", "", "0000:17:00.0", "iommu=pt");
  node.remove(std::string(Node::kNic) + "/iommu_group");
  node.remove(std::string(Node::kGpu) + "/iommu_group");
  expect(Level::kOk, "iommu", "", "off", "");
}

TEST_F(ReadyNode, FindsNoMpi) {
  node.remove("usr/lib/x86_64-linux-gnu/libmpi.so.40");
  expect(Level::kWarn, "mpi", "", "no libmpi.so.40", "Open MPI 4");
  node.write("opt/ompi/lib/libmpi.so.40", "");
  node.machine.environment["LD_LIBRARY_PATH"] = "/opt/ompi/lib";
  expect(Level::kOk, "mpi", "", "/usr/bin/mpirun", "");
  node.remove("usr/bin/mpirun");
  expect(Level::kWarn, "mpi", "", "no mpirun", "peal-run");
}

TEST_F(ReadyNode, FindsAnOldDriver) {
  node.write("proc/driver/nvidia/version",
             "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.82.01  Wed Oct 27\n");
  expect(Level::kFail, "gpu driver", "", "470.82.01, proprietary kernel module: too old", "550");
  node.machine.cuda.version = 12040;
  expect(Level::kFail, "cuda", "", "/usr/local/cuda is CUDA 13", "build with CUDA 12");
}

TEST_F(ReadyNode, FindsAGpuWithoutADriverOrWithoutCuda) {
  node.remove("proc/driver/nvidia");
  expect(Level::kFail, "gpu driver", "", "without a loaded driver", "modprobe nvidia");
  node.machine.cuda = {.version = 0, .gpus = 0, .problem = "cuInit: no device"};
  expect(Level::kFail, "cuda", "", "cuInit: no device", "--gpus all");
}

TEST_F(ReadyNode, FindsGpusThatShowTheWritesOfNicsInNoOrder) {
  expect(Level::kOk, "gpu writes", "", "in order", "");
  node.machine.cuda.unordered = 2;
  expect(Level::kWarn, "gpu writes", "", "2 of 8 GPUs", "call quiet between a put and its signal");
}

TEST_F(ReadyNode, FindsNoGdrcopy) {
  const std::string absent = "dlopen(libgdrapi.so.2): no such file";
  node.machine.gdrcopy = {.name = "", .problem = absent};
  expect(Level::kWarn, "gdrcopy", "", "gdrdrv 2.5 is there, but " + absent, "--device /dev/gdrdrv");
  node.remove("dev/gdrdrv");
  expect(Level::kWarn, "gdrcopy", "", "no /dev/gdrdrv, and " + absent + ": the host reads and",
         "modprobe gdrdrv");
  node.machine.gdrcopy = {.name = "GDRCopy 2.6", .problem = ""};
  expect(Level::kOk, "gdrcopy", "", "GDRCopy 2.6, no gdrdrv: by dma-bufs of the driver", "");
  node.machine.environment["PEAL_GDRCOPY"] = "off";
  expect(Level::kSkip, "gdrcopy", "", "PEAL_GDRCOPY=off", "");
}

TEST_F(ReadyNode, FindsNicsThatAreNoConnectX) {
  node.remove("sys/class/infiniband/mlx5_0");
  node.machine.verbs.nics.clear();
  node.write("sys/class/infiniband/rdmap0s6/fw_ver", "0\n");
  expect(Level::kWarn, "nic", "", "peal drives no other: rdmap0s6", "modprobe mlx5_ib");
}

TEST_F(ReadyNode, LooksAtTheNicsThatAreAllowedOnly) {
  node.machine.environment["PEAL_HCA"] = "mlx5_7";
  expect(Level::kFail, "nic", "", "mlx5_7", "unset");
  EXPECT_EQ(node.of("devx").level, Level::kSkip);
  node.machine.environment["PEAL_HCA"] = "^mlx5_7";
  expect(Level::kOk, "nic", "mlx5_0", "firmware", "");
}

TEST_F(ReadyNode, FindsAGpuWhoseNearestNicIsFar) {
  const std::string far = "sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0";
  node.write(far + "/vendor", "0x10de\n");
  node.write(far + "/class", "0x030200\n");
  node.write(far + "/numa_node", "1\n");
  node.write(std::string(Node::kNic) + "/numa_node", "0\n");
  node.link("sys/bus/pci/devices/0000:81:00.0", far);
  expect(Level::kWarn, "distance", "0000:81:00.0", "mlx5_0: other NUMA node", "topo -m");
  expect(Level::kOk, "distance", "0000:18:00.0", "same PCIe switch", "");
  node.write(far + "/numa_node", "-1\n");
  expect(Level::kSkip, "distance", "0000:81:00.0", "", "");
}

TEST_F(ReadyNode, FindsSettingsThatPealWouldRefuse) {
  node.machine.environment["PEAL_HEEP_SIZE"] = "1G";
  expect(Level::kFail, "settings", "", "PEAL_HEEP_SIZE", "docs/settings.md");
  node.machine.environment.erase("PEAL_HEEP_SIZE");
  node.machine.environment["PEAL_HCA"] = "mlx5_0,,";
  expect(Level::kFail, "settings", "", "PEAL_HCA", "docs/settings.md");
  node.machine.environment.erase("PEAL_HCA");
  node.machine.environment["PEAL_HEAP_SIZE"] = "1G";
  expect(Level::kOk, "settings", "", "1 set", "");
}

TEST(DoctorPci, ReadsTheAcsControlWord) {
  EXPECT_EQ(acs_control(Node::config_space(0x1d)), 0x1du);
  EXPECT_EQ(acs_control(std::string(4096, '\0')), 0u);
  EXPECT_EQ(acs_control(std::string(256, '\0')), std::nullopt);
  std::string loop(4096, '\0');
  loop.replace(0x100, 4, std::string("\x01\x00\x01\x10", 4));  // its own successor
  EXPECT_EQ(acs_control(loop), 0u);
  EXPECT_TRUE(redirects(0x4) && redirects(0x8));
  EXPECT_FALSE(redirects(0x13));
}

TEST(DoctorReport, CountsLevelsAndPutsRemediesBelow) {
  const Findings findings{{"link", "mlx5_0/1", Level::kOk, "active", ""},
                          {"mpi", "", Level::kWarn, "none", "install it"}};
  EXPECT_EQ(table(findings),
            "ok    link mlx5_0/1  active\n"
            "warn  mpi            none\n"
            "                     -> install it\n"
            "1 ok, 0 skip, 1 warn, 0 fail\n");
  EXPECT_EQ(exit_code(findings), 0);
  EXPECT_EQ(exit_code({{"x", "", Level::kFail, "y", "z"}}), 1);
}

}  // namespace
}  // namespace peal::doctor
