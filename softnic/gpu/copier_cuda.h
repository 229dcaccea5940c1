// SPDX-License-Identifier: Apache-2.0
//
// The copy engines of this process's GPU, for the engine on a CPU (softnic/engine/gpu_memory.h).
#pragma once

#include <memory>

#include "softnic/engine/gpu_memory.h"

namespace peal::softnic::gpu {

/// By a stream of its own that waits for no other, in the primary context of the driver's device
/// `device`: kernels that spin do not hold it up. A call of CUDA's in another thread that waits for
/// such a kernel may: the first launch of a kernel that was not loaded yet is one. Throws
/// ExportError.
std::unique_ptr<GpuCopier> make_cuda_copier(int device);

}  // namespace peal::softnic::gpu
