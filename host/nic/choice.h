// SPDX-License-Identifier: Apache-2.0
//
// Which NIC a PE uses: of those that the library has and the user allows, the one nearest to the
// PE's GPU whose port can be driven.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "host/nic/hca_list.h"
#include "host/nic/verbs.h"

namespace peal::nic {

/// The GPU that a NIC shall be near to.
struct GpuPlace {
  int index;            // what people call it
  std::string address;  // on PCI, in any spelling; empty = unknown
};

/// A NIC's name, and why it: "mlx5_3: same PCIe switch as GPU 2".
struct Choice {
  std::string name;
  std::string why;
};

/// Topology is that of `root`/sys. Where no GPU is given the first NIC is taken, and so it is with
/// the software NIC, which lies nowhere. One that has no allowed port with a link is taken only
/// if there is no other: opening it says what is wrong.
///
/// Throws kUnsupported, naming the list and the NICs there are, when none is allowed.
Choice choose_nic(const VerbsLibrary& library, const HcaList& list,
                  const std::optional<GpuPlace>& gpu, const std::filesystem::path& root = "/");

}  // namespace peal::nic
