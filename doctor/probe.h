// SPDX-License-Identifier: Apache-2.0
//
// What only libraries know: libibverbs and libmlx5 about NICs, libcuda and libgdrapi about
// themselves. Each answer is a value that also exists as text, because the question is asked in
// another process.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "doctor/machine.h"

namespace peal::doctor {

/// Opens the two libraries (no software NIC: they are the question) and every ConnectX they list,
/// and tries a doorbell page and a dma-buf on each. Nothing stays open. Never throws for what is
/// missing.
VerbsView ask_verbs(const std::string& ibverbs, const std::string& mlx5);

/// Initialises the driver and counts GPUs.
CudaView ask_cuda(const std::string& library);

/// Opens its driver.
GdrcopyView ask_gdrcopy(const std::string& library);

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ProbedPort, number, state, active_mtu, max_mtu)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ProbedNic, name, open_error, uar_error, dma_buf_error, lacks,
                                   ports)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(VerbsView, library, problem, nics)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CudaView, version, gpus, unordered, problem)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GdrcopyView, name, problem)

template <class View>
std::string to_text(const View& view) {
  return nlohmann::json(view).dump();
}
/// Throws for a text that is not of that kind.
template <class View>
View from_text(const std::string& text) {
  return nlohmann::json::parse(text).get<View>();
}

}  // namespace peal::doctor
