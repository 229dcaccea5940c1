// SPDX-License-Identifier: Apache-2.0
//
// InfiniBand partitions: the table of keys (P_Keys) that the subnet manager gave a port, and the
// one that a queue pair uses. Two ports hear each other only in a partition that both are members
// of, one of them a full one; on Ethernet there is one partition, that of everybody.
//
//   index  0: 0x7fff  limited member of the default partition     1: 0x8001  full member     2: 0
#pragma once

#include <string>
#include <vector>

#include "host/nic/path.h"
#include "host/nic/port.h"
#include "host/nic/verbs.h"

namespace peal::nic {

/// The entries of a port's table that are in use; none on Ethernet. Throws kSystem when the NIC
/// does not answer.
std::vector<Partition> read_partitions(const VerbsLibrary& library, ibv_context* context,
                                       const std::string& nic, const PortAttributes& port);

/// The entry that queue pairs of this port use: that of the partition that was set, else the first
/// with full membership, else the first. Throws kConfiguration with the table when peal's own
/// variable names a partition that the port is not in, or one on Ethernet; kUnsupported when the
/// table is empty. An index that NCCL's variable set and that does not fit is told in
/// `settings.ignored`.
Partition choose_partition(const std::string& nic, const PortAttributes& port,
                           const std::vector<Partition>& table, PathSettings& settings);

}  // namespace peal::nic
