// SPDX-License-Identifier: Apache-2.0
//
// What a put on an exclusively owned queue costs, alone in a kernel: post_path_test.py reads its
// PTX. Only the queue's part: how the peer is found is the same for every kind of context.
#include "device/nic/post.h"
#include "device/transport/model.h"

namespace {

using namespace peal;

struct Message {
  nic::Remote to;
  nic::Local from;
  uint32_t bytes;
  uint32_t payload[3];
};

}  // namespace

extern "C" PEAL_KERNEL post_write(SendQueue* queue, Message m, Ticket* ticket) {
  *ticket = nic::post<Reach::kLane>(*queue, nic::Alone{}, nic::Write{m.to, m.from, m.bytes});
}

extern "C" PEAL_KERNEL post_inline(SendQueue* queue, Message m, Ticket* ticket) {
  *ticket =
      nic::post<Reach::kLane>(*queue, nic::Alone{}, nic::write_inline(m.to, m.payload, m.bytes));
}
