// SPDX-License-Identifier: Apache-2.0
//
// libpeal_kernels.so: the images of the library's kernels for GPUs. A file of its own, for it is
// large and only programs with a GPU load it.
#pragma once

#include <string>
#include <string_view>

namespace peal {

/// An image for cuModuleLoadData, by Kernel::image. Loads the file at first use: `path`, or where
/// that is empty the one in kernels/ beside the program or in a folder above. Throws kUnsupported
/// with the remedy where there is none, or where it was built without nvcc.
const void* kernel_image(const std::string& path, std::string_view name);

}  // namespace peal
