// SPDX-License-Identifier: Apache-2.0
//
// The command interpreter: what firmware accepts, and each way it refuses.
#include <sys/mman.h>

#include <cstring>

#include "tests/unit/softnic/abi/support.h"

namespace peal::softnic::abi_test {
namespace {

constexpr uint32_t kBadOperation = 0x02;
constexpr uint32_t kBadParameter = 0x03;
constexpr uint32_t kBadResource = 0x05;
constexpr uint32_t kBadQpState = 0x10;
constexpr uint32_t kBadInputLength = 0x50;
constexpr uint32_t kBadOutputLength = 0x51;

using SoftnicAbiCq = SoftnicAbi;

TEST_F(SoftnicAbiCq, IsCreatedQueriedAndDestroyed) {
  Mailbox in = cq_command();
  in.set(kCqc + 0, 20, 20, 1);  // collapsed
  mlx5dv_devx_obj* cq = create(in);
  ASSERT_NE(cq, nullptr) << out.status();
  EXPECT_EQ(out.status(), 0u);
  uint32_t cqn = out.number();
  EXPECT_NE(cqn, 0u);
  Mailbox answer = query(cq, 0x402, cqn, 272);
  EXPECT_EQ(answer.get(kCqc + 3, 28, 24), 4u);
  EXPECT_EQ(answer.get(kCqc + 3, 23, 0), uar->page_id);
  EXPECT_EQ(answer.get(kCqc + 0, 20, 20), 1u);
  EXPECT_EQ(answer.get(kCqc + 0, 17, 17), 1u);
  EXPECT_EQ(answer.get(kCqc + 11, 23, 0), 0u);
  EXPECT_EQ(mlx5dv_devx_obj_destroy(cq), 0);
}

TEST_F(SoftnicAbiCq, AcceptsPagesAfterItsContext) {
  Mailbox in = cq_command();
  in.resize(272 + 16);
  EXPECT_NE(create(in), nullptr);
}

TEST_F(SoftnicAbiCq, RefusesAShortCommand) {
  Mailbox in = cq_command();
  in.resize(268);
  expect_refused(in, kBadInputLength, EIO);
}

TEST_F(SoftnicAbiCq, RefusesALengthThatIsNoWholePageEntry) {
  Mailbox in = cq_command();
  in.resize(276);
  expect_refused(in, kBadInputLength, EIO);
}

TEST_F(SoftnicAbiCq, RefusesAnUnknownUmem) {
  expect_refused(cq_command().set(0x58 / 4, 31, 0, 0xdead), kBadResource, EINVAL);
}

TEST_F(SoftnicAbiCq, RefusesAnUnknownDoorbellUmem) {
  expect_refused(cq_command().set(kCqc + 1, 31, 0, 0xdead), kBadResource, EINVAL);
}

TEST_F(SoftnicAbiCq, RefusesEntriesBeyondTheUmem) {
  expect_refused(cq_command().set(kCqc + 3, 28, 24, 9), kBadParameter, EINVAL);
}

TEST_F(SoftnicAbiCq, RefusesAnOffsetBeyondTheUmem) {
  expect_refused(cq_command().set(0x50 / 4, 31, 0, 1), kBadParameter, EINVAL);
}

TEST_F(SoftnicAbiCq, RefusesAMisalignedBuffer) {
  expect_refused(cq_command().set(0x54 / 4, 31, 0, 32), kBadParameter, EINVAL);
}

TEST_F(SoftnicAbiCq, RefusesAMisalignedDoorbellRecord) {
  expect_refused(cq_command().set(kCqc + 15, 31, 0, kRecordOffset + 4), kBadParameter, EINVAL);
}

TEST_F(SoftnicAbiCq, RefusesADoorbellRecordBeyondTheUmem) {
  expect_refused(cq_command().set(kCqc + 15, 31, 0, kUmemBytes), kBadParameter, EINVAL);
}

TEST_F(SoftnicAbiCq, RefusesEntriesInReadOnlyMemory) {
  void* page = mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mlx5dv_devx_umem* read_only = mlx5dv_devx_umem_reg(context, page, kPage, 0);
  ASSERT_NE(read_only, nullptr);
  Mailbox in = cq_command().set(0x58 / 4, 31, 0, read_only->umem_id);
  EXPECT_EQ(create(in), nullptr);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_EQ(mlx5dv_devx_umem_dereg(read_only), 0);
  munmap(page, kPage);
}

TEST_F(SoftnicAbiCq, RefusesTooManyEntries) {
  expect_refused(cq_command().set(kCqc + 3, 28, 24, 23), kBadParameter, EINVAL);
}

TEST_F(SoftnicAbiCq, RefusesAnUnknownEntrySize) {
  expect_refused(cq_command().set(kCqc + 0, 23, 21, 2), kBadParameter, EINVAL);
}

TEST_F(SoftnicAbiCq, RefusesCompression) {
  expect_refused(cq_command().set(kCqc + 0, 14, 14, 1), kBadParameter, EINVAL);
}

TEST_F(SoftnicAbiCq, RefusesAnUnknownUarPage) {
  expect_refused(cq_command().set(kCqc + 3, 23, 0, 0xabcdef), kBadResource, EINVAL);
}

TEST_F(SoftnicAbiCq, RefusesAnUnknownEventQueue) {
  expect_refused(cq_command().set(kCqc + 5, 7, 0, eqn + 1), kBadResource, EINVAL);
}

TEST_F(SoftnicAbiCq, KeepsItsModeration) {
  Mailbox in = cq_command();
  mlx5dv_devx_obj* cq = create(in);
  uint32_t cqn = out.number();
  Mailbox moderate(272, 0x403);
  moderate.set(2, 23, 0, cqn).set(3, 31, 0, 3).set(kCqc + 4, 27, 16, 9).set(kCqc + 4, 15, 0, 5);
  EXPECT_EQ(modify(cq, moderate), 0);
  Mailbox answer = query(cq, 0x402, cqn, 272);
  EXPECT_EQ(answer.get(kCqc + 4, 27, 16), 9u);
  EXPECT_EQ(answer.get(kCqc + 4, 15, 0), 5u);
  EXPECT_EQ(modify(cq, moderate.set(1, 15, 0, 1)), EINVAL);  // resize
  EXPECT_EQ(out.status(), kBadOperation);
}

/// A CQ to start from, and the queue pair that most tests use.
class SoftnicAbiQp : public SoftnicAbi {
 protected:
  void SetUp() override {
    SoftnicAbi::SetUp();
    Mailbox in = cq_command();
    cq = create(in);
    ASSERT_NE(cq, nullptr);
    cqn = out.number();
  }
  void create_qp() {
    Mailbox in = qp_command(cqn);
    qp = create(in);
    ASSERT_NE(qp, nullptr) << out.status() << " " << out.syndrome();
    qpn = out.number();
  }
  uint32_t state() { return query(qp, 0x50b, qpn, 272).get(kQpc, 31, 28); }
  void to_ready() {
    ASSERT_EQ(modify(qp, to_init(qpn)), 0);
    ASSERT_EQ(modify(qp, to_rtr(qpn, qpn)), 0);
    ASSERT_EQ(modify(qp, to_rts(qpn)), 0);
  }

