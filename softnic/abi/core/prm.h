// SPDX-License-Identifier: Apache-2.0
//
// Firmware command mailboxes as the NIC reads them: opcodes, sizes, and where each field lies.
//
// A Field is written as manuals write it: dword (big-endian, from the start of its structure), high
// bit, low bit, with 31 the most significant. Only fields that this NIC reads or answers are here,
// and those of what it tells of itself in caps.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "device/base/endian.h"

namespace peal::softnic::abi::prm {

enum class CommandOpcode : uint16_t {
  kQueryHcaCap = 0x100,
  kCreateMkey = 0x200,
  kCreateCq = 0x400,
  kQueryCq = 0x402,
  kModifyCq = 0x403,
  kCreateQp = 0x500,
  kRstToInit = 0x502,
  kInitToRtr = 0x503,
  kRtrToRts = 0x504,
  kRtsToRts = 0x505,
  kToError = 0x507,
  kToReset = 0x50a,
  kQueryQp = 0x50b,
  kInitToInit = 0x50e,
  kCreateDct = 0x710,
  kQueryDct = 0x713,
  kQueryRoceAddress = 0x760,
  kQueryHcaVportContext = 0x762,
  kAllocPd = 0x800,
  kQueryLag = 0x842,
  kCreateRmp = 0x90c,
};

inline constexpr size_t kHeaderBytes = 16;
inline constexpr size_t kQueueCommandBytes = 272;  // CREATE_CQ, CREATE_QP, transitions, QUERY_* out
inline constexpr size_t kCreateDctBytes = 128;
// With a context of 112 bytes (openucx/ucx v1.22.0, src/uct/ib/mlx5/dv/ib_mlx5_ifc.h).
inline constexpr size_t kCreateLongDctBytes = 176;
inline constexpr size_t kQueryDctOutBytes = 80;
inline constexpr size_t kQueryHcaCapOutBytes = 0x810;  // at least; the newest clients give 0x1010
inline constexpr size_t kQueryHcaVportContextOutBytes = 0x210;

struct Field {
  uint32_t dword;
  uint32_t high;
  uint32_t low;
  constexpr uint32_t mask() const { return high - low == 31 ? ~0u : (1u << (high - low + 1)) - 1; }
};

/// A structure inside a mailbox that a caller handed in. Reads beyond its end answer 0.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  size_t size() const { return bytes_.size(); }
  Reader at(size_t offset) const {
    return Reader(bytes_.subspan(offset < bytes_.size() ? offset : bytes_.size()));
  }
  uint32_t word(uint32_t dword) const {
    Be32 value(0u);
    if ((dword + 1) * sizeof value <= bytes_.size())
      std::memcpy(&value, bytes_.data() + dword * sizeof value, sizeof value);
    return value.host();
  }
  uint32_t get(Field field) const { return (word(field.dword) >> field.low) & field.mask(); }
  bool test(Field field) const { return get(field) != 0; }
  uint64_t wide(uint32_t dword) const { return uint64_t{word(dword)} << 32 | word(dword + 1); }

 private:
  std::span<const std::byte> bytes_;
};

/// A structure inside an answer. Writes beyond its end are dropped.
class Writer {
 public:
  explicit Writer(std::span<std::byte> bytes) : bytes_(bytes) {}
  size_t size() const { return bytes_.size(); }
  Writer at(size_t offset) const {
    return Writer(bytes_.subspan(offset < bytes_.size() ? offset : bytes_.size()));
  }
  void set(Field field, uint32_t value) const {
    if ((field.dword + 1) * sizeof(Be32) > bytes_.size()) return;
    uint32_t old = Reader(bytes_).word(field.dword);
    uint32_t mask = field.mask() << field.low;
    Be32 merged((old & ~mask) | ((value << field.low) & mask));
    std::memcpy(bytes_.data() + field.dword * sizeof merged, &merged, sizeof merged);
  }
  void set_wide(uint32_t dword, uint64_t value) const {
    set({dword, 31, 0}, static_cast<uint32_t>(value >> 32));
    set({dword + 1, 31, 0}, static_cast<uint32_t>(value));
  }
  /// 16 bytes, as they are.
  void set_gid(uint32_t dword, const uint8_t* gid) const {
    for (uint32_t i = 0; i < 4; ++i) set({dword + i, 31, 0}, word_of(gid + i * sizeof(Be32)));
  }
  /// 6 bytes: two in `high`, four in `low`.
  void set_mac(Field high, Field low, const uint8_t* mac) const {
    set(high, uint32_t{mac[0]} << 8 | mac[1]);
    set(low, word_of(mac + 2));
  }

