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

enum class Command : uint16_t {
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
const char* to_string(Command command);

/// Bits [high:low] of big-endian word `dword` of a mailbox; 31 is the most significant bit.
struct Field {
  uint16_t dword;
  uint8_t high;
  uint8_t low;
};

/// 64 bits: `dword` holds the upper half.
struct Field64 {
  uint16_t dword;
};

// Common to all commands.
inline constexpr Field kOpcode{0, 31, 16};
inline constexpr Field kOpMod{1, 15, 0};
inline constexpr Field kStatus{0, 31, 24};
inline constexpr Field kSyndrome{1, 31, 0};
inline constexpr Field kObjectNumber{2, 23, 0};  // qpn or cqn, in and out

/// Throws kInternal: `value` has more bits than the field, or the field is outside the mailbox.
[[noreturn]] void refuse_field(Field field, uint64_t value, size_t words);

/// A zeroed mailbox of kBytes.
template <size_t kBytes>
class Mailbox {
  static_assert(kBytes % 4 == 0);

 public:
  Mailbox() : words_{} {}
  /// A command, on the queue or queue pair `number` if it is on one.
  explicit Mailbox(Command command, uint32_t number = 0) : Mailbox() {
    set(kOpcode, static_cast<uint32_t>(command));
    if (number != 0) set(kObjectNumber, number);
  }

  void set(Field field, uint32_t value) {
    const uint32_t mask = mask_of(field);
    if (field.dword >= words_.size() || (value & ~mask) != 0) {
      refuse_field(field, value, words_.size());
    }
    Be32& word = words_[field.dword];
    word = Be32((word.host() & ~(mask << field.low)) | (value << field.low));
  }
  void set(Field64 field, uint64_t value) {
    set(Field{field.dword, 31, 0}, static_cast<uint32_t>(value >> 32));
    set(Field{static_cast<uint16_t>(field.dword + 1), 31, 0}, static_cast<uint32_t>(value));
  }
  uint32_t value(Field field) const {
    if (field.dword >= words_.size()) refuse_field(field, 0, words_.size());
    return (words_[field.dword].host() >> field.low) & mask_of(field);
  }

  const void* data() const { return words_.data(); }
  void* data() { return words_.data(); }
  static constexpr size_t bytes() { return kBytes; }

