// SPDX-License-Identifier: Apache-2.0
//
// What Linux shows of the devices in /sys and /dev, made up as a folder of files and links.
//
//   <folder>/peal-softnic-sysfs-<uid>-<hash>/sys/class/infiniband/mlx5_0 -> ...
//                                           /sys/devices/pci5ea1:00/5ea1:00:00.0/{vendor,device,...}
//                                           /dev/infiniband/uverbs0 -> /dev/null
//
// The hash is of what is in it: processes that present the same devices share one folder, and a
// folder that has its name is complete.
#pragma once

#include <string>

#include "softnic/presentation/present.h"

namespace peal::softnic::sysfs {

/// Makes the tree of those devices under `folder`, unless it is there; its path, without a slash at
/// the end. With `peermem` it has the kernel module by which addresses of GPU memory can be
/// registered. Throws std::system_error naming the path.
std::string make_tree(const Presentation& devices, bool peermem, const std::string& folder);

}  // namespace peal::softnic::sysfs
