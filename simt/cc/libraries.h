// SPDX-License-Identifier: Apache-2.0
//
// CUDA's own headers in a program for a CPU: those of its C++ libraries (CCCL) come from where the
// user has them; those of a toolkit contradict peal's.
#pragma once

#include <string>
#include <vector>

namespace peal::cc {

/// Whether the folder has libcu++, Thrust and CUB.
bool has_cccl(const std::string& folder);
/// Whether it has the headers of a CUDA toolkit, or of NVSHMEM.
bool has_cuda(const std::string& folder);

/// Why a program that reads these files does not run on a CPU; empty where nothing is known.
std::string objection_to(const std::vector<std::string>& files);

/// What is missing where this source was not preprocessed; empty where that is not known.
std::string missing_for(const std::string& source);

}  // namespace peal::cc