 private:
  static constexpr uint32_t mask_of(Field field) {
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
inline constexpr Field kGeneral2{5, 31, 31};  // hca_cap_2
inline constexpr Field kOooSlMask{13, 7, 7};  // the port's context has one
inline constexpr Field kLogMaxQpSize{8, 23, 16};
inline constexpr Field kLogMaxQp{8, 4, 0};
inline constexpr Field kLogMaxCq{10, 4, 0};
// Requests taken at a time (log_max_ra_req_qp), answers waited for at a time (log_max_ra_res_qp).
inline constexpr Field kLogMaxResponderDepth{14, 21, 16};
inline constexpr Field kLagPortInRts{14, 13, 13};
inline constexpr Field kLogMaxInitiatorDepth{14, 5, 0};
inline constexpr Field kLogMaxMessage{18, 28, 24};
inline constexpr Field kOooWrites{18, 21, 21};  // dp_ordering_ooo_rw_rc
inline constexpr Field kLagPortInRtr{19, 7, 7};
inline constexpr Field kCqeVersion{19, 3, 0};
inline constexpr Field kRoce{20, 2, 2};
inline constexpr Field kAtomic{20, 1, 1};
inline constexpr Field kCqOverrunIgnore{21, 31, 31};
inline constexpr Field kReliableConnection{21, 0, 0};
inline constexpr Field kLagPortAlways{23, 7, 7};
inline constexpr Field kLagPorts{23, 3, 0};
inline constexpr Field kMaxWqeBytes{24, 15, 0};
inline constexpr Field kOooAll{29, 11, 11};       // dp_ordering_ooo_all_rc
inline constexpr Field kRelaxedOnly{33, 22, 22};  // mkc_order_write_after_write_ro_only
inline constexpr Field kTimestampFormats{38, 31, 30};
}  // namespace cap
namespace cap_2 {
inline constexpr Field kOrderForce{8, 23, 23};  // dp_ordering_force
}  // namespace cap_2
namespace atomic_cap {
inline constexpr Field kEndiannessMode{6, 31, 30};
inline constexpr Field kOperations{8, 15, 0};
inline constexpr Field kSizes{9, 15, 0};
// By PCI Express AtomicOps: bit 0 of 4 bytes, bit 1 of 8.
inline constexpr Field kPciFetchAdd{24, 31, 16};
inline constexpr Field kPciCompareSwap{25, 31, 16};
}  // namespace atomic_cap
namespace roce_cap {
inline constexpr Field kTimestampFormats{4, 1, 0};
inline constexpr Field kMaxUdpPort{10, 31, 16};
inline constexpr Field kMinUdpPort{10, 15, 0};
}  // namespace roce_cap

// QUERY_LAG: the state of the bond, 0 = there is none.
inline constexpr Field kLagState{2, 2, 0};

// QUERY_HCA_VPORT_CONTEXT of an InfiniBand port; the context begins at dword 4 of the answer.
inline constexpr size_t kQueryHcaVportContextOut = 528;
inline constexpr Field kVportPort{2, 19, 16};
inline constexpr Field kVportOooSlMask{24, 15, 0};

// CREATE_CQ: the completion queue context begins at dword 4.
inline constexpr Field64 kCqUmemOffset{20};
inline constexpr Field kCqUmemNumber{22, 31, 0};
inline constexpr Field kCqUmemValid{23, 31, 31};
namespace cqc {
inline constexpr Field kDoorbellUmemValid{4, 25, 25};
inline constexpr Field kCollapsed{4, 20, 20};
inline constexpr Field kOverrunIgnore{4, 17, 17};
inline constexpr Field kDoorbellUmemNumber{5, 31, 0};
inline constexpr Field kLogEntries{7, 28, 24};
inline constexpr Field kUarPage{7, 23, 0};
inline constexpr Field kEventQueue{9, 7, 0};
inline constexpr Field64 kDoorbellOffset{18};
}  // namespace cqc

// CREATE_QP and the transitions: the queue pair context begins at dword 6, and so it does in the
// answer of QUERY_QP. Its own dwords 6 to 16 are the primary address path.
inline constexpr Field kOptionalFields{4, 31, 0};
inline constexpr uint32_t kOptionalLagPort = 1u << 15;
inline constexpr Field64 kWqUmemOffset{64};
inline constexpr Field kWqUmemNumber{66, 31, 0};
inline constexpr Field kWqUmemValid{67, 31, 31};
namespace qpc {
inline constexpr Field kState{6, 31, 28};
inline constexpr Field kLagPort{6, 27, 24};
inline constexpr Field kService{6, 23, 16};
inline constexpr Field kPathMigration{6, 12, 11};
// dp_ordering_0 with dp_ordering_1 (0): WRITEs in any order, else as sent; dp_ordering_force: so
// whatever the fabric was told.
inline constexpr Field kOrderAny{7, 25, 25};
inline constexpr Field kOrderForce{7, 24, 24};
inline constexpr Field kProtectionDomain{7, 23, 0};
inline constexpr Field kMtu{8, 31, 29};
inline constexpr Field kLogMaxMessage{8, 28, 24};
inline constexpr Field kLogSendBlocks{8, 14, 11};
inline constexpr Field kTimestampFormat{8, 7, 6};
inline constexpr Field kCounterSet{9, 31, 24};
inline constexpr Field kUarPage{9, 23, 0};
inline constexpr Field kRemoteQpn{11, 23, 0};
inline constexpr Field kPkeyIndex{12, 15, 0};
inline constexpr Field kGlobalRoute{13, 23, 23};
inline constexpr Field kRemoteLid{13, 15, 0};
inline constexpr Field kAckTimeout{14, 31, 27};
inline constexpr Field kSourceGid{14, 23, 16};
inline constexpr Field kHopLimit{14, 7, 0};
inline constexpr Field kTrafficClass{15, 27, 20};
inline constexpr Field64 kRemoteGidHigh{16};
inline constexpr Field64 kRemoteGidLow{18};
inline constexpr Field kDscp{20, 21, 16};
inline constexpr Field kUdpSourcePort{20, 15, 0};
inline constexpr Field kEthernetPriority{21, 30, 28};
inline constexpr Field kServiceLevel{21, 27, 24};
inline constexpr Field kPort{21, 23, 16};
inline constexpr Field kRemoteMacHigh{21, 15, 0};
inline constexpr Field kRemoteMacLow{22, 31, 0};
inline constexpr Field kLogAckFrequency{34, 31, 28};
inline constexpr Field kLogInitiatorDepth{34, 23, 21};
inline constexpr Field kRetryCount{34, 18, 16};
inline constexpr Field kRnrRetry{34, 15, 13};
inline constexpr Field kNextSendPsn{36, 23, 0};
inline constexpr Field kSendCq{37, 23, 0};
inline constexpr Field kLogResponderDepth{42, 23, 21};
inline constexpr Field kAtomicMode{42, 19, 16};
inline constexpr Field kRemoteRead{42, 15, 15};
inline constexpr Field kRemoteWrite{42, 14, 14};
inline constexpr Field kRemoteAtomic{42, 13, 13};
inline constexpr Field kMinRnrTimer{43, 28, 24};
inline constexpr Field kNextReceivePsn{43, 23, 0};
inline constexpr Field kReceiveCq{45, 23, 0};
inline constexpr Field64 kDoorbellOffset{46};
inline constexpr Field kReceiveQueueType{49, 26, 24};
inline constexpr Field kDoorbellUmemValid{58, 28, 28};
inline constexpr Field kDoorbellUmemNumber{63, 31, 0};
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
