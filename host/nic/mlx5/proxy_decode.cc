// SPDX-License-Identifier: Apache-2.0
#include "host/nic/mlx5/proxy_decode.h"

#include <cstring>

namespace peal {
namespace {

using mlx5::Opcode;
using mlx5::Syndrome;

constexpr uint32_t kLinesPerBlock = mlx5::kWqebbBytes / mlx5::kSegmentBytes;
constexpr uint32_t kMostLines = 2 * kLinesPerBlock;  // of what kernels compose in such a queue
constexpr uint32_t kFenceMask = 0xe0;

/// The lines of one entry.
class Lines {
 public:
  Lines(const ProxyRing& ring, uint64_t index) : ring_(ring), index_(index) {}

  template <class Segment>
  Segment read(uint32_t line) const {
    static_assert(sizeof(Segment) == mlx5::kSegmentBytes);
    const uint64_t slot = (index_ + line / kLinesPerBlock) & (ring_.depth - 1);
    Segment segment;
    std::memcpy(
        static_cast<void*>(&segment),
        ring_.blocks + slot * mlx5::kWqebbBytes + line % kLinesPerBlock * mlx5::kSegmentBytes,
        sizeof segment);
    return segment;
  }

 private:
  const ProxyRing& ring_;
  uint64_t index_;
};

/// The data segment that ends an entry of `lines` lines at `line`.
Syndrome read_data(const Lines& lines, uint32_t line, ProxyWork& work) {
  const auto data = lines.read<mlx5::DataSegment>(line);
  const uint32_t count = data.byte_count.host();
  if ((count & mlx5::kInlineFlag) != 0) return Syndrome::kLocalQpOperation;
  if (count == 0 || count > mlx5::kMaxMessageBytes) return Syndrome::kLocalLength;  // 0 is 2^31
  work.bytes = count;
  work.lkey = data.lkey.host();
  work.local = data.address.host();
  return Syndrome::kNone;
}

Syndrome read_inline(const Lines& lines, uint32_t units, uint32_t bytes, ProxyWork& work) {
  if (bytes == 0 || bytes > mlx5::kMaxInlineBytes) return Syndrome::kLocalQpOperation;
  constexpr auto kHeader = static_cast<uint32_t>(sizeof(mlx5::InlineHeader));
  const uint32_t body = (kHeader + bytes + 15) / mlx5::kSegmentBytes;
  if (units != 2 + body) return Syndrome::kLocalQpOperation;
  struct alignas(16) Raw {
    std::byte byte[mlx5::kSegmentBytes];
  };
  std::byte copied[2 * mlx5::kSegmentBytes];
  for (uint32_t i = 0; i < body; ++i) {
    const auto raw = lines.read<Raw>(2 + i);
    std::memcpy(copied + i * sizeof raw, raw.byte, sizeof raw);
  }
  std::memcpy(work.in_place, copied + kHeader, bytes);
  work.kind = ProxyWork::Kind::kInlineWrite;
  work.bytes = bytes;
  return Syndrome::kNone;
}

Syndrome read_transfer(const Lines& lines, uint32_t units, ProxyWork& work) {
  const bool writes = work.opcode == Opcode::kRdmaWrite;
  work.kind = writes ? ProxyWork::Kind::kWrite : ProxyWork::Kind::kRead;
  if (units == 2) return Syndrome::kNone;  // of no bytes
  const uint32_t count = lines.read<mlx5::DataSegment>(2).byte_count.host();
  if (writes && (count & mlx5::kInlineFlag) != 0) {
    return read_inline(lines, units, count & ~mlx5::kInlineFlag, work);
  }
  return units == 3 ? read_data(lines, 2, work) : Syndrome::kLocalQpOperation;
}

/// Reads where an atomic on `bytes` bytes wants its result.
Syndrome read_result(const Lines& lines, uint32_t line, uint32_t bytes, ProxyWork& work) {
  const Syndrome wrong = read_data(lines, line, work);
  if (wrong != Syndrome::kNone) return wrong;
  if (work.bytes != bytes) return Syndrome::kLocalQpOperation;
  return work.remote % bytes == 0 ? Syndrome::kNone : Syndrome::kRemoteInvalidRequest;
}

Syndrome read_atomic(const Lines& lines, uint32_t units, uint8_t opmod, ProxyWork& work) {
  if (units != 4 || opmod != 0) return Syndrome::kLocalQpOperation;
  const auto operands = lines.read<mlx5::AtomicSegment>(2);
  const bool compares = work.opcode == Opcode::kAtomicCompareSwap;
  work.kind = compares ? ProxyWork::Kind::kCompareSwap : ProxyWork::Kind::kFetchAdd;
  work.swap_or_add = operands.swap_or_add.host();
  work.compare = operands.compare.host();
  return read_result(lines, 3, 8, work);
}

Syndrome read_masked_4(const Lines& lines, uint32_t units, ProxyWork& work) {
  if (units != 4) return Syndrome::kLocalQpOperation;
  MaskedAtomic& m = work.masked;
  m.bytes = 4;
  if (m.kind == MaskedAtomic::Kind::kCompareSwap) {
    const auto segment = lines.read<mlx5::MaskedCompareSwap4Segment>(2);
    m.operand = segment.swap.host();
    m.compare = segment.compare.host();
    m.swap_mask = segment.swap_mask.host();
    m.compare_mask = segment.compare_mask.host();
  } else {
    const auto segment = lines.read<mlx5::MaskedFetchAdd4Segment>(2);
    m.operand = segment.add.host();
    m.boundary = segment.field_boundary.host();
  }
  return read_result(lines, 3, 4, work);
}

Syndrome read_masked_8(const Lines& lines, uint32_t units, ProxyWork& work) {
  MaskedAtomic& m = work.masked;
  m.bytes = 8;
  if (m.kind == MaskedAtomic::Kind::kFetchAdd) {
    if (units != 4) return Syndrome::kLocalQpOperation;
    const auto segment = lines.read<mlx5::MaskedFetchAdd8Segment>(2);
    m.operand = segment.add.host();
    m.boundary = segment.field_boundary.host();
    return read_result(lines, 3, 8, work);
  }
  if (units != 5) return Syndrome::kLocalQpOperation;
  const auto values = lines.read<mlx5::MaskedCompareSwap8Segment>(2);
  const auto masks = lines.read<mlx5::MaskedCompareSwap8Segment>(3);
  m.operand = values.swap.host();
  m.compare = values.compare.host();
  m.swap_mask = masks.swap.host();
  m.compare_mask = masks.compare.host();
  return read_result(lines, 4, 8, work);
}

/// Masked atomics; those that any NIC has become plain ones.
Syndrome read_masked(const Lines& lines, uint32_t units, uint8_t opmod, ProxyWork& work) {
  MaskedAtomic& m = work.masked;
  m = {};
  m.kind = work.opcode == Opcode::kAtomicMaskedCompareSwap ? MaskedAtomic::Kind::kCompareSwap
                                                           : MaskedAtomic::Kind::kFetchAdd;
  work.kind = ProxyWork::Kind::kMasked;
  if (opmod == mlx5::kOpmodAtomic4) return read_masked_4(lines, units, work);
  if (opmod != mlx5::kOpmodAtomic8) return Syndrome::kLocalQpOperation;
  const Syndrome wrong = read_masked_8(lines, units, work);
  if (wrong != Syndrome::kNone) return wrong;
  constexpr uint64_t kAll = ~uint64_t{0};
  if (m.kind == MaskedAtomic::Kind::kFetchAdd && m.boundary == 0) {
    work.kind = ProxyWork::Kind::kFetchAdd;
  } else if (m.kind == MaskedAtomic::Kind::kCompareSwap && m.swap_mask == kAll &&
             m.compare_mask == kAll) {
    work.kind = ProxyWork::Kind::kCompareSwap;
  }
  work.swap_or_add = m.operand;
  work.compare = m.compare;
  return Syndrome::kNone;
}

Syndrome read_body(const Lines& lines, uint32_t units, uint8_t opmod, ProxyWork& work) {
  switch (work.opcode) {
    case Opcode::kNop:
      return Syndrome::kNone;
    case Opcode::kDump:  // ProxyQueue knows what that takes
      return units == 2 ? read_data(lines, 1, work) : Syndrome::kLocalQpOperation;
    case Opcode::kRdmaWrite:
    case Opcode::kRdmaRead:
    case Opcode::kAtomicCompareSwap:
    case Opcode::kAtomicFetchAdd:
    case Opcode::kAtomicMaskedCompareSwap:
    case Opcode::kAtomicMaskedFetchAdd:
      break;
    default:
      return Syndrome::kLocalQpOperation;
  }
  if (units < 2) return Syndrome::kLocalQpOperation;
  const auto remote = lines.read<mlx5::RemoteAddressSegment>(1);
  work.remote = remote.address.host();
  work.rkey = remote.rkey.host();
  if (work.opcode == Opcode::kRdmaWrite || work.opcode == Opcode::kRdmaRead) {
    return opmod == 0 ? read_transfer(lines, units, work) : Syndrome::kLocalQpOperation;
  }
  const bool plain =
      work.opcode == Opcode::kAtomicCompareSwap || work.opcode == Opcode::kAtomicFetchAdd;
  return plain ? read_atomic(lines, units, opmod, work) : read_masked(lines, units, opmod, work);
}

}  // namespace

Syndrome decode_for_proxy(const ProxyRing& ring, uint64_t index, uint64_t posted, ProxyWork& work) {
  const Lines lines(ring, index);
  const auto control = lines.read<mlx5::ControlSegment>(0);
  const uint32_t head = control.opmod_idx_opcode.host();
  const uint32_t qpn_ds = control.qpn_ds.host();
  const uint32_t modes = control.signature_fm_ce_se.host();
  const uint32_t units = qpn_ds & 0xff;
  work.kind = ProxyWork::Kind::kNothing;
  work.opcode = static_cast<Opcode>(head & 0xff);
  work.fence = static_cast<mlx5::Fence>(modes & kFenceMask);
  work.reports = (modes & static_cast<uint32_t>(mlx5::Completion::kAlways)) != 0;
  work.blocks = units == 0 ? 1 : (units + kLinesPerBlock - 1) / kLinesPerBlock;
  work.bytes = 0;

  const bool this_lap = (head >> 8 & 0xffff) == (index & 0xffff);
  if (!this_lap || qpn_ds >> 8 != ring.qpn) return Syndrome::kLocalQpOperation;
  if (units == 0 || units > kMostLines || work.blocks > posted - index) {
    return Syndrome::kLocalQpOperation;
  }
  if ((modes & kFenceMask) > static_cast<uint32_t>(mlx5::Fence::kFenceAndSmall)) {
    return Syndrome::kLocalQpOperation;
  }
  return read_body(lines, units, static_cast<uint8_t>(head >> 24), work);
}

}  // namespace peal
