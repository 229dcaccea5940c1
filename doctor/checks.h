// SPDX-License-Identifier: Apache-2.0
//
// The checks. Each is a pure function of a Machine, answers at least one finding and never throws.
// What a check cannot see, or what does not matter on this machine, it says as kSkip.
#pragma once

#include <optional>
#include <string_view>

#include "doctor/machine.h"
#include "doctor/report.h"

namespace peal::doctor {

// gpu_checks.cc
Findings check_gpu_driver(const Machine& machine);
Findings check_cuda(const Machine& machine);
Findings check_doorbell_mapping(const Machine& machine);
Findings check_peermem(const Machine& machine);
Findings check_dma_buf(const Machine& machine);
Findings check_gdrcopy(const Machine& machine);

// nic_checks.cc
Findings check_nic(const Machine& machine);
Findings check_devx(const Machine& machine);
Findings check_link(const Machine& machine);
Findings check_mtu(const Machine& machine);

// gid_checks.cc
Findings check_gid(const Machine& machine);
Findings check_lossless(const Machine& machine);

// node_checks.cc
Findings check_settings(const Machine& machine);
Findings check_memlock(const Machine& machine);
Findings check_mpi(const Machine& machine);

// bus_checks.cc
Findings check_distance(const Machine& machine);
Findings check_acs(const Machine& machine);
Findings check_iommu(const Machine& machine);

/// All of them, in the order in which a person would fix things.
Findings examine(const Machine& machine);

/// The machine has an NVIDIA GPU or its kernel driver.
bool has_gpu(const Machine& machine);

/// The control word of the Access Control Services capability in `config`, the bytes of a device's
/// configuration space; 0 when it has none. Nothing when `config` ends before extended
/// capabilities: the kernel shows those to administrators only.
std::optional<unsigned> acs_control(std::string_view config);
/// Requests or completions between devices below the bridge are redirected upwards.
constexpr bool redirects(unsigned acs_control) { return (acs_control & 0xc) != 0; }

/// GPU and ConnectX are both there. Else a finding that says so, for checks of what lies between.
Findings unless_gpu_and_nic(const Machine& machine, const char* check);

}  // namespace peal::doctor
