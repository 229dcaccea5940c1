// SPDX-License-Identifier: Apache-2.0
//
// One table of opcodes; headers are copied in and out in the order of the table's columns.
#include "softnic/wire/roce/codec.h"

#include <cstring>

namespace peal::softnic::roce {

namespace {

constexpr uint32_t kNumber = 0xffffff;

/// Copies headers, one behind the other.
struct Put {
  std::byte* at;
  template <class T>
  void operator()(const T& header) {
    std::memcpy(at, &header, sizeof header);
    at += sizeof header;
  }
};

struct Take {
  const std::byte* at;
  template <class T>
  T next() {
    T header;
    std::memcpy(&header, at, sizeof header);
    at += sizeof header;
    return header;
  }
};

void put_atomic(const RoceFrame& frame, bool masks, Put& put) {
  const AtomicOperands& operands = frame.operands;
  put(AtomicEth{Be64Halves(frame.address), Be32(frame.rkey), Be64Halves(operands.swap_or_add),
                Be64Halves(operands.compare)});
  if (masks) put(AtomicMasks{Be64Halves(operands.swap_mask), Be64Halves(operands.compare_mask)});
}

void take_atomic(bool masks, Take& take, RoceFrame& frame) {
  const auto header = take.next<AtomicEth>();
  frame.address = header.address.host();
  frame.rkey = header.rkey.host();
  frame.operands.swap_or_add = header.swap_or_add.host();
  frame.operands.compare = header.compare.host();
  if (!masks) return;
  const auto mask = take.next<AtomicMasks>();
  frame.operands.swap_mask = mask.swap.host();
  frame.operands.compare_mask = mask.compare.host();
}

}  // namespace

uint32_t HeaderLayout::bytes() const {
  const auto counted = [](bool there, size_t size) { return there ? size : 0; };
  return static_cast<uint32_t>(
      sizeof(Bth) + counted(deth, sizeof(Deth)) + counted(reth, sizeof(Reth)) +
      counted(aeth, sizeof(Aeth)) + counted(atomic, sizeof(AtomicEth)) +
      counted(masks, sizeof(AtomicMasks)) + counted(original, sizeof(AtomicAckEth)) +
      counted(immediate, kImmediateBytes));
}

std::optional<HeaderLayout> layout_of(BthOpcode opcode) {
  switch (opcode) {
    case BthOpcode::kSendFirst:
    case BthOpcode::kSendMiddle:
    case BthOpcode::kSendLast:
    case BthOpcode::kSendOnly:
    case BthOpcode::kWriteMiddle:
    case BthOpcode::kWriteLast:
    case BthOpcode::kReadResponseMiddle:
      return HeaderLayout{.payload = true};
    case BthOpcode::kSendLastImmediate:
    case BthOpcode::kSendOnlyImmediate:
    case BthOpcode::kWriteLastImmediate:
      return HeaderLayout{.immediate = true, .payload = true};
    case BthOpcode::kWriteFirst:
    case BthOpcode::kWriteOnly:
      return HeaderLayout{.reth = true, .payload = true};
    case BthOpcode::kWriteOnlyImmediate:
      return HeaderLayout{.reth = true, .immediate = true, .payload = true};
    case BthOpcode::kReadRequest:
      return HeaderLayout{.reth = true};
    case BthOpcode::kReadResponseFirst:
    case BthOpcode::kReadResponseLast:
    case BthOpcode::kReadResponseOnly:
      return HeaderLayout{.aeth = true, .payload = true};
    case BthOpcode::kAcknowledge:
      return HeaderLayout{.aeth = true};
    case BthOpcode::kAtomicAcknowledge:
    case BthOpcode::kAtomicAcknowledge4:
      return HeaderLayout{.aeth = true, .original = true};
    case BthOpcode::kCompareSwap:
    case BthOpcode::kFetchAdd:
      return HeaderLayout{.atomic = true};
    case BthOpcode::kMaskedCompareSwap8:
    case BthOpcode::kMaskedFetchAdd8:
    case BthOpcode::kMaskedCompareSwap4:
    case BthOpcode::kMaskedFetchAdd4:
      return HeaderLayout{.atomic = true, .masks = true};
    case BthOpcode::kDatagramOnly:
      return HeaderLayout{.deth = true, .payload = true};
    case BthOpcode::kDatagramOnlyImmediate:
      return HeaderLayout{.deth = true, .immediate = true, .payload = true};
  }
  return std::nullopt;
}

uint32_t encode(const RoceFrame& frame, std::byte* to) {
  const HeaderLayout layout = layout_of(frame.opcode).value();
  const uint32_t pad = padding(frame.bytes);
  const uint32_t solicited = frame.solicited ? kSolicitedEvent : 0;
  Put put{to};
  put(Bth{.opcode = static_cast<uint8_t>(frame.opcode),
          .flags = static_cast<uint8_t>(solicited | kMigrated | pad << 4),
          .pkey = Be16(frame.pkey),
          .destination = Be32(frame.qpn & kNumber),
          .psn = Be32((frame.asks_ack ? kAskForAck : 0) | (frame.psn & kNumber))});
  if (layout.deth) put(Deth{Be32(frame.qkey), Be32(frame.source & kNumber)});
  if (layout.reth) put(Reth{Be64Halves(frame.address), Be32(frame.rkey), Be32(frame.length)});
  if (layout.aeth) put(Aeth{Be32(uint32_t{frame.syndrome} << 24 | (frame.msn & kNumber))});
  if (layout.atomic) put_atomic(frame, layout.masks, put);
  if (layout.original) put(AtomicAckEth{Be64Halves(frame.original)});
  if (layout.immediate) put(frame.immediate);
  return static_cast<uint32_t>(put.at - to);
}

std::optional<RoceFrame> decode(const std::byte* datagram, size_t bytes) {
  if (bytes < sizeof(Bth) + kIcrcBytes) return std::nullopt;
  Take take{datagram};
  const auto bth = take.next<Bth>();
  RoceFrame frame;
  frame.opcode = static_cast<BthOpcode>(bth.opcode);
  const std::optional<HeaderLayout> layout = layout_of(frame.opcode);
  if (!layout || (bth.flags & kVersionMask) != 0) return std::nullopt;
  const size_t headers = layout->bytes();
  const uint32_t pad = bth.flags >> 4 & 3;
  if (bytes < headers + pad + kIcrcBytes) return std::nullopt;
  const size_t payload = bytes - headers - pad - kIcrcBytes;
  if (payload > kMostPayload || (!layout->payload && payload + pad != 0)) return std::nullopt;
  frame.solicited = (bth.flags & kSolicitedEvent) != 0;
  frame.asks_ack = (bth.psn.host() & kAskForAck) != 0;
  frame.pkey = bth.pkey.host();
  frame.qpn = bth.destination.host() & kNumber;
  frame.psn = bth.psn.host() & kNumber;
  if (layout->deth) {
    const auto header = take.next<Deth>();
    frame.qkey = header.qkey.host();
    frame.source = header.source.host() & kNumber;
  }
  if (layout->reth) {
    const auto header = take.next<Reth>();
    frame.address = header.address.host();
    frame.rkey = header.rkey.host();
    frame.length = header.length.host();
  }
  if (layout->aeth) {
    const uint32_t word = take.next<Aeth>().syndrome_msn.host();
    frame.syndrome = static_cast<uint8_t>(word >> 24);
    frame.msn = word & kNumber;
  }
  if (layout->atomic) take_atomic(layout->masks, take, frame);
  if (layout->original) frame.original = take.next<AtomicAckEth>().original.host();
  if (layout->immediate) frame.immediate = take.next<uint32_t>();
  frame.data = datagram + headers;
  frame.bytes = static_cast<uint32_t>(payload);
  return frame;
}

}  // namespace peal::softnic::roce
