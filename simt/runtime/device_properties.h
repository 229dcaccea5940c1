// SPDX-License-Identifier: Apache-2.0
//
// What a device says of itself: this machine's CPUs, within the limits of compute capability 9.0.
#pragma once

#include "simt/runtime/devices.h"

namespace peal::simt::cuda {

cudaDeviceProp properties_of(int device);

/// -1: simt does not know the attribute.
int attribute_of(const cudaDeviceProp& all, cudaDeviceAttr attribute);

}  // namespace peal::simt::cuda
