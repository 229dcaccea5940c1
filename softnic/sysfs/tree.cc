// SPDX-License-Identifier: Apache-2.0
//
// The files that clients were seen to read: of the PCI function vendor, device, class, its place
// and its link; of the device node type, GID types, partition keys. Each device is a PCI function
// of domain 5ea1, which no host has.
#include "softnic/sysfs/tree.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <system_error>

#include "base/files.h"

namespace peal::softnic::sysfs {
namespace {

namespace fs = std::filesystem;

/// Path below the root -> text of the file, or where the link leads (`-> target`).
using Entries = std::map<std::string, std::string>;

constexpr const char* kLink = "-> ";

std::string hex(uint32_t value, int digits) {
  char text[16];
  std::snprintf(text, sizeof text, "%0*x", digits, value);
  return text;
}

void add_ports(const PresentedDevice& device, const std::string& at, Entries* entries) {
  for (int number = 1; number <= device.ports; ++number) {
    const std::string port = at + "/ports/" + std::to_string(number);
    (*entries)[port + "/link_layer"] = device.ethernet ? "Ethernet\n" : "InfiniBand\n";
    for (size_t i = 0; i < device.pkeys.size(); ++i) {
      (*entries)[port + "/pkeys/" + std::to_string(i)] = "0x" + hex(device.pkeys[i], 4) + "\n";
    }
    if (number != device.port) continue;
    for (size_t i = 0; i < device.gids.size(); ++i) {
      if (device.gids[i].source == GidRule::Source::kNone) continue;
      (*entries)[port + "/gid_attrs/types/" + std::to_string(i)] =
          device.gids[i].network == Network::kRoceV2 ? "RoCE v2\n" : "IB/RoCE v1\n";
    }
  }
}

void add_function(const std::string& at, Entries* entries) {
  // A ConnectX-7 in a slot that no NUMA node owns.
  const std::pair<const char*, const char*> files[] = {
      {"vendor", "0x15b3"},
      {"device", "0x1021"},
      {"subsystem_vendor", "0x15b3"},
      {"subsystem_device", "0x0001"},
      {"class", "0x020000"},
      {"numa_node", "-1"},
      {"current_link_speed", "32.0 GT/s PCIe"},
      {"current_link_width", "16"},
      {"max_link_speed", "32.0 GT/s PCIe"},
      {"max_link_width", "16"},
  };
  for (const auto& [name, text] : files) (*entries)[at + "/" + name] = std::string(text) + "\n";
}

Entries describe(const Presentation& devices) {
  Entries entries;
  for (uint32_t index = 0; index < devices.size(); ++index) {
    const PresentedDevice& device = devices[index];
    const std::string bus = "5ea1:" + hex(index, 2);
    const std::string function = bus + ":00.0";
    const std::string below_devices = "devices/pci5ea1:00/" + function;
    const std::string at = "/sys/" + below_devices;
    const std::string uverbs = "uverbs" + std::to_string(index);
    const std::string ib = at + "/infiniband/" + device.name;
    const std::string verbs = at + "/infiniband_verbs/" + uverbs;
    add_function(at, &entries);
    entries[ib + "/node_type"] = "1: CA\n";
    entries[ib + "/device"] = "-> ../..";
    add_ports(device, ib, &entries);
    entries[verbs + "/ibdev"] = device.name + "\n";
    entries[verbs + "/abi_version"] = "1\n";
    entries[verbs + "/device"] = "-> ../..";
    entries["/sys/class/infiniband/" + device.name] =
        "-> ../../" + below_devices + "/infiniband/" + device.name;
    entries["/sys/class/infiniband_verbs/" + uverbs] =
        "-> ../../" + below_devices + "/infiniband_verbs/" + uverbs;
    entries["/sys/bus/pci/devices/" + function] = "-> ../../../" + below_devices;
    entries["/sys/devices/pci5ea1:00/pci_bus/" + bus + "/cpuaffinity"] = "ffffffff\n";
    entries["/sys/class/pci_bus/" + bus] = "-> ../../devices/pci5ea1:00/pci_bus/" + bus;
    entries["/dev/infiniband/" + uverbs] = "-> /dev/null";  // a character device to who asks
  }
  entries["/sys/class/infiniband_verbs/abi_version"] = "6\n";
  return entries;
}

[[noreturn]] void fail(int error, const std::string& path) {
  throw std::system_error(error, std::generic_category(), "libpeal_sysfs: " + path);
}

void write_entries(const Entries& entries, const std::string& root) {
  for (const auto& [path, text] : entries) {
    const fs::path at = root + path;
    fs::create_directories(at.parent_path());
    if (text.starts_with(kLink)) {
      fs::create_symlink(text.substr(3), at);
    } else if (!write_file(at, text)) {
      fail(errno, at);
    }
  }
}

bool is_private(const std::string& root) {
  struct stat found = {};
  if (::lstat(root.c_str(), &found) != 0) {
    if (errno == ENOENT) return false;
    fail(errno, root);
  }
  if (!S_ISDIR(found.st_mode) || found.st_uid != getuid() || (found.st_mode & 077) != 0) {
    fail(EPERM, root + " is not a private folder of this user");
  }
  return true;
}

}  // namespace

std::string make_tree(const Presentation& devices, bool peermem, const std::string& folder) {
  Entries entries = describe(devices);
  if (peermem) entries["/sys/module/nvidia_peermem/version"] = "1.0\n";
  std::string all;
  for (const auto& [path, text] : entries) all += path + '\0' + text + '\0';
  const std::string root = folder + "/peal-softnic-sysfs-" + std::to_string(getuid()) + "-" +
                           std::to_string(std::hash<std::string>()(all));
  if (is_private(root)) return root;
  std::string draft = root + ".XXXXXX";
  if (mkdtemp(draft.data()) == nullptr) fail(errno, draft);
  write_entries(entries, draft);
  // Whoever comes second finds the name taken by a tree with the same files.
  if (std::rename(draft.c_str(), root.c_str()) != 0) {
    const int error = errno;
    fs::remove_all(draft);
    if (error != EEXIST && error != ENOTEMPTY) fail(error, root);
    is_private(root);
  }
  return root;
}

}  // namespace peal::softnic::sysfs
