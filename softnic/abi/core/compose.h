// SPDX-License-Identifier: Apache-2.0
//
// Segments from verbs structures, for all ways to post: lists of requests (verbs_post.cc,
// verbs_srq.cc) and requests put together call by call (verbs_wr.cc). Pieces of no bytes go into no
// queue: a byte count of 0 means 2^31 there.
#pragma once

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <span>

#include "device/mlx5/layout.h"
#include "softnic/abi/core/send_queue.h"

namespace peal::softnic::abi {

inline mlx5::DataSegment data_segment(const ibv_sge& sge) {
  return {Be32(sge.length), Be32(sge.lkey), Be64(sge.addr)};
}

/// EINVAL when the list is longer than `limit`, or a piece than a data segment can say.
inline int check_list(std::span<const ibv_sge> list, uint32_t limit) {
  if (list.size() > limit) return EINVAL;
  for (const ibv_sge& sge : list)
    if (sge.length >= mlx5::kInlineFlag) return EINVAL;
  return 0;
}

inline void add_list(std::span<const ibv_sge> list, WqeWriter& wqe) {
  for (const ibv_sge& sge : list)
    if (sge.length > 0) wqe.add(data_segment(sge));
}

inline constexpr size_t kAddressAt = mlx5::kSegmentBytes;  // behind the control segment

/// Adds to a datagram's address vector the queue pair that it goes to, and the Q_Key.
inline mlx5_wqe_av datagram_address(mlx5_wqe_av vector, uint32_t qpn, uint32_t qkey) {
  constexpr uint32_t kLong = 1u << 31;
  vector.key.qkey.qkey = Be32(qkey).raw;
  vector.dqp_dct = Be32(kLong | (qpn & 0xffffff)).raw;
  return vector;
}

inline std::span<const std::byte> bytes_of(const ibv_sge& sge) {
  return {reinterpret_cast<const std::byte*>(sge.addr), sge.length};
}
inline std::span<const std::byte> bytes_of(const ibv_data_buf& buffer) {
  return {static_cast<const std::byte*>(buffer.addr), buffer.length};
}

/// Copies the pieces into the WQE. ENOMEM, what the real provider answers, beyond `limit` bytes.
template <class Piece>
int add_inline(std::span<const Piece> pieces, uint32_t limit, WqeWriter& wqe) {
  uint64_t total = 0;
  for (const Piece& piece : pieces) {
    if (bytes_of(piece).size() > limit) return ENOMEM;
    total += bytes_of(piece).size();
  }
  if (total > limit) return ENOMEM;
  if (total == 0) return 0;
  const mlx5::InlineHeader header{Be32(static_cast<uint32_t>(total) | mlx5::kInlineFlag)};
  wqe.append(&header, sizeof header);
  for (const Piece& piece : pieces)
    if (!bytes_of(piece).empty()) wqe.append(bytes_of(piece).data(), bytes_of(piece).size());
  wqe.pad();
  return 0;
}

inline bool is_atomic(mlx5::Opcode opcode) {
  return opcode == mlx5::Opcode::kAtomicCompareSwap || opcode == mlx5::Opcode::kAtomicFetchAdd;
}

/// The peer answers with data: no inline data.
inline bool fetches(mlx5::Opcode opcode) {
  return opcode == mlx5::Opcode::kRdmaRead || is_atomic(opcode);
}

// ---- lists of requests

/// The caller's list, or false when it is longer or larger than the queue's entries.
template <class Request>
bool list_of(const Request& request, uint32_t limit, std::span<const ibv_sge>* list) {
  if (request.num_sge < 0) return false;
  *list = {request.sg_list, static_cast<size_t>(request.num_sge)};
  return check_list(*list, limit) == 0;
}

/// One entry of a queue pair's own ring or of a shared queue.
template <class Queue>
int post_receive(Queue& queue, const ibv_recv_wr& wr) {
  if (queue.full()) return ENOMEM;
  std::span<const ibv_sge> list;
  if (!list_of(wr, queue.segments(), &list)) return EINVAL;
  std::byte* at = queue.slot();
  uint32_t used = 0;
  const auto put = [&](const mlx5::DataSegment& segment) {
    std::memcpy(at + used++ * mlx5::kSegmentBytes, &segment, sizeof segment);
  };
  for (const ibv_sge& sge : list)
    if (sge.length > 0) put(data_segment(sge));
  if (used < queue.segments()) put({Be32(0), Be32(mlx5::kInvalidLkey), Be64(0)});
  queue.finish(wr.wr_id);
  return 0;
}

/// Names the refused request.
template <class Request>
int refused(int error, Request* wr, Request** bad) {
  if (bad != nullptr) *bad = wr;
  return errno = error;
}

/// Posts the list up to its first refusal, which goes to `bad`, and rings for what was posted.
template <class Queue, class Request>
int post_list(Queue& queue, Request* wr, Request** bad, const auto& post) {
  const std::lock_guard hold(queue.lock());
  int error = 0;
  for (; wr != nullptr; wr = wr->next) {
    error = post(*wr);
    if (error != 0) break;
  }
  queue.ring();
  return error == 0 ? 0 : refused(error, wr, bad);
}

}  // namespace peal::softnic::abi
