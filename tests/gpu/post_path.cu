// SPDX-License-Identifier: Apache-2.0
//
// What a put on an exclusively owned queue costs, alone in a kernel: post_path_test.py reads its
// PTX. Only the queue's part: how the peer is found is the same for every kind of context.
#include "device/transport/ibgda.h"

namespace {

using namespace peal;

struct Message {
  mlx5::Remote to;
  mlx5::Local from;
  uint32_t bytes;
  uint32_t payload[3];
};

}  // namespace

extern "C" PEAL_KERNEL post_write(mlx5::SendQueue* queue, Message m, Ticket* ticket) {
  *ticket = ibgda::post<Reach::kLane>(*queue, ibgda::Alone{}, [&](const mlx5::Header& h) {
    return mlx5::compose_write(h, m.to, m.from, m.bytes);
  });
}

extern "C" PEAL_KERNEL post_inline(mlx5::SendQueue* queue, Message m, Ticket* ticket) {
  *ticket = ibgda::post<Reach::kLane>(*queue, ibgda::Alone{}, [&](const mlx5::Header& h) {
    return mlx5::compose_write_inline(h, m.to, m.payload, m.bytes);
  });
}
