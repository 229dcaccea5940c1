// SPDX-License-Identifier: Apache-2.0
//
// What only libraries know: libibverbs and libmlx5 about NICs, libcuda and libgdrapi about
// themselves. Each answer is a value that also exists as text, because the question is asked in
// another process.
#pragma once

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

std::string to_text(const VerbsView& view);
std::string to_text(const CudaView& view);
std::string to_text(const GdrcopyView& view);
/// Throws for a text that is not of that kind.
VerbsView verbs_from_text(const std::string& text);
CudaView cuda_from_text(const std::string& text);
GdrcopyView gdrcopy_from_text(const std::string& text);

}  // namespace peal::doctor
