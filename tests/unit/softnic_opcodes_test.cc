// SPDX-License-Identifier: Apache-2.0
//
// Every opcode the NIC serves, posted by hand to a queue pair connected to itself: what memory and
// completion look like afterwards.
#include "tests/unit/softnic_support.h"

namespace peal::softnic::testing {

using Opcodes = SoftNic;

TEST_F(Opcodes, NopCompletesAndTouchesNothing) {
  auto qp = make_loop();
  const SeenCqe cqe = run(*qp, nop());
  EXPECT_EQ(cqe.kind, CqeOpcode::kRequester);
  EXPECT_EQ(cqe.qpn, qp->qpn);
  EXPECT_EQ(cqe.counter, 0);
  EXPECT_EQ(cqe.wqe_opcode, 0);
  EXPECT_EQ(cqe.user_index, 0x123u);
}

TEST_F(Opcodes, InlineWriteStoresItsBytes) {
  auto qp = make_loop();
  Region target(*nic, pd, 4096);
  const SeenCqe cqe = run(*qp, write_inline<uint64_t>(64, target.key, 0x1122334455667788));
  EXPECT_EQ(cqe.kind, CqeOpcode::kRequester);
  EXPECT_EQ(cqe.wqe_opcode, 0x08);
  EXPECT_EQ(target.load<uint64_t>(64), 0x1122334455667788u);
  EXPECT_EQ(target.load<uint64_t>(56), 0u);
  EXPECT_EQ(target.load<uint64_t>(72), 0u);
}

}  // namespace peal::softnic::testing
