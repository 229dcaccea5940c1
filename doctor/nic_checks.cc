// SPDX-License-Identifier: Apache-2.0
//
// The ConnectX: is it there, may this process drive it, is its link up, how large are its packets.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "doctor/checks.h"

namespace peal::doctor {
namespace {

constexpr const char* kContainer =
    "in a container start it with --device=/dev/infiniband --cap-add=IPC_LOCK --ulimit memlock=-1";

std::string joined(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

Finding no_connectx(const Machine& machine) {
  const auto others = foreign_nics(machine);
  if (machine.names("sys/class/infiniband").size() > others.size()) {
    return {"nic", "", Level::kFail,
            fmt::format("{} allows none of the ConnectX", allowed_nics(machine).description()),
            "ls /sys/class/infiniband shows the names; unset the variable to allow all"};
  }
  if (!machine.verbs.nics.empty()) {  // a software NIC that PEAL_IBVERBS names
    return {"nic", "", Level::kOk, machine.verbs.library};
  }
  const std::string found =
      others.empty() ? "no ConnectX" : "no ConnectX, and peal drives no other: " + joined(others);
  return {"nic", "", Level::kWarn, found + ": the software NIC is used, inside one host",
          "nothing to do for development or GPUs of one host; if lspci -d 15b3: shows a card: sudo "
          "modprobe mlx5_ib"};
}

Finding examine_access(const Machine& machine, const NicReport& nic) {
  const ProbedNic* const probed = machine.verbs.find(nic.name);
  if (!probed) {
    return {
        "devx", nic.name, Level::kFail, "libibverbs does not list it",
        fmt::format("install Debian's ibverbs-providers; ls /dev/infiniband must show uverbs*; {}",
                    kContainer)};
  }
  const bool forbidden = probed->open_error == EACCES || probed->open_error == EPERM;
  if (forbidden) {
    return {"devx", nic.name, Level::kFail,
            fmt::format("not permitted: mlx5dv_open_device: {}", std::strerror(probed->open_error)),
            fmt::format("sudo chmod 666 /dev/infiniband/uverbs* (a udev rule for good); {}",
                        kContainer)};
  }
  if (probed->open_error != 0) {
    return {"devx", nic.name, Level::kFail,
            fmt::format("mlx5dv_open_device: {}", std::strerror(probed->open_error)),
            fmt::format("ls /dev/infiniband must show uverbs*, and dmesg no mlx5 error; {}",
                        kContainer)};
  }
  if (probed->uar_error != 0) {
    return {"devx", nic.name, Level::kFail,
            fmt::format("no doorbell page: mlx5dv_devx_alloc_uar: {}",
                        std::strerror(probed->uar_error)),
            "the firmware must allow DEVX user contexts (mlxconfig: UCTX_EN=1); in a container try "
            "--privileged to tell rights from firmware"};
  }
  if (!probed->lacks.empty()) {
    return {"devx", nic.name, Level::kFail, probed->lacks,
            "update the firmware (mlxfwmanager -u), or use a ConnectX-6 or newer"};
  }
  return {"devx", nic.name, Level::kOk, "opens, has a doorbell page and what kernels need"};
}

std::string link_remedy(const NicReport& nic, const PortReport& port) {
  if (port.state == "INIT" || port.state == "ARMED") {
    return "the cable is in, the subnet manager has not been here: start opensm or ask who runs it";
  }
  if (port.ethernet && !nic.netdev.empty()) {
    return fmt::format("sudo ip link set dev {} up; look at cable and switch port: mlxlink -d {}",
                       nic.netdev, nic.pci.address);
  }
  return fmt::format("look at cable and switch port: mlxlink -d {}; or choose another by PEAL_HCA",
                     nic.pci.address);
}

// The port of `nic` that peal would take; 0 if none is active.
int taken_port(const NicReport& nic) {
  const auto found = std::ranges::find_if(nic.ports, &PortReport::active);
  return found == nic.ports.end() ? 0 : found->number;
}

// `another`: some port of this machine can be used.
Finding examine_link(const NicReport& nic, const PortReport& port, bool another) {
  const Level bad = another ? Level::kWarn : Level::kFail;
  if (!port.active()) {
    return {"link", port_name(nic, port), bad,
            fmt::format("{} ({})", port.state.empty() ? "state unknown" : port.state, port.phys),
            link_remedy(nic, port)};
  }
  const std::string found =
      fmt::format("active, {}, {}", port.ethernet ? "Ethernet" : "InfiniBand", port.rate);
  if (port.number != taken_port(nic)) {
    return {"link", port_name(nic, port), Level::kSkip,
            fmt::format("{}; peal takes port {} unless PEAL_HCA names this one", found,
                        taken_port(nic))};
  }
  return {"link", port_name(nic, port), Level::kOk, found};
}

std::string mtu_remedy(const Machine& machine, const NicReport& nic, const PortReport& port) {
  if (!port.ethernet) {
    return "set it in the subnet manager's partition (opensm: partitions.conf, mtu=5) and in the "
           "switches";
  }
  const std::string now = machine.text("sys/class/net/" + nic.netdev + "/mtu");
  return fmt::format("sudo ip link set dev {} mtu 9000 (now {}), and the same in the switches",
                     nic.netdev.empty() ? "DEVICE" : nic.netdev, now.empty() ? "unknown" : now);
}

}  // namespace

Findings check_nic(const Machine& machine) {
  const auto nics = connectx(machine);
  if (nics.empty()) {
    return {no_connectx(machine)};
  }
  Findings findings;
  for (const NicReport& nic : nics) {
    findings.push_back({"nic", nic.name, Level::kOk,
                        fmt::format("ConnectX at {}, firmware {}", nic.pci.address, nic.firmware)});
  }
  return findings;
}

Findings check_devx(const Machine& machine) {
  const auto nics = connectx(machine);
  if (nics.empty()) return {{"devx", "", Level::kSkip, "no ConnectX"}};
  if (!machine.verbs.problem.empty()) {
    return {{"devx", "", Level::kFail, machine.verbs.problem,
             "install rdma-core 44 or newer: sudo apt-get install libibverbs1 ibverbs-providers"}};
  }
  Findings findings;
  for (const NicReport& nic : nics) findings.push_back(examine_access(machine, nic));
  return findings;
}

Findings check_link(const Machine& machine) {
  const auto nics = connectx(machine);
  const bool another = std::ranges::any_of(nics, taken_port);
  Findings findings;
  for (const NicReport& nic : nics) {
    for (const PortReport& port : nic.ports) findings.push_back(examine_link(nic, port, another));
  }
  if (findings.empty()) findings.push_back({"link", "", Level::kSkip, "no ConnectX"});
  return findings;
}

Findings check_mtu(const Machine& machine) {
  Findings findings;
  int first = 0;  // of the machine's active ports
  for (const NicReport& nic : connectx(machine)) {
    const ProbedNic* const probed = machine.verbs.find(nic.name);
    for (const PortReport& port : nic.ports) {
      const auto* const answer = [&]() -> const ProbedPort* {
        if (!probed || !port.active()) return nullptr;
        const auto found = std::ranges::find(probed->ports, port.number, &ProbedPort::number);
        return found == probed->ports.end() || found->active_mtu == 0 ? nullptr : &*found;
      }();
      if (!answer) continue;
      if (first == 0) first = answer->active_mtu;
      const bool less = answer->active_mtu < answer->max_mtu;
      const bool differs = answer->active_mtu != first;
      std::string found = fmt::format("{} bytes", answer->active_mtu);
      if (less) found += fmt::format("; the port can do {}", answer->max_mtu);
      if (differs)
        found += fmt::format("; the first port has {}: they meet at the smaller one", first);
      const bool good = !less && !differs;
      findings.push_back({"mtu", port_name(nic, port), good ? Level::kOk : Level::kWarn, found,
                          good ? "" : mtu_remedy(machine, nic, port)});
    }
  }
  if (findings.empty()) findings.push_back({"mtu", "", Level::kSkip, "no active port"});
  return findings;
}

}  // namespace peal::doctor
