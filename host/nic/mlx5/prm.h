// SPDX-License-Identifier: Apache-2.0
//
// Firmware commands: mailboxes as arrays of big-endian words, and where in them the fields lie that
// peal sets or reads. A table of facts, with one set() and one value() that use it.
//
//   in:  dword 0 [31:16] opcode, dword 1 [15:0] op_mod      out: dword 0 [31:24] status, dword 1
//   syndrome
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "device/base/endian.h"

namespace peal::nic::prm {

enum class FirmwareCommand : uint16_t {
  kQueryHcaCap = 0x100,
  kCreateCq = 0x400,
  kCreateQp = 0x500,
  kReset2Init = 0x502,
  kInit2Rtr = 0x503,
  kRtr2Rts = 0x504,
  kRts2Rts = 0x505,
  k2Reset = 0x50a,
  kQueryQp = 0x50b,
  kQueryHcaVportContext = 0x762,
  kQueryLag = 0x842,
};

/// "CREATE_QP", as manuals spell it.
const char* to_string(FirmwareCommand command);

/// Bits [high:low] of big-endian word `dword` of a mailbox; 31 is the most significant bit.
struct MailboxField {
  uint16_t dword;
  uint8_t high;
  uint8_t low;
};

/// 64 bits: `dword` holds the upper half.
struct MailboxField64 {
  uint16_t dword;
};

// Common to all commands.
inline constexpr MailboxField kOpcode{0, 31, 16};
inline constexpr MailboxField kOpMod{1, 15, 0};
inline constexpr MailboxField kStatus{0, 31, 24};
inline constexpr MailboxField kSyndrome{1, 31, 0};
inline constexpr MailboxField kObjectNumber{2, 23, 0};  // qpn or cqn, in and out

/// Throws kInternal: `value` has more bits than the field, or the field is outside the mailbox.
[[noreturn]] void refuse_field(MailboxField field, uint64_t value, size_t words);

/// A zeroed mailbox of kBytes.
template <size_t kBytes>
class Mailbox {
  static_assert(kBytes % 4 == 0);

 public:
  Mailbox() : words_{} {}
  /// A command, on the queue or queue pair `number` if it is on one.
  explicit Mailbox(FirmwareCommand command, uint32_t number = 0) : Mailbox() {
    set(kOpcode, static_cast<uint32_t>(command));
    if (number != 0) set(kObjectNumber, number);
  }

  void set(MailboxField field, uint32_t value) {
    const uint32_t mask = mask_of(field);
    if (field.dword >= words_.size() || (value & ~mask) != 0) {
      refuse_field(field, value, words_.size());
    }
    Be32& word = words_[field.dword];
    word = Be32((word.host() & ~(mask << field.low)) | (value << field.low));
  }
  void set(MailboxField64 field, uint64_t value) {
    set(MailboxField{field.dword, 31, 0}, static_cast<uint32_t>(value >> 32));
    set(MailboxField{static_cast<uint16_t>(field.dword + 1), 31, 0}, static_cast<uint32_t>(value));
  }
  uint32_t value(MailboxField field) const {
    if (field.dword >= words_.size()) refuse_field(field, 0, words_.size());
    return (words_[field.dword].host() >> field.low) & mask_of(field);
  }

  const void* data() const { return words_.data(); }
  void* data() { return words_.data(); }
  static constexpr size_t bytes() { return kBytes; }

