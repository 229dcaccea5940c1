// SPDX-License-Identifier: Apache-2.0
//
// A machine made of files in a temporary folder: a GPU and a ConnectX under one PCIe switch, ready
// for everything. Tests take something away from it and look at the one line that must change.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "doctor/checks.h"

namespace peal::doctor {

class Node {
 public:
  static constexpr const char* kSwitch = "sys/devices/pci0000:15/0000:15:01.0";
  static constexpr const char* kNic = "sys/devices/pci0000:15/0000:15:01.0/0000:17:00.0";
  static constexpr const char* kGpu = "sys/devices/pci0000:15/0000:15:01.0/0000:18:00.0";
  static constexpr const char* kRdma = "sys/class/infiniband/mlx5_0";
  static constexpr const char* kPort = "sys/class/infiniband/mlx5_0/ports/1";

  Node() {
    std::string name = ::testing::TempDir() + "peal-doctor-XXXXXX";
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    machine.root = std::filesystem::canonical(name);
  }
  ~Node() { std::filesystem::remove_all(machine.root); }
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(machine.at(path).parent_path());
    std::ofstream(machine.at(path), std::ios::binary) << text;
  }
  void remove(const std::string& path) { std::filesystem::remove_all(machine.at(path)); }
  void link(const std::string& path, const std::string& target) {
    std::filesystem::create_directories(machine.at(path).parent_path());
    std::filesystem::create_directory_symlink(machine.at(target), machine.at(path));
  }

  void make_ready() {
    write("proc/sys/kernel/osrelease", "6.1.0-18-amd64\n");
    write("proc/self/status", "Name:\tdoctor\nCapEff:\t0000000000000000\nSeccomp:\t0\n");
    write("usr/bin/mpirun", "");
    write("usr/lib/x86_64-linux-gnu/libmpi.so.40", "");
    write("usr/local/cuda/version.json", R"({"cuda": {"name": "CUDA SDK", "version": "13.0.1"}})");
    machine.environment = {{"PATH", "/usr/local/bin:/usr/bin"}};
    machine.memlock_bytes = kUnlimited;
    add_gpu();
    add_nic();
  }

  // "\0" does not end a text here: configuration space is binary.
  static std::string config_space(char acs_control) {
    std::string bytes(4096, '\0');
    bytes.replace(0x100, 4, std::string("\x01\x00\x02\x15", 4));  // AER, next at 0x150
    bytes.replace(0x150, 4, std::string("\x0d\x00\x01\x00", 4));  // ACS, the last
    bytes[0x156] = acs_control;
    return bytes;
  }

  Finding of(const std::string& check, const std::string& subject = "") const {
    const Findings all = examine(machine);
    const auto found = std::ranges::find_if(all, [&](const Finding& finding) {
      return finding.check == check && finding.subject == subject;
    });
    if (found != all.end()) return *found;
    ADD_FAILURE() << "no line " << check << " " << subject;
    return {};
  }

  Machine machine;

 private:
  void add_gpu() {
    write("proc/driver/nvidia/version",
          "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\n"
          "GCC version:  gcc version 12.2.0\n");
    write("proc/driver/nvidia/params",
          "ResmanDebugLevel: 4294967295\nRegistryDwords: \"PeerMappingOverride=1;\"\n");
    write("sys/module/nvidia_peermem/version", "580.95.05\n");
    write(std::string(kSwitch) + "/config", config_space(0));
    write(std::string(kGpu) + "/vendor", "0x10de\n");
    write(std::string(kGpu) + "/class", "0x030200\n");
    write(std::string(kGpu) + "/iommu_group/type", "identity\n");
    link("sys/bus/pci/devices/0000:15:01.0", kSwitch);
    link("sys/bus/pci/devices/0000:18:00.0", kGpu);
    write("dev/gdrdrv", "");
    write("sys/module/gdrdrv/version", "2.5\n");
    machine.cuda = {.version = 13000, .gpus = 8, .problem = ""};
    machine.gdrcopy = {.name = "GDRCopy 2.6", .problem = ""};
  }

  void add_nic() {
    write(std::string(kNic) + "/vendor", "0x15b3\n");
    write(std::string(kNic) + "/class", "0x020700\n");
    write(std::string(kNic) + "/iommu_group/type", "identity\n");
    link("sys/bus/pci/devices/0000:17:00.0", kNic);
    write(std::string(kRdma) + "/fw_ver", "28.39.1002\n");
    link(std::string(kRdma) + "/device", kNic);
    const std::string port = kPort;
    write(port + "/state", "4: ACTIVE\n");
    write(port + "/phys_state", "5: LinkUp\n");
    write(port + "/rate", "400 Gb/sec (4X NDR)\n");
    write(port + "/link_layer", "InfiniBand\n");
    write(port + "/lid", "0x12\n");
    write(port + "/gids/0", "fe80:0000:0000:0000:e8eb:d303:00a1:b2c3\n");
    ProbedNic probed;
    probed.name = "mlx5_0";
    probed.ports = {{.number = 1, .state = 4, .active_mtu = 4096, .max_mtu = 4096}};
    machine.verbs = {.library = "ConnectX via libmlx5.so.1", .problem = "", .nics = {probed}};
  }
};

}  // namespace peal::doctor
