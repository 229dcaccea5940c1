// SPDX-License-Identifier: Apache-2.0
//
// Which NICs a PE uses: of those that the library has and the user allows, the ones nearest to the
// PE's GPU whose ports can be driven.
//
//   a GPU: its own of the nearest ones. The GPUs that have the same ones nearest get as many each,
//   at least one (host/nic/topology.h deals them out). No GPU: the first, or all that PEAL_HCA
//   names, where it names some. PEAL_RAILS=n: the n nearest, however far.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "host/nic/hca_list.h"
#include "host/nic/verbs.h"

namespace peal::nic {

/// The GPU that a NIC shall be near to.
struct GpuPlace {
  int index;            // what people call it
  std::string address;  // on PCI, in any spelling; empty = unknown
};

/// The most NICs of a PE. The link of a GPU (PCIe 5 x16) feeds one of 400 Gb/s.
inline constexpr size_t kMaxNics = 4;

/// A NIC that cannot be used, and why: "port 1 DOWN".
struct UnusableNic {
  std::string name;
  std::string why;
};

/// The NICs' names, the one for rail 0 first, and why them: "mlx5_3: same PCIe switch as GPU 2".
struct Choice {
  std::vector<std::string> names;
  std::string why;
  std::vector<UnusableNic> left_out;  // that the PE would have, were they in order
};

/// What the choice is made from, beside the library.
struct ChoiceOptions {
  HcaList list = {};
  size_t rails = 0;                       // NICs to use, up to kMaxNics; 0: as the table above says
  std::vector<UnusableNic> refused = {};  // opening them has failed
  std::filesystem::path root = "/";
};

/// Topology is that of `options.root`/sys. The software NIC lies nowhere: it is chosen as if there
/// were no GPU. One that has no allowed port with a link is taken only if there is no other, or if
/// PEAL_HCA names those to use: opening it says what is wrong.
///
/// Throws kUnsupported, naming the list and the NICs there are, when none is allowed, or fewer than
/// `options.rails`.
Choice choose_nics(const VerbsLibrary& library, const std::optional<GpuPlace>& gpu,
                   const ChoiceOptions& options);

}  // namespace peal::nic
