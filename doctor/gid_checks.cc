// SPDX-License-Identifier: Apache-2.0
//
// How a port is addressed, and whether packets that leave it arrive.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "doctor/checks.h"
#include "host/nic/gid.h"

namespace peal::doctor {
namespace {

std::string port_folder(const NicReport& nic, const PortReport& port) {
  return fmt::format("sys/class/infiniband/{}/ports/{}", nic.name, port.number);
}

Finding examine_infiniband(const Machine& machine, const NicReport& nic, const PortReport& port) {
  const std::string folder = port_folder(nic, port);
  const std::string lid = machine.text(folder + "/lid");
  const std::string found = fmt::format("LID {}, GID {}", lid.empty() ? "unknown" : lid,
                                        machine.text(folder + "/gids/0"));
  if (lid.empty() || lid == "0x0") {
    return {"gid", port_name(nic, port), Level::kFail, found + ": peal addresses peers by LID",
            "the subnet manager gives LIDs: start opensm or ask who runs it"};
  }
  return {"gid", port_name(nic, port), Level::kOk, found};
}

// The table of a port on Ethernet, without entries that are not in use.
std::vector<nic::GidEntry> roce_gids(const Machine& machine, const std::string& folder) {
  std::vector<nic::GidEntry> table;
  for (const std::string& name : machine.names(folder + "/gids")) {
    nic::GidEntry entry;
    std::from_chars(name.data(), name.data() + name.size(), entry.index);
    const auto gid = nic::Gid::parse(machine.text(folder + "/gids/" + name));
    const auto type = nic::roce_type(machine.text(folder + "/gid_attrs/types/" + name));
    if (!gid || gid->empty() || !type) continue;
    entry.gid = *gid;
    entry.type = *type;
    table.push_back(entry);
  }
  std::ranges::sort(table, {}, &nic::GidEntry::index);
  return table;
}

// What peal itself would take (host/nic/gid.h).
Finding examine_roce(const Machine& machine, const NicReport& nic, const PortReport& port) {
  const auto table = roce_gids(machine, port_folder(nic, port));
  const nic::GidEntry* const best = nic::best_roce_gid(table);
  if (best && !best->gid.link_local()) {
    return {"gid", port_name(nic, port), Level::kOk, describe(*best)};
  }
  return {"gid", port_name(nic, port), best ? Level::kWarn : Level::kFail,
          best ? describe(*best) + " does not pass routers"
               : "no RoCE v2 GID; the port has " + describe(table),
          fmt::format("give the port an address: sudo ip addr add A.B.C.D/24 dev {}; RoCE v2 as "
                      "default: cma_roce_mode -d {} -p {} -m 2",
                      nic.netdev.empty() ? "DEVICE" : nic.netdev, nic.name, port.number)};
}

uint64_t counter(const Machine& machine, const std::string& file) {
  const std::string text = machine.text(file);
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

Finding examine_losses(const Machine& machine, const NicReport& nic, const PortReport& port) {
  constexpr const char* kCounters[] = {"out_of_sequence", "packet_seq_err",
                                       "local_ack_timeout_err"};
  std::string losses;
  for (const char* name : kCounters) {
    const uint64_t value = counter(machine, port_folder(nic, port) + "/hw_counters/" + name);
    if (value != 0) losses += fmt::format("{}{} {}", losses.empty() ? "" : ", ", name, value);
  }
  const std::string netdev = nic.netdev.empty() ? "DEVICE" : nic.netdev;
  if (!losses.empty()) {
    return {"lossless", port_name(nic, port), Level::kWarn,
            "packets were lost since boot: " + losses,
            fmt::format("priority flow control on one priority, here and in the switches: sudo "
                        "mlnx_qos -i {} --trust dscp --pfc 0,0,0,1,0,0,0,0",
                        netdev)};
  }
  return {"lossless", port_name(nic, port), Level::kOk,
          fmt::format("no packet lost since boot (mlnx_qos -i {} shows flow control)", netdev)};
}

// `examine` of every active port that `wanted` names; one line to skip if there is none.
template <class Examine>
Findings of_active_ports(const Machine& machine, const char* check, const char* none,
                         const Examine& examine) {
  Findings findings;
  for (const NicReport& nic : connectx(machine)) {
    for (const PortReport& port : nic.ports) {
      if (port.active()) examine(nic, port, findings);
    }
  }
  if (findings.empty()) findings.push_back({check, "", Level::kSkip, none});
  return findings;
}

}  // namespace

Findings check_gid(const Machine& machine) {
  return of_active_ports(machine, "gid", "no active port",
                         [&](const NicReport& nic, const PortReport& port, Findings& findings) {
                           findings.push_back(port.ethernet
                                                  ? examine_roce(machine, nic, port)
                                                  : examine_infiniband(machine, nic, port));
                         });
}

Findings check_lossless(const Machine& machine) {
  return of_active_ports(machine, "lossless", "no active Ethernet port; InfiniBand loses nothing",
                         [&](const NicReport& nic, const PortReport& port, Findings& findings) {
                           if (port.ethernet)
                             findings.push_back(examine_losses(machine, nic, port));
                         });
}

}  // namespace peal::doctor
