// SPDX-License-Identifier: Apache-2.0
//
// What a completion's syndrome means to a person, and what to do about it.
#include <infiniband/verbs.h>

#include <utility>

#include "device/mlx5/layout.h"
#include "host/nic/model.h"
#include "host/nic/verbs_queue.h"

namespace peal::nic {
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

Cause cause_of(uint8_t syndrome) {
  switch (static_cast<Syndrome>(syndrome)) {
    case Syndrome::kTransportRetryExceeded:
      return Cause::kNoAnswer;
    case Syndrome::kFlushed:
      return Cause::kFlushed;
    default:
      return Cause::kOther;
  }
}

/// The inverse of what libmlx5 does with a CQE's syndrome, 1:1.
uint8_t syndrome_of(ibv_wc_status status) {
  constexpr std::pair<ibv_wc_status, Syndrome> kSyndromes[] = {
      {IBV_WC_SUCCESS, Syndrome::kNone},
      {IBV_WC_LOC_LEN_ERR, Syndrome::kLocalLength},
      {IBV_WC_LOC_PROT_ERR, Syndrome::kLocalProtection},
      {IBV_WC_WR_FLUSH_ERR, Syndrome::kFlushed},
      {IBV_WC_MW_BIND_ERR, Syndrome::kMwBind},
      {IBV_WC_BAD_RESP_ERR, Syndrome::kBadResponse},
      {IBV_WC_LOC_ACCESS_ERR, Syndrome::kLocalAccess},
      {IBV_WC_REM_INV_REQ_ERR, Syndrome::kRemoteInvalidRequest},
      {IBV_WC_REM_ACCESS_ERR, Syndrome::kRemoteAccess},
      {IBV_WC_REM_OP_ERR, Syndrome::kRemoteOperation},
      {IBV_WC_RETRY_EXC_ERR, Syndrome::kTransportRetryExceeded},
      {IBV_WC_RNR_RETRY_EXC_ERR, Syndrome::kRnrRetryExceeded},
      {IBV_WC_REM_ABORT_ERR, Syndrome::kRemoteAborted}};
  for (const auto& [known, syndrome] : kSyndromes) {
    if (known == status) return static_cast<uint8_t>(syndrome);
  }
  // IBV_WC_LOC_QP_OP_ERR, and what other providers may invent
  return static_cast<uint8_t>(Syndrome::kLocalQpOperation);
}

const char* syndrome_text(uint8_t syndrome) { return meaning_of(syndrome).text; }
const char* syndrome_remedy(uint8_t syndrome) { return meaning_of(syndrome).remedy; }

}  // namespace peal::nic
