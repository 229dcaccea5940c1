// SPDX-License-Identifier: Apache-2.0
//
// What a ConnectX reads and writes: work queue entry segments, completion queue entry, doorbell
// record. Layout only: no behaviour beyond naming bit positions. Shared by the code that composes
// (device/mlx5) and by the software NIC that decodes (softnic), which share nothing else.
//
// Facts: mlx5 programmer's interface as used by rdma-core (providers/mlx5/mlx5dv.h);
// tests/unit/device/layout_test.cc compares offsets and numbers with that public header. Every
// segment is a 16-byte line of whole big-endian words, so that a GPU writes it with one 16-byte
// store.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/base/endian.h"

namespace peal::mlx5 {

inline constexpr uint32_t kWqebbBytes = 64;        // one work queue basic block
inline constexpr uint32_t kSegmentBytes = 16;      // `ds` counts these
inline constexpr uint32_t kMaxWqeSegments = 63;    // ds is 6 bits
inline constexpr uint32_t kInlineFlag = 1u << 31;  // in DataSegment::byte_count and InlineHeader
inline constexpr uint32_t kMaxInlineBytes = 28;    // ctrl + raddr + 4-byte header leave 28 of 64
inline constexpr uint32_t kInvalidLkey = 0x100;    // ends a receive scatter list
/// QPC.log_msg_max of every queue that the host creates.
inline constexpr uint64_t kMaxMessageBytes = uint64_t{1} << 30;

/// ControlSegment::opmod_idx_opcode, low 8 bits.
enum class Opcode : uint8_t {
  kNop = 0x00,
  kSendInval = 0x01,
  kRdmaWrite = 0x08,
  kRdmaWriteImm = 0x09,
  kSend = 0x0a,
  kSendImm = 0x0b,
  kWait = 0x0f,
  kRdmaRead = 0x10,
  kAtomicCompareSwap = 0x11,
  kAtomicFetchAdd = 0x12,
  kAtomicMaskedCompareSwap = 0x14,
  kAtomicMaskedFetchAdd = 0x15,
  kDump = 0x23,
};

/// ControlSegment::opmod_idx_opcode, high 8 bits, for the masked atomics.
inline constexpr uint8_t kOpmodAtomic4 = 0x08;
inline constexpr uint8_t kOpmodAtomic8 = 0x09;

/// Completion mode, bits [3:2] of fm_ce_se.
enum class Completion : uint8_t {
  kOnError = 0x00,
  kOnFirstError = 0x04,
  kAlways = 0x08,
  kAlwaysWithEvent = 0x0c,
};

/// Fence mode, bits [7:5] of fm_ce_se.
enum class Fence : uint8_t {
  kNone = 0x00,
  kInitiatorSmall = 0x20,
  kFence = 0x40,
  kStrong = 0x60,
  kFenceAndSmall = 0x80,
};

/// First 16 bytes of every WQE.
struct alignas(16) ControlSegment {
  Be32 opmod_idx_opcode;    // [31:24] opmod, [23:8] index of the first WQEBB, [7:0] opcode
  Be32 qpn_ds;              // [31:8] QPN, [5:0] length in 16-byte segments
  Be32 signature_fm_ce_se;  // [31:24] signature, [23:8] DCI stream, [7:5] fence, [3:2] completion,
                            // [1] solicited
  Be32 imm;
};

/// Where at the peer. `address` is an offset when the peer's memory is registered with iova 0.
struct alignas(16) RemoteAddressSegment {
  Be64 address;
  Be32 rkey;
  Be32 reserved;
};

/// Where at home. byte_count 0 means 2^31 bytes to the hardware; a zero-byte message carries no
/// data segment.
struct alignas(16) DataSegment {
  Be32 byte_count;
  Be32 lkey;
  Be64 address;
};

/// Head of inline data: (bytes | kInlineFlag), then the bytes, padded to 16.
struct InlineHeader {
  Be32 byte_count;
};

/// Plain 8-byte fetch-add (compare unused) and compare-swap.
struct alignas(16) AtomicSegment {
  Be64 swap_or_add;
  Be64 compare;
};

/// Masked compare-swap on 4 bytes (opmod 0x08).
struct alignas(16) MaskedCompareSwap4Segment {
  Be32 swap;
  Be32 compare;
  Be32 swap_mask;
  Be32 compare_mask;
};

/// Masked fetch-add on 4 bytes (opmod 0x08). A set bit i in field_boundary stops the carry out of
/// bit i.
struct alignas(16) MaskedFetchAdd4Segment {
  Be32 add;
  Be32 field_boundary;
  Be64 reserved;
};

/// Masked compare-swap on 8 bytes (opmod 0x09) takes this segment twice: values, then masks.
struct alignas(16) MaskedCompareSwap8Segment {
  Be64 swap;
  Be64 compare;
};

/// Masked fetch-add on 8 bytes (opmod 0x09).
struct alignas(16) MaskedFetchAdd8Segment {
  Be64 add;
  Be64 field_boundary;
};

/// WAIT: this queue stops until CQ `cqn` has produced more than `max_index` completions.
struct alignas(16) WaitSegment {
  Be64 reserved;
  Be32 max_index;
  Be32 cqn;
};

/// DC/UD address, compact form (16 bytes, InfiniBand without GRH). dqp_dct bit 31 clear.
struct alignas(16) CompactAddressVector {
  Be64 dc_key;
  Be32 ext_dqp_dct;        // [31] 1 = the 48-byte form follows, [23:0] destination QPN or DCTN
  Be32 rate_sl_mlid_rlid;  // [31:28] rate, [27:24] SL, [22:16] path bits, [15:0] DLID
};

/// The remaining 32 bytes of the full address vector.
struct alignas(16) AddressVectorGrh {
  Be32 reserved;
  Be32 rmac_47_16;
  Be32 rmac_15_0_tclass_hop;
  Be32 grh_gid_flow;  // [30] GRH present, [27:20] sgid index, [19:0] flow label
  uint8_t rgid[16];
};

/// One WQEBB seen as four 16-byte lines.
struct alignas(64) Wqebb {
  struct alignas(16) Line {
    uint64_t word[2];
  } line[4];
};

/// 64-byte completion. A poller reads the last word: it is written last.
struct alignas(64) Cqe {
  uint8_t inline_data[32];
  Be32 srqn_user_index;
  Be32 imm;
  Be32 app;
  Be32 byte_count;
  Be64 timestamp;           // error CQE: [15:8] of the low word vendor syndrome, [7:0] syndrome
  Be32 opcode_qpn;          // [31:24] opcode of the send WQE, [23:0] QPN
  Be32 counter_sig_op_own;  // [31:16] first WQEBB of the WQE, [15:8] signature, [7:4] CqeOpcode,
                            // [0] owner
};

inline constexpr size_t kCqeVendorSyndromeByte = 54;
inline constexpr size_t kCqeSyndromeByte = 55;

/// Cqe::counter_sig_op_own bits [7:4].
enum class CqeOpcode : uint8_t {
  kRequester = 0x0,
  kResponderWriteImm = 0x1,
  kResponderSend = 0x2,
  kResponderSendImm = 0x3,
  kRequesterError = 0xd,
  kResponderError = 0xe,
  kInvalid = 0xf,
};

/// Syndrome of an error CQE.
enum class Syndrome : uint8_t {
  kNone = 0x00,
  kLocalLength = 0x01,
  kLocalQpOperation = 0x02,
  kLocalProtection = 0x04,
  kFlushed = 0x05,
  kMwBind = 0x06,
  kBadResponse = 0x10,
  kLocalAccess = 0x11,
  kRemoteInvalidRequest = 0x12,
  kRemoteAccess = 0x13,
  kRemoteOperation = 0x14,
  kTransportRetryExceeded = 0x15,
  kRnrRetryExceeded = 0x16,
  kRemoteAborted = 0x22,
};

/// Two big-endian counters, low 16 bits each: work queue entries posted (receive), WQEBBs posted
/// (send).
struct alignas(8) DoorbellRecord {
  Be32 receive;
  Be32 send;
};

static_assert(sizeof(ControlSegment) == 16 && sizeof(RemoteAddressSegment) == 16);
static_assert(sizeof(DataSegment) == 16 && sizeof(AtomicSegment) == 16);
static_assert(sizeof(MaskedCompareSwap4Segment) == 16 && sizeof(MaskedFetchAdd4Segment) == 16);
static_assert(sizeof(MaskedCompareSwap8Segment) == 16 && sizeof(MaskedFetchAdd8Segment) == 16);
static_assert(sizeof(WaitSegment) == 16 && sizeof(CompactAddressVector) == 16);
static_assert(sizeof(AddressVectorGrh) == 32 && sizeof(Wqebb) == 64 && sizeof(Cqe) == 64);
static_assert(PEAL_LIES_AT(Cqe, byte_count, 44) && PEAL_LIES_AT(Cqe, opcode_qpn, 56));
static_assert(PEAL_LIES_AT(Cqe, counter_sig_op_own, 60) && sizeof(DoorbellRecord) == 8);

}  // namespace peal::mlx5
