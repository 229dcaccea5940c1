// SPDX-License-Identifier: Apache-2.0
//
// Work queue entry bytes -> Request, or the local error a ConnectX would report.
//
//   control | [address vector] | [remote address] | [atomic operands] | data segments
//
// Fields that mean nothing for an opcode are not looked at: clients leave garbage there. The ring
// belongs to the client and may change under the reader, so each segment is copied out once.
#pragma once

#include <cstdint>
#include <cstring>

#include "device/mlx5/layout.h"
#include "softnic/engine/keys.h"
#include "softnic/engine/objects.h"
#include "softnic/engine/word.h"

namespace peal::softnic {

using ViolationCount = uint64_t Violations::*;

/// Why a WQE cannot be executed; `count` is the counter of Violations it belongs to, or null.
struct Fault {
  mlx5::Syndrome syndrome = mlx5::Syndrome::kNone;
  ViolationCount count = nullptr;
  PEAL_HD bool ok() const { return syndrome == mlx5::Syndrome::kNone; }
};

inline constexpr uint32_t kUnitsPerBlock = mlx5::kWqebbBytes / mlx5::kSegmentBytes;
inline constexpr uint64_t kWholeSegment = 1ull << 31;  // byte_count 0

PEAL_HD Fault malformed() { return {mlx5::Syndrome::kLocalQpOperation, &Violations::malformed}; }

PEAL_HD uint32_t blocks_of(uint32_t units) { return (units + kUnitsPerBlock - 1) / kUnitsPerBlock; }

/// The ring as the engine reads it: the client's, or what it has fetched of one in a GPU's memory.
PEAL_HD std::byte* ring_of(const QueuePair& qp) {
  return in_gpu(qp.send_buffer) ? qp.fetched : qp.send_buffer;
}

/// Byte `offset` of the WQE at block `index`, which may lie beyond the ring's end.
PEAL_HD std::byte* wqe_byte(const QueuePair& qp, uint64_t index, uint32_t offset) {
  const uint64_t ring_bytes = uint64_t{qp.send_blocks} * mlx5::kWqebbBytes;
  return ring_of(qp) + ((index * mlx5::kWqebbBytes + offset) & (ring_bytes - 1));
}

/// Fetches `count` blocks that were posted, from block `index` on, where the engine cannot read
/// them in their ring: once, when they are rung, as a NIC with room for all of them would.
PEAL_HD void fetch_blocks(const QueuePair& qp, uint64_t index, uint32_t count) {
  if (!in_gpu(qp.send_buffer)) return;
  const uint32_t slot = static_cast<uint32_t>(index) & (qp.send_blocks - 1);
  const uint32_t before_end = qp.send_blocks - slot;
  const uint32_t first = count < before_end ? count : before_end;
  const size_t at = size_t{slot} * mlx5::kWqebbBytes;
  copy_by_gpu(qp.fetched + at, qp.send_buffer + at, size_t{first} * mlx5::kWqebbBytes,
              first < count);
  if (first == count) return;
  copy_by_gpu(qp.fetched, qp.send_buffer, size_t{count - first} * mlx5::kWqebbBytes);
}

/// One 16-byte segment of the WQE, copied out. A segment never straddles the ring's end.
template <class Segment>
PEAL_HD Segment read_segment(const QueuePair& qp, uint64_t index, uint32_t unit) {
  static_assert(sizeof(Segment) == mlx5::kSegmentBytes);
  Segment segment = {};
  copy_bytes(&segment, wqe_byte(qp, index, unit * mlx5::kSegmentBytes), sizeof(segment));
  return segment;
}

/// One entry of a data list.
struct DataItem {
  bool is_inline;
  uint32_t units;  // taken in the WQE
  uint64_t bytes;  //
  uint32_t lkey;   // when not inline
  uint64_t address;
};

PEAL_HD DataItem read_data(const QueuePair& qp, uint64_t index, uint32_t unit) {
  const auto segment = read_segment<mlx5::DataSegment>(qp, index, unit);
  const uint32_t count = segment.byte_count.host();
  DataItem item;
  item.is_inline = (count & mlx5::kInlineFlag) != 0;
  item.bytes = count & ~mlx5::kInlineFlag;
  if (item.is_inline) {
    item.units = static_cast<uint32_t>((item.bytes + sizeof(mlx5::InlineHeader) + 15) / 16);
  } else {
    item.units = 1;
    if (item.bytes == 0) item.bytes = kWholeSegment;
    item.lkey = segment.lkey.host();
    item.address = segment.address.host();
  }
  return item;
}

/// The memory behind a data segment from `inside` bytes on, as far as it lies together. None: key
/// unknown, another domain, right missing, outside.
PEAL_HD MemoryRun local_run(const Port& port, uint32_t pd, const DataItem& item, uint64_t inside,
                            uint32_t access) {
  const Key* key = find_key(port, item.lkey);
  if (!grants(key, pd, access)) return {};
  return run_of(port, *key, {item.address, item.bytes, access}, inside);
}

/// All of a data segment is there.
PEAL_HD bool is_reachable(const Port& port, uint32_t pd, const DataItem& item, uint32_t access) {
  const Key* key = find_key(port, item.lkey);
  return grants(key, pd, access) && reaches(port, *key, {item.address, item.bytes, access});
}

/// Adds up the data list and checks it: shape first, then length, then keys.
PEAL_HD Fault measure(const Port& port, const QueuePair& qp, uint64_t index, Request& request) {
  const bool scatters = request.fetches();
  const uint32_t access = scatters ? static_cast<uint32_t>(kLocalWrite) : 0;
  bool reachable = true;
  request.bytes = 0;
  for (uint32_t unit = request.data_unit; unit < request.units;) {
    const DataItem item = read_data(qp, index, unit);
    if (item.is_inline) {
      if (scatters || request.opcode == mlx5::Opcode::kDump) return malformed();
      if (item.units > request.units - unit) return malformed();
    } else if (!is_reachable(port, qp.pd, item, access)) {
      reachable = false;
    }
    request.bytes += item.bytes;
    unit += item.units;
  }
  if (request.bytes > 1ull << qp.attributes.log_max_message) {
    return {mlx5::Syndrome::kLocalLength, nullptr};
  }
  if (!reachable) return {mlx5::Syndrome::kLocalProtection, nullptr};
  return {};
}

/// The long form of the address in the WQE at block `index`.
PEAL_HD AddressVector read_address(const QueuePair& qp, uint64_t index) {
  AddressVector vector;
  for (uint32_t unit = 0; unit < kAddressUnits; ++unit) {
    const auto piece = read_segment<mlx5::DataSegment>(qp, index, 1 + unit);
    memcpy(reinterpret_cast<std::byte*>(&vector) + unit * sizeof(piece), &piece, sizeof(piece));
  }
  return vector;
}

/// Reads the address vector; answers the units it takes, 0 when it is cut short, or names nobody:
/// on Ethernet the short form does.
PEAL_HD uint32_t read_address_vector(const QueuePair& qp, uint64_t index, Request& request) {
  if (request.units < 2) return 0;
  const auto head = read_segment<mlx5::CompactAddressVector>(qp, index, 1);
  const uint32_t lid_and_level = head.rate_sl_mlid_rlid.host();
  const bool ethernet = qp.attributes.network != Network::kInfiniBand;
  const bool extended = (head.ext_dqp_dct.host() >> 31) != 0;
  request.dc_key = head.dc_key.host();
  request.dc_target = head.ext_dqp_dct.host() & 0xffffff;
  request.dc_lid = static_cast<uint16_t>(lid_and_level);
  request.service_level = static_cast<uint8_t>(lid_and_level >> 24 & 0xf);
  request.global = request.routed = false;
  if (!extended) return ethernet ? 0 : 1;
  if (request.units < 1 + kAddressUnits) return 0;
  const AddressVector vector = read_address(qp, index);
  request.global = has_grh(vector);
  request.routed = request.global || ethernet;
  if (ethernet) request.dc_lid = lid_behind_mac(vector);
  return kAddressUnits;
}

/// Reads the operands of an atomic that start at `unit`; answers the bytes it moves, 0 if
/// malformed. `read.template operator()<Segment>(unit)` fetches a segment.
template <class Read>
PEAL_HD uint32_t read_operands(const Read& read, uint32_t unit, Request& request) {
  using mlx5::Opcode;
  AtomicOperands& operands = request.operands;
  const bool compares = request.opcode == Opcode::kAtomicMaskedCompareSwap;
  if (request.opcode == Opcode::kAtomicCompareSwap || request.opcode == Opcode::kAtomicFetchAdd) {
    const auto segment = read.template operator()<mlx5::AtomicSegment>(unit);
    operands = {segment.swap_or_add.host(), segment.compare.host(), ~0ull, ~0ull};
    if (request.opcode == Opcode::kAtomicFetchAdd) operands.compare_mask = 0;
    request.data_unit = static_cast<uint8_t>(unit + 1);
    return 8;
  }
  if (request.opmod == mlx5::kOpmodAtomic4) {
    if (compares) {
      const auto segment = read.template operator()<mlx5::MaskedCompareSwap4Segment>(unit);
      operands = {segment.swap.host(), segment.compare.host(), segment.swap_mask.host(),
                  segment.compare_mask.host()};
    } else {
      const auto segment = read.template operator()<mlx5::MaskedFetchAdd4Segment>(unit);
      operands = {segment.add.host(), 0, 0, segment.field_boundary.host()};
    }
    request.data_unit = static_cast<uint8_t>(unit + 1);
    return 4;
  }
  if (request.opmod != mlx5::kOpmodAtomic8) return 0;
  if (compares) {
    if (request.units < unit + 2) return 0;
    const auto values = read.template operator()<mlx5::MaskedCompareSwap8Segment>(unit);
    const auto masks = read.template operator()<mlx5::MaskedCompareSwap8Segment>(unit + 1);
    operands = {values.swap.host(), values.compare.host(), masks.swap.host(), masks.compare.host()};
  } else {
    const auto segment = read.template operator()<mlx5::MaskedFetchAdd8Segment>(unit);
    operands = {segment.add.host(), 0, 0, segment.field_boundary.host()};
  }
  request.data_unit = static_cast<uint8_t>(unit + (compares ? 2 : 1));
  return 8;
}

/// Everything after the control segment, for opcodes that address a peer.
PEAL_HD Fault decode_remote(const Port& port, const QueuePair& qp, uint64_t index,
                            Request& request) {
  uint32_t unit = 1;
  if (qp.service == Service::kDatagram) return malformed();
  if (qp.service == Service::kDcInitiator) {
    const uint32_t taken = read_address_vector(qp, index, request);
    if (taken == 0) return malformed();
    unit += taken;
  }
  if (request.units < unit + 1) return malformed();
  const auto remote = read_segment<mlx5::RemoteAddressSegment>(qp, index, unit++);
  request.address = remote.address.host();
  request.rkey = remote.rkey.host();
  request.data_unit = static_cast<uint8_t>(unit);
  if (!request.is_atomic()) return measure(port, qp, index, request);
  if (request.units < unit + 1) return malformed();
  const auto read = [&]<class Segment>(uint32_t at) {
    return read_segment<Segment>(qp, index, at);
  };
  const uint32_t operand_bytes = read_operands(read, unit, request);
  if (operand_bytes == 0) return malformed();
  const Fault fault = measure(port, qp, index, request);
  if (!fault.ok() && fault.syndrome != mlx5::Syndrome::kLocalProtection) return fault;
  return request.bytes == operand_bytes ? fault : malformed();
}

/// SEND: the peer's receive entry says where.
PEAL_HD Fault decode_send(const Port& port, const QueuePair& qp, uint64_t index, Request& request) {
  request.address = 0;
  request.rkey = 0;
  request.data_unit = 1;
  request.service_level = 0;
  if (qp.service == Service::kDcInitiator || qp.service == Service::kDatagram) {
    const uint32_t taken = read_address_vector(qp, index, request);
    if (taken == 0) return malformed();
    request.data_unit = static_cast<uint8_t>(1 + taken);
  }
  return measure(port, qp, index, request);
}

/// Opcodes that stay at home: WAIT, DUMP, NOP.
PEAL_HD Fault decode_local(const Port& port, const QueuePair& qp, uint64_t index,
                           Request& request) {
  request.data_unit = request.units;
  request.bytes = 0;
  if (request.opcode == mlx5::Opcode::kNop) return {};
  if (request.units != 2) return malformed();
  if (request.opcode == mlx5::Opcode::kDump) {
    request.data_unit = 1;
    return measure(port, qp, index, request);
  }
  const auto segment = read_segment<mlx5::WaitSegment>(qp, index, 1);
  request.wait_index = segment.max_index.host();
  request.wait_cqn = segment.cqn.host() & 0xffffff;
  return request.opmod == 0 ? Fault{} : malformed();
}

/// Decodes the WQE at block `index` of the send queue. `request.blocks` is meaningful even when a
/// fault is answered: the blocks to skip.
PEAL_HD Fault decode(const Port& port, const QueuePair& qp, uint64_t index, uint64_t posted,
                     Request& request) {
  using mlx5::Opcode;
  const auto control = read_segment<mlx5::ControlSegment>(qp, index, 0);
  const uint32_t head = control.opmod_idx_opcode.host();
  const uint32_t qpn_ds = control.qpn_ds.host();
  const uint32_t modes = control.signature_fm_ce_se.host();
  request.opcode = static_cast<Opcode>(head & 0xff);
  request.opmod = static_cast<uint8_t>(head >> 24);
  request.units = static_cast<uint8_t>(qpn_ds & 0x3f);
  request.blocks = static_cast<uint8_t>(request.units == 0 ? 1 : blocks_of(request.units));
  request.completion = static_cast<mlx5::Completion>(modes & 0x0c);
  request.fence = static_cast<mlx5::Fence>(modes & 0xe0);
  request.solicited = (modes & 2) != 0;
  request.immediate = control.imm.raw;

  if (((head >> 8) & 0xffff) != (index & 0xffff)) {
    return {mlx5::Syndrome::kLocalQpOperation, &Violations::index};
  }
  if ((qpn_ds >> 8) != qp.qpn) {
    return {mlx5::Syndrome::kLocalQpOperation, &Violations::foreign_qpn};
  }
  if (request.units == 0 || (modes & 0xe0) > static_cast<uint32_t>(mlx5::Fence::kFenceAndSmall)) {
    return malformed();
  }
  if (request.blocks > posted - index) {
    return {mlx5::Syndrome::kLocalQpOperation, &Violations::truncated};
  }
  switch (request.opcode) {
    case Opcode::kNop:
    case Opcode::kWait:
    case Opcode::kDump:
      return decode_local(port, qp, index, request);
    case Opcode::kRdmaWrite:
    case Opcode::kRdmaWriteImm:
    case Opcode::kRdmaRead:
    case Opcode::kAtomicCompareSwap:
    case Opcode::kAtomicFetchAdd:
    case Opcode::kAtomicMaskedCompareSwap:
    case Opcode::kAtomicMaskedFetchAdd:
      return decode_remote(port, qp, index, request);
    case Opcode::kSend:
    case Opcode::kSendImm:
      return decode_send(port, qp, index, request);
    default:
      return malformed();
  }
}

/// The place in the data list that is `offset` bytes into it.
PEAL_HD Cursor seek(const QueuePair& qp, const Request& request, uint64_t index, uint32_t offset) {
  Cursor cursor = {request.data_unit, 0};
  while (cursor.unit < request.units) {
    const DataItem item = read_data(qp, index, cursor.unit);
    if (offset < item.bytes) break;
    offset -= static_cast<uint32_t>(item.bytes);
    cursor.unit += item.units;
  }
  cursor.inside = offset;
  return cursor;
}

/// Collects up to `limit` bytes of the data list from `cursor` on, and moves the cursor. False when
/// a key has gone or the list changed since it was checked.
PEAL_HD bool gather(const Port& port, const QueuePair& qp, const Request& request, uint64_t index,
                    uint32_t limit, Cursor& cursor, Payload& payload) {
  const uint32_t ring_bytes = qp.send_blocks * mlx5::kWqebbBytes;
  while (payload.bytes < limit && cursor.unit < request.units && !payload.full()) {
    const DataItem item = read_data(qp, index, cursor.unit);
    if (item.bytes < cursor.inside) return false;
    uint64_t take = item.bytes - cursor.inside;
    if (take > limit - payload.bytes) take = limit - payload.bytes;
    if (item.is_inline) {
      if (item.units > request.units - cursor.unit) return false;
      const uint32_t start = cursor.unit * mlx5::kSegmentBytes +
                             static_cast<uint32_t>(sizeof(mlx5::InlineHeader)) + cursor.inside;
      const std::byte* from = wqe_byte(qp, index, start);
      const uint64_t contiguous = ring_bytes - static_cast<uint64_t>(from - ring_of(qp));
      if (take > contiguous) take = contiguous;
      payload.append(from, static_cast<uint32_t>(take));
    } else {
      const MemoryRun run = local_run(port, qp.pd, item, cursor.inside, 0);
      if (run.memory == nullptr) return false;
      if (take > run.bytes) take = run.bytes;
      payload.append(run.memory, static_cast<uint32_t>(take));
    }
    cursor.inside += static_cast<uint32_t>(take);
    if (cursor.inside == item.bytes) cursor = {cursor.unit + item.units, 0};
  }
  return true;
}

/// A data list that receives: which segments of which WQE. One of no bytes is behind the last.
struct ScatterList {
  const QueuePair& qp;
  uint64_t index;
  uint32_t data_unit;
  uint32_t units;

