// SPDX-License-Identifier: Apache-2.0
//
// Machines as sysfs shows them, written into a temporary folder from a table of their devices, a
// line each; folders and links lie as the kernel lays them.
//
//   kind  name    node  port 1               path from the root complex on, domain 0000 left out
//   gpu   -       0     -                    17/17:01.0/18:00.0/19:00.0/1b:00.0
//   nic   mlx5_0  0     ACTIVE/InfiniBand    17/17:01.0/18:00.0/19:01.0/1a:00.0
//
// "-" stands for what is missing.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>

namespace peal::nic {

namespace fs = std::filesystem;

// A DGX H100: each GPU shares a switch with one NIC; two dual-port NICs for storage have root ports
// of their own. Bus numbers after published descriptions of the machine, bridges as far as they
// matter.
inline constexpr const char* kDgxH100 = R"(
gpu - 0 - 15/15:01.0/16:00.0/17:02.0/1b:00.0
gpu - 0 - 37/37:01.0/38:00.0/39:02.0/43:00.0
gpu - 0 - 48/48:01.0/49:00.0/4a:02.0/52:00.0
gpu - 0 - 59/59:01.0/5a:00.0/5b:02.0/61:00.0
gpu - 1 - 97/97:01.0/98:00.0/99:02.0/9d:00.0
gpu - 1 - b7/b7:01.0/b8:00.0/b9:02.0/c3:00.0
gpu - 1 - c7/c7:01.0/c8:00.0/c9:02.0/d1:00.0
gpu - 1 - d7/d7:01.0/d8:00.0/d9:02.0/df:00.0
nic mlx5_0  0 ACTIVE/InfiniBand 15/15:01.0/16:00.0/17:00.0/18:00.0
nic mlx5_1  0 ACTIVE/Ethernet   26/26:01.0/29:00.0
nic mlx5_2  0 DOWN/Ethernet     26/26:01.0/29:00.1
nic mlx5_3  0 ACTIVE/InfiniBand 37/37:01.0/38:00.0/39:00.0/40:00.0
nic mlx5_4  0 ACTIVE/InfiniBand 48/48:01.0/49:00.0/4a:00.0/4f:00.0
nic mlx5_5  0 ACTIVE/InfiniBand 59/59:01.0/5a:00.0/5b:00.0/5e:00.0
nic mlx5_6  1 ACTIVE/InfiniBand 97/97:01.0/98:00.0/99:00.0/9a:00.0
nic mlx5_7  1 ACTIVE/Ethernet   a7/a7:01.0/aa:00.0
nic mlx5_8  1 DOWN/Ethernet     a7/a7:01.0/aa:00.1
nic mlx5_9  1 ACTIVE/InfiniBand b7/b7:01.0/b8:00.0/b9:00.0/c0:00.0
nic mlx5_10 1 ACTIVE/InfiniBand c7/c7:01.0/c8:00.0/c9:00.0/ce:00.0
nic mlx5_11 1 ACTIVE/InfiniBand d7/d7:01.0/d8:00.0/d9:00.0/dc:00.0
vga - 0 - 00/00:1c.5/04:00.0/05:00.0
nvswitch - 0 - 01/01:01.0/07:00.0
)";

// An HGX board with one NIC, under the switch of the first two GPUs.
inline constexpr const char* kHgxOneNic = R"(
gpu - 0 - 16/16:01.0/17:00.0/18:00.0/1a:00.0
gpu - 0 - 16/16:01.0/17:00.0/18:01.0/1b:00.0
gpu - 0 - 38/38:01.0/39:00.0
gpu - 0 - 16/16:05.0/3c:00.0
gpu - 1 - 97/97:01.0/9d:00.0
nic mlx5_0 0 ACTIVE/InfiniBand 16/16:01.0/17:00.0/18:02.0/19:00.0
)";

// Two sockets without switches: GPUs on both; two NICs on socket 0, one on socket 1.
inline constexpr const char* kTwoSockets = R"(
gpu - 0 - 17/17:01.0/18:00.0
gpu - 0 - 3a/3a:01.0/3b:00.0
gpu - 1 - 85/85:01.0/86:00.0
gpu - 1 - ae/ae:01.0/af:00.0
nic mlx5_0 0 ACTIVE/InfiniBand 5d/5d:01.0/5e:00.0
nic mlx5_1 0 ACTIVE/InfiniBand 5d/5d:01.0/5e:00.1
nic mlx5_2 1 ACTIVE/InfiniBand d7/d7:01.0/d8:00.0
)";