 private:
  static uint32_t word_of(const uint8_t* bytes) {
    Be32 word;
    std::memcpy(&word, bytes, sizeof word);
    return word.host();
  }

  std::span<std::byte> bytes_;
};

// Every command.
inline constexpr Field kOpcode{0, 31, 16};
inline constexpr Field kUid{0, 15, 0};
inline constexpr Field kOpMod{1, 15, 0};
inline constexpr Field kStatus{0, 31, 24};
inline constexpr Field kSyndrome{1, 31, 0};
inline constexpr Field kNumber{2, 23, 0};  // qpn, cqn, dctn, pd: in and out

namespace create_cq {
inline constexpr size_t kContext = 0x10;
inline constexpr uint32_t kUmemOffset = 0x50 / 4;
inline constexpr Field kUmemId{0x58 / 4, 31, 0};
}  // namespace create_cq

namespace modify_cq {
inline constexpr Field kSelect{3, 31, 0};  // bit 0 period, bit 1 max count
}

namespace create_qp {
inline constexpr size_t kContext = 0x18;
inline constexpr uint32_t kUmemOffset = 0x100 / 4;
inline constexpr Field kUmemId{0x108 / 4, 31, 0};
inline constexpr Field kOptionalMask{4, 31, 0};
}  // namespace create_qp

/// Bits of opt_param_mask: which optional fields a transition carries.
namespace optional {
inline constexpr uint32_t kRemoteRead = 1u << 1;
inline constexpr uint32_t kRemoteAtomic = 1u << 2;
inline constexpr uint32_t kRemoteWrite = 1u << 3;
inline constexpr uint32_t kRnrTimer = 1u << 6;
inline constexpr uint32_t kLagPort = 1u << 15;
}  // namespace optional

namespace cqc {
inline constexpr Field kCqeSize{0, 23, 21};
inline constexpr Field kCollapsed{0, 20, 20};
inline constexpr Field kIgnoreOverrun{0, 17, 17};
inline constexpr Field kCompression{0, 14, 14};
inline constexpr Field kDoorbellUmemId{1, 31, 0};
inline constexpr Field kPageOffset{2, 11, 6};
inline constexpr Field kLogSize{3, 28, 24};
inline constexpr Field kUarPage{3, 23, 0};
inline constexpr Field kPeriod{4, 27, 16};
inline constexpr Field kMaxCount{4, 15, 0};
inline constexpr Field kEqn{5, 7, 0};
inline constexpr Field kConsumerCounter{10, 23, 0};
inline constexpr Field kProducerCounter{11, 23, 0};
inline constexpr uint32_t kDoorbellOffset = 14;
}  // namespace cqc

/// CREATE_MKEY (include/linux/mlx5/mlx5_ifc.h: create_mkey_in, mkc, klm). Entries of one octword
/// follow the command.
namespace create_mkey {
inline constexpr Field kIndex{2, 23, 0};  // one that the client wants
inline constexpr Field kUmemValid{3, 30, 30};
inline constexpr size_t kContext = 0x10;
inline constexpr Field kActualEntries{0x60 / 4, 31, 0};
inline constexpr size_t kEntries = 0x110;
inline constexpr size_t kEntryBytes = 16;
inline constexpr Field kEntryKey{1, 31, 0};  // the byte count before it is a KLM's
inline constexpr uint32_t kEntryAddress = 2;
}  // namespace create_mkey

