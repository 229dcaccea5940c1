// SPDX-License-Identifier: Apache-2.0
#include "host/transport/syndrome.h"

#include "device/mlx5/layout.h"

namespace peal {

const char* syndrome_text(uint8_t syndrome) {
  switch (static_cast<mlx5::Syndrome>(syndrome)) {
    case mlx5::Syndrome::kLocalLength:
      return "local length error";
    case mlx5::Syndrome::kLocalQpOperation:
      return "malformed work request";
    case mlx5::Syndrome::kLocalProtection:
      return "local key or range invalid";
    case mlx5::Syndrome::kFlushed:
      return "flushed after an earlier error";
    case mlx5::Syndrome::kRemoteInvalidRequest:
      return "peer refused the request as invalid";
    case mlx5::Syndrome::kRemoteAccess:
      return "peer refused key, range or access right";
    case mlx5::Syndrome::kRemoteOperation:
      return "peer could not carry it out";
    case mlx5::Syndrome::kTransportRetryExceeded:
      return "peer does not answer: its process ended, or the path is broken";
    case mlx5::Syndrome::kRnrRetryExceeded:
      return "peer has no receive posted";
    default:
      return "error";
  }
}

const char* syndrome_remedy(uint8_t syndrome) {
  switch (static_cast<mlx5::Syndrome>(syndrome)) {
    case mlx5::Syndrome::kLocalLength:
    case mlx5::Syndrome::kLocalQpOperation:
      return "the NIC read another work request than was written: its queue lies in memory that it "
             "cannot reach as it should (IOMMU, ACS: tools/doctor)";
    case mlx5::Syndrome::kLocalProtection:
      return "the NIC cannot reach this PE's own memory: registration (dma-buf, nvidia-peermem), "
             "IOMMU or ACS (tools/doctor)";
    case mlx5::Syndrome::kFlushed:
      return "the queue pair failed before: an event of the port, or of the peer";
    case mlx5::Syndrome::kRemoteInvalidRequest:
      return "the peer's NIC does not do this: atomics, or the depth of READs and atomics, are off "
             "or lower there; compare both by ibv_devinfo -v";
    case mlx5::Syndrome::kRemoteAccess:
      return "the peer's key is not what it told: another program or another build of peal runs "
             "there, or its registration has gone";
    case mlx5::Syndrome::kRemoteOperation:
      return "the peer's NIC cannot reach its memory: dma-buf, nvidia-peermem, IOMMU or ACS there "
             "(tools/doctor on that host)";
    case mlx5::Syndrome::kTransportRetryExceeded:
      return "no way there or back: port and cable (ibstat), partition key and subnet manager "
             "(InfiniBand), GID, VLAN, firewall for UDP 4791 and PFC (RoCE), an MTU that a switch "
             "does not carry, or the peer's process ended";
    case mlx5::Syndrome::kRnrRetryExceeded:
      return "the peer's queue pair is not ready to receive: its PE is stuck in set-up";
    case mlx5::Syndrome::kRemoteAborted:
      return "the peer's NIC gave the connection up: look at the log of its host (dmesg)";
    default:
      return "see the vendor syndrome in the manual of the NIC, and dmesg on both hosts";
  }
}

}  // namespace peal