// A workstation with two NICs beside each GPU, under its switch, and one for both below a root
// port.
inline constexpr const char* kTwoNicsPerGpu = R"(
gpu - 0 - 15/15:01.0/16:00.0/17:00.0/1b:00.0
gpu - 0 - 15/15:03.0/36:00.0/37:00.0/3b:00.0
nic mlx5_0 0 ACTIVE/InfiniBand 15/15:01.0/16:00.0/17:01.0/1c:00.0
nic mlx5_1 0 ACTIVE/InfiniBand 15/15:01.0/16:00.0/17:02.0/1d:00.0
nic mlx5_2 0 ACTIVE/InfiniBand 15/15:03.0/36:00.0/37:01.0/3c:00.0
nic mlx5_3 0 ACTIVE/InfiniBand 15/15:03.0/36:00.0/37:02.0/3d:00.0
nic mlx5_4 0 ACTIVE/InfiniBand 15/15:05.0/5a:00.0
)";

// A virtual machine whose hypervisor hides the topology: all on one bus, no nodes.
inline constexpr const char* kFlatVm = R"(
gpu - -1 - 00/00:04.0
gpu - -1 - 00/00:05.0
gpu - -1 - 00/00:06.0
nic mlx5_0 -1 ACTIVE/InfiniBand 00/00:07.0
nic mlx5_1 -1 ACTIVE/InfiniBand 00/00:08.0
nic mlx5_2 -1 ACTIVE/InfiniBand 00/00:09.0
)";

// A cloud's machine: a PCI domain for each device, nodes unknown.
inline constexpr const char* kDomainsVm = R"(
gpu - -1 - 0001:00/0001:00:00.0
gpu - - - 0002:00/0002:00:00.0
nic mlx5_ib0 -1 ACTIVE/InfiniBand 0101:00/0101:00:00.0
nic mlx5_ib1 - ACTIVE/InfiniBand 0102:00/0102:00:00.0
)";

/// The table's machine in a folder that lives as long as this.
class SysfsTree {
 public:
  explicit SysfsTree(const std::string& table) {
    std::string name = ::testing::TempDir() + "peal-sysfs-XXXXXX";
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    root_ = fs::canonical(name);
    std::istringstream lines(table);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string kind, device, node, port, path;
      if (words >> kind >> device >> node >> port >> path) add(kind, device, node, port, path);
    }
  }
  ~SysfsTree() { fs::remove_all(root_); }
  SysfsTree(const SysfsTree&) = delete;
  SysfsTree& operator=(const SysfsTree&) = delete;

  const fs::path& root() const { return root_; }

  static void write(const fs::path& file, std::string_view text) {
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text << '\n';
  }

  /// A link at `from` to the existing folder `to`, relative as in sysfs.
  static void link(const fs::path& from, const fs::path& to) {
    fs::create_directories(from.parent_path());
    fs::create_directory_symlink(fs::relative(to, fs::canonical(from.parent_path())), from);
  }

 private:
  /// "17/17:01.0/18:00.0" as "pci0000:17/0000:17:01.0/0000:18:00.0".
  static fs::path full(const std::string& path) {
    fs::path all;
    for (const fs::path& part : fs::path(path)) {
      const std::string name = part.string();
      const auto colons = std::count(name.begin(), name.end(), ':');
      const bool complex = all.empty();
      all /=
          (complex ? "pci" : "") + std::string(colons == (complex ? 0 : 1) ? "0000:" : "") + name;
    }
    return all;
  }

  void add(const std::string& kind, const std::string& name, const std::string& node,
           const std::string& port, const std::string& path) {
    const fs::path sys = root_ / "sys";
    const bool physical = path != "-";
    const fs::path device = sys / "devices" / (physical ? full(path) : "virtual");
    fs::create_directories(device);
    if (physical) {
      const std::map<std::string, std::pair<const char*, const char*>> kIds = {
          {"gpu", {"0x10de", "0x030200"}},
          {"nic", {"0x15b3", "0x020700"}},
          {"vga", {"0x1a03", "0x030000"}},
          {"nvswitch", {"0x10de", "0x068000"}}};
      write(device / "vendor", kIds.at(kind).first);
      write(device / "class", kIds.at(kind).second);
      if (node != "-") write(device / "numa_node", node);
      link(sys / "bus/pci/devices" / device.filename(), device);
    }
    if (kind != "nic") return;
    const fs::path verbs = device / "infiniband" / name;
    fs::create_directories(verbs);
    if (physical) link(verbs / "device", device);
    if (port != "-") {
      const size_t slash = port.find('/');
      write(verbs / "ports/1/state", "4: " + port.substr(0, slash));
      write(verbs / "ports/1/link_layer", port.substr(slash + 1));
      write(verbs / "ports/1/rate", "400 Gb/sec (4X NDR)");
    }
    link(sys / "class/infiniband" / name, verbs);
  }

  fs::path root_;
};

}  // namespace peal::nic