namespace mkc {
inline constexpr Field kFree{0, 30, 30};
inline constexpr Field kModeHigh{0, 28, 26};
inline constexpr Field kRelaxedWrite{0, 18, 18};
inline constexpr Field kUmr{0, 15, 15};
inline constexpr Field kAtomic{0, 14, 14};
inline constexpr Field kRemoteWrite{0, 13, 13};
inline constexpr Field kRemoteRead{0, 12, 12};
inline constexpr Field kLocalWrite{0, 11, 11};
inline constexpr Field kLocalRead{0, 10, 10};
inline constexpr Field kModeLow{0, 9, 8};
inline constexpr uint32_t kKsm = 3;
inline constexpr Field kQpn{1, 31, 8};
inline constexpr uint32_t kAnyQpn = 0xffffff;
inline constexpr Field kVariant{1, 7, 0};
inline constexpr Field kLength64{3, 31, 31};
inline constexpr Field kSignatures{3, 30, 30};
inline constexpr Field kPd{3, 23, 0};
inline constexpr uint32_t kStart = 4;
inline constexpr uint32_t kLength = 6;
inline constexpr Field kEntries{13, 31, 0};
inline constexpr Field kLogEntity{14, 4, 0};
}  // namespace mkc

namespace qpc {
inline constexpr Field kState{0, 31, 28};
inline constexpr Field kLagPort{0, 27, 24};
inline constexpr Field kService{0, 23, 16};
inline constexpr Field kSignature{1, 31, 31};
inline constexpr Field kOrderForce{1, 24, 24};  // dp_ordering_force
inline constexpr Field kOrderAny{1, 25, 25};    // dp_ordering_0
inline constexpr Field kPd{1, 23, 0};
inline constexpr Field kMtu{2, 31, 29};
inline constexpr Field kLogMaxMessage{2, 28, 24};
inline constexpr Field kLogRqSize{2, 22, 19};
inline constexpr Field kLogRqStride{2, 18, 16};
inline constexpr Field kNoSendQueue{2, 15, 15};
inline constexpr Field kLogSqSize{2, 14, 11};
inline constexpr Field kTimestampFormat{2, 7, 6};
inline constexpr Field kUarPage{3, 23, 0};
inline constexpr Field kDoorbellMode{4, 31, 30};
inline constexpr Field kUserIndex{4, 23, 0};
inline constexpr Field kRemoteQpn{5, 23, 0};
// Primary address path: starts at dword 6.
inline constexpr Field kPkeyIndex{6, 15, 0};
inline constexpr Field kGrh{7, 23, 23};
inline constexpr Field kRemoteLid{7, 15, 0};
inline constexpr Field kAckTimeout{8, 31, 27};
inline constexpr Field kSourceGidIndex{8, 23, 16};
inline constexpr Field kHopLimit{8, 7, 0};
inline constexpr Field kTrafficClass{9, 27, 20};
inline constexpr Field kFlowLabel{9, 19, 0};
inline constexpr uint32_t kRemoteGid = 10;  // 4 dwords
inline constexpr Field kDscp{14, 21, 16};
inline constexpr Field kUdpPort{14, 15, 0};
inline constexpr Field kEthernetPriority{15, 30, 28};
inline constexpr Field kServiceLevel{15, 27, 24};
inline constexpr Field kPort{15, 23, 16};
inline constexpr Field kRemoteMacHigh{15, 15, 0};
inline constexpr Field kRemoteMacLow{16, 31, 0};
inline constexpr Field kLogInitiatorDepth{28, 23, 21};
inline constexpr Field kRetryCount{28, 18, 16};
inline constexpr Field kRnrRetry{28, 15, 13};
inline constexpr Field kSendPsn{30, 23, 0};
inline constexpr Field kSendCq{31, 23, 0};
inline constexpr Field kLogResponderDepth{36, 23, 21};
inline constexpr Field kAtomicMode{36, 19, 16};
inline constexpr Field kRemoteRead{36, 15, 15};
inline constexpr Field kRemoteWrite{36, 14, 14};
inline constexpr Field kRemoteAtomic{36, 13, 13};
inline constexpr Field kPageOffset{36, 11, 6};
inline constexpr Field kOrderAll{36, 3, 3};  // dp_ordering_1
inline constexpr Field kMinRnrTimer{37, 28, 24};
inline constexpr Field kReceivePsn{37, 23, 0};
inline constexpr Field kReceiveCq{39, 23, 0};
inline constexpr uint32_t kDoorbellOffset = 40;
inline constexpr Field kRqType{43, 26, 24};
inline constexpr Field kSrqn{43, 23, 0};
inline constexpr Field kHardwareSendCounter{45, 31, 16};
inline constexpr Field kSoftwareSendCounter{45, 15, 0};
inline constexpr uint32_t kDcAccessKey = 50;
inline constexpr Field kDoorbellUmemId{57, 31, 0};

enum RqType : uint32_t { kRegularRq = 0, kSharedRq = 1, kZeroSizeRq = 3 };
enum TimestampFormat : uint32_t { kFreeRunning = 0, kDefaultFormat = 1, kRealTime = 2 };
}  // namespace qpc

