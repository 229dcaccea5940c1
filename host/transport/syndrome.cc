// SPDX-License-Identifier: Apache-2.0
#include "host/transport/syndrome.h"

#include "device/mlx5/layout.h"

namespace peal {
namespace {

using mlx5::Syndrome;

struct Meaning {
  Syndrome syndrome;
  const char* text;
  const char* remedy;
};

constexpr const char* kOtherRequest =
    "the NIC read another work request than was written: its queue lies in memory that it cannot "
    "reach as it should (IOMMU, ACS: tools/doctor)";

constexpr Meaning kMeanings[] = {
    {Syndrome::kLocalLength, "local length error", kOtherRequest},
    {Syndrome::kLocalQpOperation, "malformed work request", kOtherRequest},
    {Syndrome::kLocalProtection, "local key or range invalid",
     "the NIC cannot reach this PE's own memory: registration (dma-buf, nvidia-peermem), IOMMU or "
     "ACS (tools/doctor)"},
    {Syndrome::kFlushed, "flushed after an earlier error",
     "the queue pair failed before: an event of the port, or of the peer"},
    {Syndrome::kRemoteInvalidRequest, "peer refused the request as invalid",
     "the peer's NIC does not do this: atomics, or the depth of READs and atomics, are off or "
     "lower there; compare both by ibv_devinfo -v"},
    {Syndrome::kRemoteAccess, "peer refused key, range or access right",
     "the peer's key is not what it told: another program or another build of peal runs there, or "
     "its registration has gone"},
    {Syndrome::kRemoteOperation, "peer could not carry it out",
     "the peer's NIC cannot reach its memory: dma-buf, nvidia-peermem, IOMMU or ACS there "
     "(tools/doctor on that host)"},
    {Syndrome::kTransportRetryExceeded,
     "peer does not answer: its process ended, or the path is broken",
     "no way there or back: port and cable (ibstat), partition key and subnet manager "
     "(InfiniBand), GID, VLAN, firewall for UDP 4791 and PFC (RoCE), an MTU that a switch does not "
     "carry, or the peer's process ended"},
    {Syndrome::kRnrRetryExceeded, "peer has no receive posted",
     "the peer's queue pair is not ready to receive: its PE is stuck in set-up"},
    {Syndrome::kRemoteAborted, "error",
     "the peer's NIC gave the connection up: look at the log of its host (dmesg)"}};
constexpr Meaning kUnknown = {
    {}, "error", "see the vendor syndrome in the manual of the NIC, and dmesg on both hosts"};

const Meaning& meaning_of(uint8_t syndrome) {
  for (const Meaning& meaning : kMeanings) {
    if (meaning.syndrome == static_cast<Syndrome>(syndrome)) return meaning;
  }
  return kUnknown;
}

}  // namespace

const char* syndrome_text(uint8_t syndrome) { return meaning_of(syndrome).text; }
const char* syndrome_remedy(uint8_t syndrome) { return meaning_of(syndrome).remedy; }

}  // namespace peal