  PEAL_HD DataItem operator()(uint32_t at) const {
    return data_unit + at < units ? read_data(qp, index, data_unit + at) : DataItem{};
  }
};

/// Stores bytes of a data list at once.
struct PlaceNow {
  PEAL_HD void operator()(std::byte* to, const DataItem&, uint64_t, const std::byte* from,
                          uint64_t bytes) const {
    place(to, from, bytes);
  }
};

/// Spreads `bytes` bytes over a data list, `offset` bytes into it: `item_at(0)` and so on, one of
/// no bytes behind the last. `store` is told where in memory, and how far into which item. False
/// when the list does not allow it (any more).
template <class ItemAt, class Store = PlaceNow>
PEAL_HD bool scatter(const Port& port, uint32_t pd, const ItemAt& item_at, uint64_t offset,
                     const std::byte* from, uint64_t bytes, const Store& store = {}) {
  for (uint32_t at = 0; bytes > 0; ++at) {
    const DataItem item = item_at(at);
    if (item.is_inline || item.bytes == 0) return false;
    if (offset >= item.bytes) {
      offset -= item.bytes;
      continue;
    }
    do {
      const MemoryRun run = local_run(port, pd, item, offset, kLocalWrite);
      if (run.memory == nullptr) return false;
      const uint64_t take = run.bytes < bytes ? run.bytes : bytes;
      store(run.memory, item, offset, from, take);
      from += take;
      bytes -= take;
      offset += take;
    } while (bytes > 0 && offset < item.bytes);
    offset = 0;
  }
  return true;
}

}  // namespace peal::softnic