namespace dctc {
inline constexpr size_t kContext = 0x10;
inline constexpr Field kState{0, 27, 24};
inline constexpr Field kUserIndex{1, 23, 0};
inline constexpr Field kCq{2, 23, 0};
inline constexpr Field kAtomicMode{3, 23, 20};
inline constexpr Field kRemoteRead{3, 19, 19};
inline constexpr Field kRemoteWrite{3, 18, 18};
inline constexpr Field kRemoteAtomic{3, 17, 17};
inline constexpr Field kMinRnrTimer{4, 12, 8};
inline constexpr Field kSrqn{5, 23, 0};
inline constexpr Field kPd{6, 23, 0};
inline constexpr uint32_t kAccessKey = 8;
inline constexpr Field kMtu{10, 26, 24};
inline constexpr Field kPort{10, 23, 16};
inline constexpr Field kPkeyIndex{10, 15, 0};
inline constexpr Field kMyGidIndex{11, 23, 16};
}  // namespace dctc

/// Receive memory pool; its work queue's context follows at dword 12.
namespace rmpc {
inline constexpr size_t kContext = 0x20;
inline constexpr Field kState{0, 23, 20};
inline constexpr uint32_t kReady = 1;
inline constexpr Field kType{12, 31, 28};
inline constexpr uint32_t kCyclic = 1;  // 0: linked list
inline constexpr Field kPd{14, 23, 0};
inline constexpr uint32_t kDoorbellOffset = 16;
inline constexpr Field kLogStride{20, 19, 16};  // bytes
inline constexpr Field kLogSize{20, 4, 0};
inline constexpr Field kDoorbellUmemId{22, 31, 0};
inline constexpr Field kUmemId{23, 31, 0};
inline constexpr uint32_t kUmemOffset = 24;
}  // namespace rmpc

/// QUERY_HCA_CAP: op_mod = type << 1 | (1 current, 0 maximum).
namespace cap {
inline constexpr uint32_t kGeneral = 0;
inline constexpr uint32_t kAtomic = 3;
inline constexpr uint32_t kRoce = 4;
inline constexpr uint32_t kFlowTable = 7;
inline constexpr uint32_t kDeviceMemory = 0xf;
inline constexpr uint32_t kGeneral2 = 0x20;
}  // namespace cap

/// Why a command was refused: our own numbers (hardware's are private to its firmware).
enum class CommandSyndrome : uint32_t {
  kLength = 0x5ea10001,
  kUnknownOpcode,
  kUnknownUmem,
  kUmemRange,
  kMisaligned,
  kQueueSize,
  kUarPage,
  kEventQueue,
  kCompletionQueue,
  kProtectionDomain,
  kSharedReceiveQueue,
  kService,
  kUnsupportedMode,
  kPath,
  kMtu,
  kPort,
  kCapabilityType,
  kInputNumber,
  kNic,       // the NIC's own refusal: state machine, busy, no resources
  kUmemPage,  // an offset that the page of the umem cannot express
};

}  // namespace peal::softnic::abi::prm