  mlx5dv_devx_obj* cq = nullptr;
  mlx5dv_devx_obj* qp = nullptr;
  uint32_t cqn = 0;
  uint32_t qpn = 0;
};

TEST_F(SoftnicAbiQp, AnswersItsContextInReset) {
  create_qp();
  Mailbox answer = query(qp, 0x50b, qpn, 272);
  EXPECT_EQ(answer.get(kQpc, 31, 28), 0u);
  EXPECT_GE(answer.get(kQpc + 2, 31, 29), 1u);  // mtu: a code even now
  EXPECT_LE(answer.get(kQpc + 2, 31, 29), 5u);
  EXPECT_EQ(answer.get(kQpc + 1, 23, 0), pdn_of(pd));
  EXPECT_EQ(answer.get(kQpc + 2, 14, 11), 4u);
  EXPECT_EQ(answer.get(kQpc + 31, 23, 0), cqn);
  EXPECT_EQ(answer.get(kQpc + 43, 26, 24), 3u);
}

TEST_F(SoftnicAbiQp, WalksToReadyToSend) {
  create_qp();
  to_ready();
  Mailbox answer = query(qp, 0x50b, qpn, 272);
  EXPECT_EQ(answer.get(kQpc, 31, 28), 3u);
  EXPECT_EQ(answer.get(kQpc + 2, 31, 29), 5u);
  EXPECT_EQ(answer.get(kQpc + 5, 23, 0), qpn);
  EXPECT_EQ(answer.get(kQpc + 7, 15, 0), lid());
  EXPECT_EQ(answer.get(kQpc + 8, 31, 27), 14u);
  EXPECT_EQ(answer.get(kQpc + 28, 23, 21), 4u);
  EXPECT_EQ(answer.get(kQpc + 28, 18, 16), 7u);
  EXPECT_EQ(answer.get(kQpc + 36, 15, 13), 7u);
  EXPECT_EQ(answer.get(kQpc + 36, 19, 16), 3u);
  EXPECT_EQ(answer.get(kQpc + 37, 28, 24), 12u);
}

TEST_F(SoftnicAbiQp, GoesToErrorAndBackToReset) {
  create_qp();
  to_ready();
  EXPECT_EQ(modify(qp, Mailbox(16, 0x507).set(2, 23, 0, qpn)), 0);
  EXPECT_EQ(state(), 6u);
  EXPECT_EQ(modify(qp, Mailbox(16, 0x50a).set(2, 23, 0, qpn)), 0);
  EXPECT_EQ(state(), 0u);
  to_ready();
  EXPECT_EQ(state(), 3u);
}

TEST_F(SoftnicAbiQp, MayStayInInitAndInReadyToSend) {
  create_qp();
  ASSERT_EQ(modify(qp, to_init(qpn)), 0);
  Mailbox again(272, 0x50e);
  EXPECT_EQ(modify(qp, again.set(2, 23, 0, qpn)), 0);
  ASSERT_EQ(modify(qp, to_rtr(qpn, qpn)), 0);
  ASSERT_EQ(modify(qp, to_rts(qpn)), 0);
  Mailbox same(272, 0x505);
  EXPECT_EQ(modify(qp, same.set(2, 23, 0, qpn)), 0);
  EXPECT_EQ(query(qp, 0x50b, qpn, 272).get(kQpc + 36, 15, 13), 7u);
}

TEST_F(SoftnicAbiQp, RefusesTransitionsOutOfOrder) {
  create_qp();
  EXPECT_EQ(modify(qp, to_rtr(qpn, qpn)), EINVAL);
  EXPECT_EQ(out.status(), kBadQpState);
  EXPECT_EQ(modify(qp, to_rts(qpn)), EINVAL);
  EXPECT_EQ(out.status(), kBadQpState);
  ASSERT_EQ(modify(qp, to_init(qpn)), 0);
  EXPECT_EQ(modify(qp, to_init(qpn)), EINVAL);
  EXPECT_EQ(out.status(), kBadQpState);
  EXPECT_EQ(state(), 1u);
}

TEST_F(SoftnicAbiQp, RefusesAnotherPortAndPkey) {
  create_qp();
  EXPECT_EQ(modify(qp, to_init(qpn).set(kQpc + 15, 23, 16, 2)), EINVAL);
  EXPECT_EQ(out.status(), kBadParameter);
  EXPECT_EQ(modify(qp, to_init(qpn).set(kQpc + 6, 15, 0, 1)), EINVAL);
  EXPECT_EQ(out.status(), kBadParameter);
  EXPECT_EQ(state(), 0u);
}

TEST_F(SoftnicAbiQp, RefusesImpossiblePaths) {
  create_qp();
  ASSERT_EQ(modify(qp, to_init(qpn)), 0);
  EXPECT_EQ(modify(qp, to_rtr(qpn, qpn).set(kQpc + 2, 31, 29, 0)), EINVAL);  // mtu 0
  EXPECT_EQ(modify(qp, to_rtr(qpn, qpn).set(kQpc + 2, 31, 29, 6)), EINVAL);  // mtu 8192
  EXPECT_EQ(modify(qp, to_rtr(qpn, qpn).set(kQpc + 2, 28, 24, 31)), EINVAL);
  EXPECT_EQ(modify(qp, to_rtr(qpn, qpn).set(kQpc + 7, 15, 0, 0)), EINVAL);       // LID 0
  EXPECT_EQ(modify(qp, to_rtr(qpn, qpn).set(kQpc + 7, 15, 0, 0xc001)), EINVAL);  // multicast
  EXPECT_EQ(modify(qp, to_rtr(qpn, qpn).set(kQpc + 36, 23, 21, 5)), EINVAL);
  EXPECT_EQ(out.status(), kBadParameter);
  EXPECT_EQ(state(), 1u);
}

TEST_F(SoftnicAbiQp, RefusesAnInitiatorDepthBeyondTheCap) {
  create_qp();
  ASSERT_EQ(modify(qp, to_init(qpn)), 0);
  ASSERT_EQ(modify(qp, to_rtr(qpn, qpn)), 0);
  EXPECT_EQ(modify(qp, to_rts(qpn).set(kQpc + 28, 23, 21, 5)), EINVAL);
  EXPECT_EQ(out.status(), kBadParameter);
}

TEST_F(SoftnicAbiQp, RefusesAnotherObjectsNumberAsTheKernelDoes) {
  create_qp();
  Mailbox in = to_init(qpn + 1);
  out.fill(0x5a);
  Mailbox untouched = out;
  EXPECT_EQ(mlx5dv_devx_obj_modify(qp, in.data(), in.size(), out.data(), out.size()), EINVAL);
  EXPECT_EQ(std::memcmp(out.data(), untouched.data(), out.size()), 0);
}

TEST_F(SoftnicAbiQp, RefusesCommandsOfAnotherKindOfObject) {
  create_qp();
  EXPECT_EQ(modify(qp, Mailbox(272, 0x403).set(2, 23, 0, qpn)), EINVAL);
  EXPECT_EQ(modify(qp, Mailbox(272, 0x500).set(2, 23, 0, qpn)), EINVAL);
  EXPECT_EQ(modify(qp, Mailbox(272, 0xffff).set(2, 23, 0, qpn)), EINVAL);
  Mailbox in(16, 0x402);
  in.set(2, 23, 0, qpn);
  EXPECT_EQ(mlx5dv_devx_obj_query(qp, in.data(), 16, out.data(), 16), EINVAL);
}

TEST_F(SoftnicAbiQp, RefusesWrongLengthsOfTransitions) {
  create_qp();
  Mailbox in = to_init(qpn);
  in.resize(264);
  EXPECT_EQ(modify(qp, in), EIO);
  EXPECT_EQ(out.status(), kBadInputLength);
  EXPECT_EQ(modify(qp, Mailbox(272, 0x507).set(2, 23, 0, qpn)), EIO);
  EXPECT_EQ(out.status(), kBadInputLength);
}

TEST_F(SoftnicAbiQp, RefusesAShortAnswerOfQuery) {
  create_qp();
  Mailbox in(16, 0x50b);
  in.set(2, 23, 0, qpn);
  Mailbox answer(64);
  EXPECT_EQ(mlx5dv_devx_obj_query(qp, in.data(), 16, answer.data(), answer.size()), EIO);
  EXPECT_EQ(answer.status(), kBadOutputLength);
}

TEST_F(SoftnicAbiQp, RefusesMailboxesShorterThanAHeader) {
  Mailbox in = qp_command(cqn);
  EXPECT_EQ(mlx5dv_devx_obj_create(context, in.data(), 12, out.data(), 16), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(mlx5dv_devx_obj_create(context, in.data(), 272, out.data(), 8), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(mlx5dv_devx_obj_create(context, nullptr, 272, out.data(), 16), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(SoftnicAbiQp, RefusesUnknownResources) {
  expect_refused(qp_command(0xffff), kBadResource, EINVAL);
  expect_refused(qp_command(cqn).set(kQpc + 1, 23, 0, 0xfffff), kBadResource, EINVAL);
  expect_refused(qp_command(cqn).set(kQpc + 3, 23, 0, 0xfffff), kBadResource, EINVAL);
  expect_refused(qp_command(cqn).set(0x108 / 4, 31, 0, 0xfffff), kBadResource, EINVAL);
  expect_refused(qp_command(cqn).set(kQpc + 57, 31, 0, 0xfffff), kBadResource, EINVAL);
}

TEST_F(SoftnicAbiQp, RefusesAnUnknownSharedReceiveQueue) {
  Mailbox in = qp_command(cqn).set(kQpc + 43, 26, 24, 1).set(kQpc + 43, 23, 0, 0xfffff);
  expect_refused(in.set(kQpc + 39, 23, 0, cqn), kBadResource, EINVAL);
}

TEST_F(SoftnicAbiQp, RefusesQueuesBeyondTheUmem) {
  expect_refused(qp_command(cqn).set(kQpc + 2, 14, 11, 9), kBadParameter, EINVAL);
  expect_refused(qp_command(cqn).set(0x104 / 4, 31, 0, kUmemBytes - 64), kBadParameter, EINVAL);
  expect_refused(qp_command(cqn).set(0x100 / 4, 31, 0, ~0u), kBadParameter, EINVAL);
}

TEST_F(SoftnicAbiQp, RefusesMisalignment) {
  expect_refused(qp_command(cqn).set(0x104 / 4, 31, 0, kQpOffset + 16), kBadParameter, EINVAL);
  expect_refused(qp_command(cqn).set(kQpc + 41, 31, 0, kRecordOffset + 68), kBadParameter, EINVAL);
}

TEST_F(SoftnicAbiQp, RefusesServicesAndModesItDoesNotOffer) {
  expect_refused(qp_command(cqn).set(kQpc, 23, 16, 1), kBadParameter, EINVAL);       // UC
  expect_refused(qp_command(cqn).set(kQpc, 23, 16, 9), kBadParameter, EINVAL);       // raw
  expect_refused(qp_command(cqn).set(kQpc + 4, 31, 30, 1), kBadParameter, EINVAL);   // no record
  expect_refused(qp_command(cqn).set(kQpc + 1, 31, 31, 1), kBadParameter, EINVAL);   // signature
  expect_refused(qp_command(cqn).set(kQpc + 43, 26, 24, 2), kBadParameter, EINVAL);  // rq_type
  expect_refused(qp_command(cqn).set(2, 23, 0, 77), kBadParameter, EINVAL);          // input_qpn
}

TEST_F(SoftnicAbiQp, PutsItsReceiveQueueFirst) {
  Mailbox in = qp_command(cqn);
  in.set(kQpc + 43, 26, 24, 0).set(kQpc + 39, 23, 0, cqn);
  in.set(kQpc + 2, 22, 19, 3).set(kQpc + 2, 18, 16, 2);  // 8 entries of 64 bytes
  // 512 bytes of receive queue and 1024 of send queue: this start leaves exactly enough.
  EXPECT_NE(create(in.set(0x104 / 4, 31, 0, kUmemBytes - 1536)), nullptr) << out.status();
  expect_refused(in.set(0x104 / 4, 31, 0, kUmemBytes - 1472), kBadParameter, EINVAL);
}

TEST_F(SoftnicAbiQp, KeepsItsResourcesFromBeingDestroyed) {
  create_qp();
  EXPECT_EQ(mlx5dv_devx_obj_destroy(cq), EBUSY);
  EXPECT_EQ(mlx5dv_devx_umem_dereg(umem), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY);
  EXPECT_EQ(mlx5dv_devx_obj_destroy(qp), 0);
  EXPECT_EQ(mlx5dv_devx_obj_destroy(cq), 0);
  EXPECT_EQ(mlx5dv_devx_umem_dereg(umem), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

TEST_F(SoftnicAbiQp, IsNotReachedFromAnotherContext) {
  ibv_context* other = ibv_open_device(first_device());
  ASSERT_NE(other, nullptr);
  Mailbox in = qp_command(cqn);
  EXPECT_EQ(mlx5dv_devx_obj_create(other, in.data(), in.size(), out.data(), 16), nullptr);
  EXPECT_EQ(out.status(), kBadResource);
  // Everything of the first context but the PD, which belongs to the second.
  ibv_pd* foreign = ibv_alloc_pd(other);
  expect_refused(qp_command(cqn).set(kQpc + 1, 23, 0, pdn_of(foreign)), kBadResource, EINVAL);
  EXPECT_EQ(ibv_close_device(other), 0);
}

TEST_F(SoftnicAbiQp, DcInitiatorNeedsNoPath) {
  Mailbox in = qp_command(cqn).set(kQpc, 23, 16, 5);
  qp = create(in);
  ASSERT_NE(qp, nullptr);
  qpn = out.number();
  Mailbox init(272, 0x502);
  init.set(2, 23, 0, qpn).set(kQpc + 15, 23, 16, 1).set(kQpc + 51, 31, 0, 0x5623ceaf);
  EXPECT_EQ(modify(qp, init), 0);
  Mailbox ready(272, 0x503);
  ready.set(2, 23, 0, qpn).set(kQpc + 2, 31, 29, 5).set(kQpc + 2, 28, 24, 30);
  EXPECT_EQ(modify(qp, ready), 0);
  EXPECT_EQ(modify(qp, to_rts(qpn)), 0);
  EXPECT_EQ(query(qp, 0x50b, qpn, 272).get(kQpc + 51, 31, 0), 0x5623ceafu);
}

using SoftnicAbiCommand = SoftnicAbi;

TEST_F(SoftnicAbiCommand, KernelRefusesWhatCreatesNothing) {
  for (uint32_t opcode : {0x100u, 0x402u, 0x501u, 0x802u, 0x805u, 0xa08u, 0xffffu}) {
    Mailbox in(272, opcode);
    out.fill(0x5a);
    EXPECT_EQ(mlx5dv_devx_obj_create(context, in.data(), in.size(), out.data(), 16), nullptr);
    EXPECT_EQ(errno, EINVAL) << opcode;
    EXPECT_EQ(out.get(0, 31, 0), 0x5a5a5a5au) << opcode;
  }
}

TEST_F(SoftnicAbiCommand, KernelRefusesGeneralCommandsOffItsList) {
  for (uint32_t opcode : {0x203u, 0x802u, 0x805u, 0x500u, 0x400u, 0x50bu}) {
    Mailbox in(16, opcode);
    EXPECT_EQ(mlx5dv_devx_general_cmd(context, in.data(), 16, out.data(), 16), EINVAL) << opcode;
    EXPECT_EQ(out.status(), 0u);
  }
}

TEST_F(SoftnicAbiCommand, AllocatesAPdForQueues) {
  Mailbox in(16, 0x800);
  mlx5dv_devx_obj* domain = create(in);
  ASSERT_NE(domain, nullptr);
  uint32_t pdn = out.number();
  EXPECT_NE(pdn, pdn_of(pd));
  Mailbox cq = cq_command();
  ASSERT_NE(create(cq), nullptr);
  Mailbox qp = qp_command(out.number()).set(kQpc + 1, 23, 0, pdn);
  mlx5dv_devx_obj* made = create(qp);
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(mlx5dv_devx_obj_destroy(domain), EBUSY);
  EXPECT_EQ(mlx5dv_devx_obj_destroy(made), 0);
  EXPECT_EQ(mlx5dv_devx_obj_destroy(domain), 0);
}

TEST_F(SoftnicAbiCommand, AnInfinibandPortHasNoRoceAddress) {
  Mailbox in(16, 0x760);
  Mailbox answer(48);
  EXPECT_EQ(mlx5dv_devx_general_cmd(context, in.data(), 16, answer.data(), 48), EINVAL);
  EXPECT_EQ(answer.status(), kBadParameter);
}

Mailbox query_cap(ibv_context* context, uint32_t type, bool current) {
  Mailbox in(16, 0x100);
  in.set(1, 15, 0, type << 1 | (current ? 1u : 0u));
  Mailbox answer(4112);
  EXPECT_EQ(mlx5dv_devx_general_cmd(context, in.data(), 16, answer.data(), answer.size()), 0);
  return answer;
}

TEST_F(SoftnicAbiCommand, GeneralCapsAreWhatGpuClientsCheck) {
  for (bool current : {false, true}) {
    Mailbox cap = query_cap(context, 0, current);
    auto at = [&](size_t dword, unsigned high, unsigned low) {
      return cap.get(4 + dword, high, low);
    };
    EXPECT_EQ(at(1, 31, 31), 0u);    // hca_cap_2
    EXPECT_EQ(at(1, 15, 0), lid());  // vhca_id: unique
    EXPECT_EQ(at(4, 23, 16), 15u);   // log_max_qp_sz
    EXPECT_EQ(at(6, 23, 16), 22u);   // log_max_cq_sz
    EXPECT_EQ(at(13, 9, 8), 0u);     // port_type
    EXPECT_EQ(at(13, 7, 0), 1u);     // num_ports
    EXPECT_EQ(at(14, 28, 24), 30u);  // log_max_msg
    EXPECT_EQ(at(15, 3, 0), 1u);     // cqe_version
    EXPECT_EQ(at(16, 31, 31), 1u);   // compact_address_vector
    EXPECT_EQ(at(16, 5, 5), 1u);     // dct
    EXPECT_EQ(at(16, 2, 2), 0u);     // roce
    EXPECT_EQ(at(17, 31, 31), 1u);   // cq_oi
    EXPECT_EQ(at(17, 19, 19), 1u);   // cd
    EXPECT_EQ(at(17, 0, 0), 1u);     // rc
    EXPECT_EQ(at(18, 31, 31), 1u);   // uar_4k
    EXPECT_EQ(at(19, 20, 16), 9u);   // log_bf_reg_size
    EXPECT_GE(at(22, 15, 0), 256u);  // max_wqe_sz_sq_dc
    EXPECT_EQ(at(45, 0, 0), 0u);     // cqe_compression
  }
}

TEST_F(SoftnicAbiCommand, AtomicCapsOfferMaskedOperationsOfFourAndEightBytes) {
  Mailbox cap = query_cap(context, 3, true);
  EXPECT_EQ(cap.get(4 + 2, 31, 30), 1u);
  EXPECT_EQ(cap.get(4 + 2, 25, 25), 1u);
  EXPECT_EQ(cap.get(4 + 4, 15, 0), 0xfu);
  EXPECT_EQ(cap.get(4 + 5, 15, 0), 0xcu);
  EXPECT_EQ(cap.get(4 + 6, 15, 0), 0xcu);
}

// Fails at 438a779. Hazard: rdma-core's tests ask what a ConnectX can do with flow tables and with
// its own memory, and take a refusal for a broken device.
TEST_F(SoftnicAbiCommand, FlowTableAndDeviceMemoryCapsAreKnownAndEmpty) {
  for (uint32_t type : {0x7u, 0xfu}) {
    Mailbox cap = query_cap(context, type, true);
    EXPECT_EQ(cap.status(), 0u);
    for (size_t dword = 4; dword < 4112 / 4; ++dword) EXPECT_EQ(cap.get(dword, 31, 0), 0u);
  }
}

TEST_F(SoftnicAbiCommand, RefusesUnknownCapTypesAndShortAnswers) {
  Mailbox in(16, 0x100);
  in.set(1, 15, 0, 0x20 << 1 | 1);
  Mailbox answer(4112);
  EXPECT_EQ(mlx5dv_devx_general_cmd(context, in.data(), 16, answer.data(), 4112), EINVAL);
  EXPECT_EQ(answer.status(), kBadParameter);
  in.set(1, 15, 0, 1);
  EXPECT_EQ(mlx5dv_devx_general_cmd(context, in.data(), 16, answer.data(), 2048), EIO);
  EXPECT_EQ(answer.status(), kBadOutputLength);
}

TEST_F(SoftnicAbiCommand, EventQueueOfTheOnlyVector) {
  uint32_t unused = 0;
  EXPECT_EQ(mlx5dv_devx_query_eqn(context, 1, &unused), EINVAL);
}

}  // namespace
}  // namespace peal::softnic::abi_test