 private:
  static constexpr uint32_t mask_of(MailboxField field) {
    return static_cast<uint32_t>((uint64_t{1} << (field.high - field.low + 1)) - 1);
  }
  std::array<Be32, kBytes / 4> words_;
};

// Mailbox sizes in bytes.
inline constexpr size_t kShortIn = 16, kShortOut = 16;
inline constexpr size_t kQueryHcaCapOut = 4112;
inline constexpr size_t kCreateCqIn = 272, kCreateQpIn = 272, kModifyQpIn = 272, kQueryQpOut = 272;

// QUERY_HCA_CAP: op_mod = type << 1 | 1 (current values); what is asked for begins at dword 4 of
// the answer.
inline constexpr uint32_t kGeneralCapabilities = 0, kAtomicCapabilities = 3, kRoceCapabilities = 4;
inline constexpr uint32_t kGeneralCapabilities2 = 0x20;
namespace cap {
inline constexpr MailboxField kGeneral2{5, 31, 31};  // hca_cap_2
inline constexpr MailboxField kOooSlMask{13, 7, 7};  // the port's context has one
inline constexpr MailboxField kLogMaxQpSize{8, 23, 16};
inline constexpr MailboxField kLogMaxQp{8, 4, 0};
inline constexpr MailboxField kLogMaxCq{10, 4, 0};
// Requests taken at a time (log_max_ra_req_qp), answers waited for at a time (log_max_ra_res_qp).
inline constexpr MailboxField kLogMaxResponderDepth{14, 21, 16};
inline constexpr MailboxField kLagPortInRts{14, 13, 13};
inline constexpr MailboxField kLogMaxInitiatorDepth{14, 5, 0};
inline constexpr MailboxField kLogMaxMessage{18, 28, 24};
inline constexpr MailboxField kOooWrites{18, 21, 21};  // dp_ordering_ooo_rw_rc
inline constexpr MailboxField kLagPortInRtr{19, 7, 7};
inline constexpr MailboxField kCqeVersion{19, 3, 0};
inline constexpr MailboxField kRoce{20, 2, 2};
inline constexpr MailboxField kAtomic{20, 1, 1};
inline constexpr MailboxField kCqOverrunIgnore{21, 31, 31};
inline constexpr MailboxField kReliableConnection{21, 0, 0};
inline constexpr MailboxField kLagPortAlways{23, 7, 7};
inline constexpr MailboxField kLagPorts{23, 3, 0};
inline constexpr MailboxField kMaxWqeBytes{24, 15, 0};
inline constexpr MailboxField kOooAll{29, 11, 11};       // dp_ordering_ooo_all_rc
inline constexpr MailboxField kRelaxedOnly{33, 22, 22};  // mkc_order_write_after_write_ro_only
inline constexpr MailboxField kTimestampFormats{38, 31, 30};
}  // namespace cap
namespace cap_2 {
inline constexpr MailboxField kOrderForce{8, 23, 23};  // dp_ordering_force
}  // namespace cap_2
namespace atomic_cap {
inline constexpr MailboxField kEndiannessMode{6, 31, 30};
inline constexpr MailboxField kOperations{8, 15, 0};
inline constexpr MailboxField kSizes{9, 15, 0};
// By PCI Express AtomicOps: bit 0 of 4 bytes, bit 1 of 8.
inline constexpr MailboxField kPciFetchAdd{24, 31, 16};
inline constexpr MailboxField kPciCompareSwap{25, 31, 16};
}  // namespace atomic_cap
namespace roce_cap {
inline constexpr MailboxField kTimestampFormats{4, 1, 0};
inline constexpr MailboxField kMaxUdpPort{10, 31, 16};
inline constexpr MailboxField kMinUdpPort{10, 15, 0};
}  // namespace roce_cap

// QUERY_LAG: the state of the bond, 0 = there is none.
inline constexpr MailboxField kLagState{2, 2, 0};

// QUERY_HCA_VPORT_CONTEXT of an InfiniBand port; the context begins at dword 4 of the answer.
inline constexpr size_t kQueryHcaVportContextOut = 528;
inline constexpr MailboxField kVportPort{2, 19, 16};
inline constexpr MailboxField kVportOooSlMask{24, 15, 0};

// CREATE_CQ: the completion queue context begins at dword 4.
inline constexpr MailboxField64 kCqUmemOffset{20};
inline constexpr MailboxField kCqUmemNumber{22, 31, 0};
inline constexpr MailboxField kCqUmemValid{23, 31, 31};
namespace cqc {
inline constexpr MailboxField kDoorbellUmemValid{4, 25, 25};
inline constexpr MailboxField kCollapsed{4, 20, 20};
inline constexpr MailboxField kOverrunIgnore{4, 17, 17};
inline constexpr MailboxField kDoorbellUmemNumber{5, 31, 0};
inline constexpr MailboxField kLogEntries{7, 28, 24};
inline constexpr MailboxField kUarPage{7, 23, 0};
inline constexpr MailboxField kEventQueue{9, 7, 0};
inline constexpr MailboxField64 kDoorbellOffset{18};
}  // namespace cqc

// CREATE_QP and the transitions: the queue pair context begins at dword 6, and so it does in the
// answer of QUERY_QP. Its own dwords 6 to 16 are the primary address path.
inline constexpr MailboxField kOptionalFields{4, 31, 0};
inline constexpr uint32_t kOptionalLagPort = 1u << 15;
inline constexpr MailboxField64 kWqUmemOffset{64};
inline constexpr MailboxField kWqUmemNumber{66, 31, 0};
inline constexpr MailboxField kWqUmemValid{67, 31, 31};
namespace qpc {
inline constexpr MailboxField kState{6, 31, 28};
inline constexpr MailboxField kLagPort{6, 27, 24};
inline constexpr MailboxField kService{6, 23, 16};
inline constexpr MailboxField kPathMigration{6, 12, 11};
// dp_ordering_0 with dp_ordering_1 (0): WRITEs in any order, else as sent; dp_ordering_force: so
// whatever the fabric was told.
inline constexpr MailboxField kOrderAny{7, 25, 25};
inline constexpr MailboxField kOrderForce{7, 24, 24};
inline constexpr MailboxField kProtectionDomain{7, 23, 0};
inline constexpr MailboxField kMtu{8, 31, 29};
inline constexpr MailboxField kLogMaxMessage{8, 28, 24};
inline constexpr MailboxField kLogSendBlocks{8, 14, 11};
inline constexpr MailboxField kTimestampFormat{8, 7, 6};
inline constexpr MailboxField kCounterSet{9, 31, 24};
inline constexpr MailboxField kUarPage{9, 23, 0};
inline constexpr MailboxField kRemoteQpn{11, 23, 0};
inline constexpr MailboxField kPkeyIndex{12, 15, 0};
inline constexpr MailboxField kGlobalRoute{13, 23, 23};
inline constexpr MailboxField kRemoteLid{13, 15, 0};
inline constexpr MailboxField kAckTimeout{14, 31, 27};
inline constexpr MailboxField kSourceGid{14, 23, 16};
inline constexpr MailboxField kHopLimit{14, 7, 0};
inline constexpr MailboxField kTrafficClass{15, 27, 20};
inline constexpr MailboxField64 kRemoteGidHigh{16};
inline constexpr MailboxField64 kRemoteGidLow{18};
inline constexpr MailboxField kDscp{20, 21, 16};
inline constexpr MailboxField kUdpSourcePort{20, 15, 0};
inline constexpr MailboxField kEthernetPriority{21, 30, 28};
inline constexpr MailboxField kServiceLevel{21, 27, 24};
inline constexpr MailboxField kPort{21, 23, 16};
inline constexpr MailboxField kRemoteMacHigh{21, 15, 0};
inline constexpr MailboxField kRemoteMacLow{22, 31, 0};
inline constexpr MailboxField kLogAckFrequency{34, 31, 28};
inline constexpr MailboxField kLogInitiatorDepth{34, 23, 21};
inline constexpr MailboxField kRetryCount{34, 18, 16};
inline constexpr MailboxField kRnrRetry{34, 15, 13};
inline constexpr MailboxField kNextSendPsn{36, 23, 0};
inline constexpr MailboxField kSendCq{37, 23, 0};
inline constexpr MailboxField kLogResponderDepth{42, 23, 21};
inline constexpr MailboxField kAtomicMode{42, 19, 16};
inline constexpr MailboxField kRemoteRead{42, 15, 15};
inline constexpr MailboxField kRemoteWrite{42, 14, 14};
inline constexpr MailboxField kRemoteAtomic{42, 13, 13};
inline constexpr MailboxField kMinRnrTimer{43, 28, 24};
inline constexpr MailboxField kNextReceivePsn{43, 23, 0};
inline constexpr MailboxField kReceiveCq{45, 23, 0};
inline constexpr MailboxField64 kDoorbellOffset{46};
inline constexpr MailboxField kReceiveQueueType{49, 26, 24};
inline constexpr MailboxField kDoorbellUmemValid{58, 28, 28};
inline constexpr MailboxField kDoorbellUmemNumber{63, 31, 0};
}  // namespace qpc

inline constexpr uint32_t kServiceReliable = 0;
inline constexpr uint32_t kPathMigrated = 3;
inline constexpr uint32_t kNoReceiveQueue = 3;  // rq_type ZERO_SIZE
// QUERY_HCA_CAP's formats of time stamps: 0 = ticks of the NIC only. QPC's: ticks, or what the NIC
// does by default.
inline constexpr uint32_t kTicksOnly = 0;
inline constexpr uint32_t kTicks = 0, kDefaultTimestamps = 1;

}  // namespace peal::nic::prm

namespace peal::nic {

/// Throws for a command that the NIC or the driver did not carry out: kUnsupported when there is no
/// such command or no permission, else kSystem "CREATE_QP refused: BAD_RES (0x05), syndrome 0x...:
/// what that means". `in` and `out` are the mailboxes as sent and as answered (at least 16 bytes),
/// `error` is errno; it speaks when the answer carries no status.
[[noreturn]] void refuse_command(const void* in, const void* out, int error);

}  // namespace peal::nic
